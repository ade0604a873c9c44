#include "folio/infer/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"

namespace folio {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) {
      throw UsageError("a stop string is empty", "every text would end before its beginning",
                       "leave it out, or say at which text to stop");
    }
    if (ReplaceInvalidUtf8(stop) != stop) {
      throw UsageError(fmt::format("the stop string '{}' is not UTF-8", ReplaceInvalidUtf8(stop)),
                       "texts are, so that it would never be found");
    }
    longest_ = std::max(longest_, stop.size());
  }
}

std::string StopStrings::Add(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t begin = held_.size(), end = held_.npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == held_.npos) continue;
    const size_t last = at + stop.size();
    if (last < end || (last == end && at < begin)) {
      begin = at;
      end = last;
    }
  }
  found_ = end != held_.npos;
  const size_t shown = found_ ? begin : held_.size() - Beginning();
  std::string out = held_.substr(0, shown);
  if (found_) {
    held_.clear();
  } else {
    held_.erase(0, shown);
  }
  return out;
}

std::string StopStrings::Flush() {
  return std::exchange(held_, {});
}

size_t StopStrings::Beginning() const {
  const std::string_view held = held_;
  for (size_t size = std::min(held.size(), longest_); size > 0; --size) {
    const std::string_view end = held.substr(held.size() - size);
    if (std::ranges::any_of(stops_, [&](const auto& stop) { return stop.starts_with(end); })) {
      return size;
    }
  }
  return 0;
}

}  // namespace folio
