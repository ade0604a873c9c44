#pragma once

#include <string>
#include <string_view>

#include "folio/text/tokenizer.h"

namespace folio {

// Turns tokens into text as they come, and never gives out part of a character: the beginning of
// one is held back until the tokens that complete it. Bytes that belong to no character become
// U+FFFD, one for each maximal ill-formed subpart, so that the output is always UTF-8 and, put
// together, the same as ReplaceInvalidUtf8 of all the bytes. The tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns what can be shown now that `id`, or tokens of these bytes, have come; may be empty.
  std::string Add(int32_t id) { return Add(tokenizer_.TokenBytes(id)); }
  std::string Add(std::string_view bytes);
  // Returns what was held back; the decoder can then begin another text.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace folio
