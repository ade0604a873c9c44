#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/corpus/text_stream.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

struct TextCount {
  std::string name;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t characters = 0;  // bytes that do not continue a UTF-8 character

  double bytes_per_token() const {
    return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
  }
};

// Counts the tokens of all documents of a text (text_stream.h), "-" for standard input; tokens and
// errors are those of EncodeInput (term/token_streams.h).
TextCount CountText(const Tokenizer& tokenizer, const std::string& file, const SpecialRule& rule,
                    const TextOptions& options);

// The texts and what they have together: a table, or one JSON object (`json`).
std::string DescribeCounts(std::vector<TextCount> counts, bool json);

}  // namespace folio
