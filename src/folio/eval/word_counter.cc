#include "folio/eval/word_counter.h"

#include "folio/base/utf8.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

// Python's str.isspace: White_Space, and four separators of ASCII.
bool IsPythonSpace(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || ClassOf(code) == CharClass::kSpace;
}

}  // namespace

void WordCounter::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t end = CompleteUtf8Prefix(held_);
  for (size_t at = 0; at < end;) {
    const Utf8Char c = DecodeUtf8(held_, at);
    const bool space = IsPythonSpace(c.code);
    runs_ += space && !in_space_;
    in_space_ = space;
    at += c.length;
  }
  held_.erase(0, end);
}

int64_t WordCounter::Finish() {
  const int64_t words = runs_ + 1;
  *this = {};
  return words;
}

}  // namespace folio
