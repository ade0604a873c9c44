#include "folio/text/pretoken_counter.h"

#include <algorithm>
#include <array>

#include "folio/base/thread_pool.h"
#include "folio/text/pretoken_table.h"
#include "folio/text/split_simd.h"

namespace folio {
namespace {

// Text that one task counts, as long as it can be cut.
constexpr size_t kTaskBytes = size_t{1} << 20;

void CountPretokens(SplitPattern pattern, std::string_view text, const char* readable,
                    PretokenTable& table) {
  std::array<size_t, PretokenTable::kBatch> ends;
  size_t begin = 0;
  while (const size_t n = SplitPretokens(pattern, text, begin, /*at_end=*/true, ends)) {
    const size_t next = ends[n - 1];
    for (size_t i = 0; i < n; ++i) ends[i] -= begin;
    table.AddBatch(text.data() + begin, ends.data(), n, readable);
    begin = next;
  }
}

}  // namespace

PretokenCounter::PretokenCounter(SplitPattern pattern) : pattern_(pattern) {}
PretokenCounter::~PretokenCounter() = default;

void PretokenCounter::AddText(std::string_view text) {
  std::vector<size_t> cuts = {0};
  while (cuts.back() < text.size()) {
    const size_t at = cuts.back() + kTaskBytes;
    cuts.push_back(at < text.size() ? FindCut(text, at) : text.size());
  }
  while (tables_.size() < static_cast<size_t>(Threads())) {
    tables_.push_back(std::make_unique<PretokenTable>());
  }
  ParallelFor(static_cast<int64_t>(cuts.size()) - 1, [&](int64_t task, int thread) {
    const auto i = static_cast<size_t>(task);
    CountPretokens(pattern_, text.substr(cuts[i], cuts[i + 1] - cuts[i]), text.data() + text.size(),
                   *tables_[static_cast<size_t>(thread)]);
  });
}

int64_t PretokenCounter::pretokens() const {
  int64_t sum = 0;
  for (const auto& table : tables_) sum += table->pretokens();
  return sum;
}

std::vector<CountedPretokens> PretokenCounter::Take() {
  std::vector<CountedPretokens> parts(CountTable<PretokenTable::ShortEntry>::kParts);
  ParallelFor(static_cast<int64_t>(parts.size()), [&](int64_t part, int) {
    PretokenTable sum(CountTable<PretokenTable::ShortEntry>::kPartBits);
    for (const auto& table : tables_) sum.AddPart(*table, static_cast<uint64_t>(part));
    CountedPretokens& out = parts[static_cast<size_t>(part)];
    out.counts.reserve(sum.distinct());
    sum.ForEach([&](std::string_view pretoken, int64_t count) {
      out.pretokens.Add(pretoken);
      out.counts.push_back(count);
    });
  });
  tables_.clear();
  return parts;
}

}  // namespace folio
