#include "folio/text/explain_text.h"

#include "folio/text/special_tokens.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using OnPretoken = std::function<void(const ExplainedPretoken&)>;

void ExplainBpePretoken(const BpeTokenizer& tokenizer, std::string_view bytes,
                        const OnPretoken& on_pretoken) {
  ExplainedPretoken pretoken{.bytes = bytes, .too_long = bytes.size() > kLongestShown};
  if (!pretoken.too_long) pretoken.merges = tokenizer.Explain(bytes);
  tokenizer.EncodePrefix(bytes, pretoken.ids);
  on_pretoken(pretoken);
}

// A pretoken of the text that is no special token.
void ExplainOrdinary(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                     const OnPretoken& on_pretoken) {
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer)) {
    ExplainBpePretoken(*bpe, text, on_pretoken);
    return;
  }
  size_t at = 0;
  for (const int32_t id : tokenizer.EncodeOrdinary(text, where)) {
    const size_t length = tokenizer.TokenBytes(id).size();
    on_pretoken({.bytes = text.substr(at, length), .ids = {id}});
    at += length;
  }
}

}  // namespace

void ForEachPretoken(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_pretoken) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  const SpecialFinder specials(tokenizer.special_tokens(), rule);
  for (size_t at = 0; at < text.size();) {
    const SpecialFinder::Match special = specials.Next(text, at);
    const std::string_view before =
        text.substr(0, special.token == nullptr ? text.size() : special.begin);
    while (at < before.size()) {
      const size_t end =
          bpe == nullptr ? before.size() : NextPretoken(bpe->vocab().pattern, before, at);
      on_pretoken(text.substr(at, end - at), nullptr);
      at = end;
    }
    if (special.token == nullptr) return;
    at = special.end();
    on_pretoken(text.substr(special.begin, at - special.begin), special.token);
  }
}

void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where, const OnPretoken& on_pretoken) {
  ForEachPretoken(tokenizer, text, rule, [&](std::string_view bytes, const SpecialToken* special) {
    if (special == nullptr) {
      ExplainOrdinary(tokenizer, bytes, where, on_pretoken);
    } else {
      on_pretoken({.bytes = bytes, .special = true, .ids = {special->id}});
    }
  });
}

}  // namespace folio
