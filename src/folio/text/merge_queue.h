#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "folio/text/pair_counts.h"

namespace folio {

// A pair that may be merged. Where it stood when it was counted first is a range of the trainer's
// list of positions.
struct MergeCandidate {
  int64_t count = 0;
  int32_t left = 0;
  int32_t right = 0;
  size_t first = 0;
  size_t positions = 0;
};

// Candidates by highest count, of equal counts by smallest (left, right). Counts may fall while
// candidates wait: Pop looks them up and puts back what has fallen. Only candidates whose counts
// have as many binary digits as the highest are kept in a heap, which stays small; the others
// wait unordered until their turn comes.
class MergeQueue {
 public:
  // Candidates whose counts fall below `min_count`, which is at least 1, are dropped.
  explicit MergeQueue(int64_t min_count) : min_count_(min_count) {}

  // REQUIRES: candidate.count is not above that of the last one popped.
  void Push(const MergeCandidate& candidate);
  // The best one, whose count is what `counts` says; nothing where none is left.
  std::optional<MergeCandidate> Pop(const PairCounts& counts);

 private:
  bool FillHeap(const PairCounts& counts);

  int64_t min_count_;
  size_t digits_ = 64;  // of the counts in heap_
  std::vector<MergeCandidate> heap_;
  std::array<std::vector<MergeCandidate>, 64> waiting_;  // by digits of the count, as it was
};

}  // namespace folio
