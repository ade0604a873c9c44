#include "folio/text/explain_text.h"

#include "folio/text/special_tokens.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using OnPiece = std::function<void(const ExplainedPiece&)>;

void ExplainBpePiece(const BpeTokenizer& tokenizer, std::string_view bytes,
                     const OnPiece& on_piece) {
  ExplainedPiece piece{.bytes = bytes, .too_long = bytes.size() > kLongestShown};
  if (!piece.too_long) piece.merges = tokenizer.Explain(bytes);
  tokenizer.EncodePrefix(bytes, piece.ids);
  on_piece(piece);
}

// A piece of the text that is no special token.
void ExplainOrdinary(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                     const OnPiece& on_piece) {
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer)) {
    ExplainBpePiece(*bpe, text, on_piece);
    return;
  }
  size_t at = 0;
  for (const int32_t id : tokenizer.EncodeOrdinary(text, where)) {
    const size_t length = tokenizer.TokenBytes(id).size();
    on_piece({.bytes = text.substr(at, length), .ids = {id}});
    at += length;
  }
}

}  // namespace

void ForEachPiece(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_piece) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  const SpecialFinder specials(tokenizer.special_tokens(), rule);
  for (size_t at = 0; at < text.size();) {
    const SpecialFinder::Match special = specials.Next(text, at);
    const std::string_view before =
        text.substr(0, special.token == nullptr ? text.size() : special.begin);
    while (at < before.size()) {
      const size_t end =
          bpe == nullptr ? before.size() : NextPiece(bpe->vocab().pattern, before, at);
      on_piece(text.substr(at, end - at), nullptr);
      at = end;
    }
    if (special.token == nullptr) return;
    at = special.end();
    on_piece(text.substr(special.begin, at - special.begin), special.token);
  }
}

void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where, const OnPiece& on_piece) {
  ForEachPiece(tokenizer, text, rule, [&](std::string_view bytes, const SpecialToken* special) {
    if (special == nullptr) {
      ExplainOrdinary(tokenizer, bytes, where, on_piece);
    } else {
      on_piece({.bytes = bytes, .special = true, .ids = {special->id}});
    }
  });
}

}  // namespace folio
