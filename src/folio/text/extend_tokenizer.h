#pragma once

#include <memory>
#include <span>
#include <string>

#include "folio/text/tokenizer.h"

namespace folio {

// Tokenizer::WithSpecials for texts that somebody asked for. Throws a kUsage Error where one is
// empty, not UTF-8, or a token already.
std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts);

}  // namespace folio
