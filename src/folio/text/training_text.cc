#include "folio/text/training_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "folio/base/error.h"

namespace folio {
namespace {

struct PretokenRef {
  int64_t count;
  uint32_t part;
  uint32_t index;
};

// The pretokens of two bytes and more, most frequent first.
std::vector<PretokenRef> SortByCount(const std::vector<CountedPretokens>& parts,
                                     size_t& positions) {
  std::vector<PretokenRef> refs;
  positions = 1;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    for (uint32_t i = 0; i < parts[part].counts.size(); ++i) {
      const size_t length = parts[part].pretokens[i].size();
      if (length < 2) continue;
      refs.push_back({parts[part].counts[i], part, i});
      positions += length + 1;
    }
  }
  std::sort(refs.begin(), refs.end(), [](const PretokenRef& a, const PretokenRef& b) {
    if (a.count != b.count) return a.count > b.count;
    return a.part != b.part ? a.part < b.part : a.index < b.index;
  });
  return refs;
}

}  // namespace

TrainingText::TrainingText(std::vector<CountedPretokens> parts,
                           const std::array<int32_t, 256>& symbols) {
  size_t positions = 0;
  const std::vector<PretokenRef> refs = SortByCount(parts, positions);
  if (positions > std::numeric_limits<uint32_t>::max()) {
    throw Error(
        ErrorKind::kResource, "the text has too many different pieces",
        fmt::format("{} bytes in {} pieces, at most 4 GiB are supported", positions, refs.size()),
        "train on less text");
  }
  row_.reserve(positions);
  row_.push_back(kEdge);
  for (const PretokenRef& ref : refs) {
    for (const char c : parts[ref.part].pretokens[ref.index]) {
      row_.push_back(symbols[static_cast<uint8_t>(c)]);
    }
    row_.push_back(kEdge);
    if (runs_.empty() || runs_.back().weight != ref.count) runs_.push_back({0, ref.count});
    runs_.back().end = row_.size();
  }
  run_of_.resize((row_.size() + kBlock - 1) / kBlock);
  for (size_t block = 0, run = 0; block < run_of_.size() && !runs_.empty(); ++block) {
    while (run + 1 < runs_.size() && runs_[run].end <= block * kBlock) ++run;
    run_of_[block] = static_cast<uint32_t>(run);
  }
}

}  // namespace folio
