#pragma once

#include <memory>
#include <span>
#include <string>

#include "folio/text/tokenizer.h"

namespace folio {

// The tokenizer with special tokens behind its own; what it encodes otherwise stays the same. One
// of bytes becomes a byte-level BPE without merges. Throws a kUsage Error for one of characters,
// and where a text is empty, not UTF-8, or a token already.
std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts);

}  // namespace folio
