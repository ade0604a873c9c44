#include "folio/text/merge_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace folio {
namespace {

size_t Digits(int64_t count) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(count)));
}

uint64_t KeyOf(const MergeCandidate& candidate) {
  return PairKey(candidate.left, candidate.right);
}

bool Worse(const MergeCandidate& a, const MergeCandidate& b) {
  if (a.count != b.count) return a.count < b.count;
  return KeyOf(a) > KeyOf(b);
}

}  // namespace

void MergeQueue::Push(const MergeCandidate& candidate) {
  if (candidate.count < min_count_) return;
  const size_t digits = Digits(candidate.count);
  if (digits != digits_) {
    waiting_[digits].push_back(candidate);
    return;
  }
  heap_.push_back(candidate);
  std::push_heap(heap_.begin(), heap_.end(), Worse);
}

// Moves those with the most digits into the empty heap. False where nobody waits.
bool MergeQueue::FillHeap(const PairCounts& counts) {
  constexpr size_t kAhead = 8;
  digits_ = waiting_.size() - 1;
  while (digits_ > 0 && waiting_[digits_].empty()) --digits_;
  if (digits_ == 0) return false;
  std::vector<MergeCandidate> candidates = std::exchange(waiting_[digits_], {});
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i + kAhead < candidates.size()) counts.Prefetch(KeyOf(candidates[i + kAhead]));
    MergeCandidate& candidate = candidates[i];
    candidate.count = counts.Count(KeyOf(candidate));
    if (candidate.count < min_count_) continue;
    const size_t digits = Digits(candidate.count);
    (digits == digits_ ? heap_ : waiting_[digits]).push_back(candidate);
  }
  std::make_heap(heap_.begin(), heap_.end(), Worse);
  return true;
}

std::optional<MergeCandidate> MergeQueue::Pop(const PairCounts& counts) {
  for (;;) {
    if (heap_.empty()) {
      if (!FillHeap(counts)) return std::nullopt;
      continue;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Worse);
    MergeCandidate best = heap_.back();
    heap_.pop_back();
    const int64_t count = counts.Count(KeyOf(best));
    if (count == best.count) return best;
    best.count = count;
    Push(best);
  }
}

}  // namespace folio
