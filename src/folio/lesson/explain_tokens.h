#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/report/report.h"
#include "folio/term/console.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Lines for a person: the pretoken and its bytes, the symbols after each merge, the ids.
std::string RenderPretoken(const Tokenizer& tokenizer, const ExplainedPretoken& pretoken,
                           const Terminal& terminal);
// {"text","bytes":[72],"merges":[{"left","right","merged","rank"}],"ids":[39]}, and "special" or
// "too_long" if true; invalid UTF-8 in the text becomes U+FFFD.
std::string PretokenJson(const ExplainedPretoken& pretoken);

// Describes a tokenizer, opened as `spec`. With `ascii` the text is ASCII alone.
Report DescribeTokenizer(const Tokenizer& tokenizer, const std::string& spec, bool ascii);
// Describes single tokens: a line for each, or one JSON object (`json`). Throws what
// Tokenizer::TokenBytes throws.
std::string DescribeTokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json,
                           bool ascii);

}  // namespace folio
