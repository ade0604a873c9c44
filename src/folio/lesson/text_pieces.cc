#include "folio/lesson/text_pieces.h"

#include "folio/text/bpe_tokenizer.h"
#include "folio/text/split.h"

namespace folio {

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

}  // namespace folio
