#include "folio/text/streaming_decoder.h"

#include <utility>

#include "folio/base/utf8.h"

namespace folio {

std::string StreamingDecoder::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t complete = CompleteUtf8Prefix(held_);
  std::string text = ReplaceInvalidUtf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string StreamingDecoder::Flush() {
  return ReplaceInvalidUtf8(std::exchange(held_, {}));
}

}  // namespace folio
