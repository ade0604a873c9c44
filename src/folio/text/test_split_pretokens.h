#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "folio/text/split.h"

namespace folio {

// The ends of the decided pretokens, by the scanner: the expected result of SplitPretokens.
inline std::vector<size_t> OneByOne(SplitPattern pattern, std::string_view text,
                                    bool at_end = true) {
  std::vector<size_t> ends;
  for (size_t begin = 0; begin < text.size();) {
    begin = NextPretoken(pattern, text, begin, at_end);
    if (begin == kUndecided) break;
    ends.push_back(begin);
  }
  return ends;
}

inline std::vector<std::string_view> PretokensOf(SplitPattern pattern, std::string_view text) {
  std::vector<std::string_view> pretokens;
  size_t begin = 0;
  for (const size_t end : OneByOne(pattern, text)) {
    pretokens.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pretokens;
}

// Splits by SplitPretokens, with room for `capacity` at a time.
inline std::vector<size_t> ManyAtATime(SplitPattern pattern, std::string_view text, bool at_end,
                                       size_t capacity) {
  std::vector<size_t> ends;
  std::vector<size_t> some(capacity);
  while (const size_t count =
             SplitPretokens(pattern, text, ends.empty() ? 0 : ends.back(), at_end, some)) {
    ends.insert(ends.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(count));
  }
  return ends;
}

}  // namespace folio
