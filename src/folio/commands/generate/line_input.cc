#include "folio/commands/generate/line_input.h"

#include <algorithm>

#include "folio/base/error.h"

namespace folio {

bool LineInput::Fill() {
  constexpr size_t kLongestLine = size_t{1} << 20;
  while (held_.find('\n') == held_.npos && !ended_) {
    ended_ = input_.Read(held_, 4096) == 0;
    if (held_.size() > kLongestLine) {
      throw InputError("standard input: a line is longer than 1 MiB", {},
                       "give a long prompt in a file: --file FILE");
    }
  }
  return !held_.empty();
}

std::optional<std::string> LineInput::Next() {
  while (Fill()) {
    const size_t end = std::min(held_.find('\n'), held_.size());
    std::string line = held_.substr(0, end);
    held_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) return line;
  }
  return std::nullopt;
}

}  // namespace folio
