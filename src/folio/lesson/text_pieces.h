#pragma once

#include <functional>
#include <string_view>

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Calls on_piece(bytes, special) for what `text` is cut into before it is encoded, in order: the
// special tokens that `rule` allows, each with itself; between them, with null, the pieces of the
// split pattern of a byte-level BPE, for other tokenizers all that lies there. The bytes live in
// `text`.
void ForEachPiece(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_piece);

}  // namespace folio
