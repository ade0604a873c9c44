#include "folio/text/bpe_merger.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "folio/base/check.h"
#include "folio/base/utf8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/text/bpe_merger.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace folio::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The pairs of a pretoken as numbers rank * kScanBytes + place, so that the smallest is the next to
// merge and the leftmost of its rank.
constexpr uint32_t kNoPair = ~uint32_t{0};

HWY_INLINE uint32_t PairAt(uint32_t rank, size_t place) {
  return rank == PairTable::kNone ? kNoPair : rank * kScanBytes + static_cast<uint32_t>(place);
}

// Up to two vectors of pairs that stay in registers: a vector read from where single numbers were
// just written waits for them.
class FewPairs {
 public:
  using D = hn::CappedTag<uint32_t, 16>;
  using V = hn::Vec<D>;

  static size_t Most() { return 2 * hn::Lanes(D()); }
  HWY_INLINE explicit FewPairs(const uint32_t* pairs)
      : low_(hn::Load(D(), pairs)), high_(hn::Load(D(), pairs + hn::Lanes(D()))) {}
  HWY_INLINE void Set(size_t place, uint32_t pair) {
    const D d;
    const V places = hn::Iota(d, 0);
    const V value = hn::Set(d, pair);
    const auto number = static_cast<uint32_t>(place);
    const auto lanes = static_cast<uint32_t>(hn::Lanes(d));
    low_ = hn::IfThenElse(hn::Eq(places, hn::Set(d, number)), value, low_);
    high_ = hn::IfThenElse(hn::Eq(places, hn::Set(d, number - lanes)), value, high_);
  }
  HWY_INLINE uint32_t Smallest() const {
    return hn::GetLane(hn::MinOfLanes(D(), hn::Min(low_, high_)));
  }

 private:
  V low_;
  V high_;
};

class ManyPairs {
 public:
  using D = hn::CappedTag<uint32_t, 16>;

  HWY_INLINE ManyPairs(uint32_t* pairs, size_t n) : pairs_(pairs), n_(n) {}
  HWY_INLINE void Set(size_t place, uint32_t pair) { pairs_[place] = pair; }
  HWY_INLINE uint32_t Smallest() const {
    const D d;
    auto smallest = hn::Load(d, pairs_);
    for (size_t i = hn::Lanes(d); i < n_; i += hn::Lanes(d)) {
      smallest = hn::Min(smallest, hn::Load(d, pairs_ + i));
    }
    return hn::GetLane(hn::MinOfLanes(d, smallest));
  }

 private:
  uint32_t* pairs_;
  size_t n_;
};

// Merges until no pair is left. `there` are the places of symbols, the bits below n.
template <class Pairs>
HWY_INLINE uint64_t MergeAll(const BpeModel& model, Pairs pairs, uint64_t there, int32_t* symbols) {
  const PairTable& table = model.pairs();
  while (true) {
    const uint32_t best = pairs.Smallest();
    if (best == kNoPair) return there;
    const size_t at = best % kScanBytes;
    const int32_t merged = model.merged(best / kScanBytes);
    symbols[at] = merged;
    const uint64_t above = ~uint64_t{0} << at << 1;
    uint64_t behind = there & above;
    const uint64_t gone = behind & (~behind + 1);
    there ^= gone;
    behind ^= gone;
    pairs.Set(static_cast<size_t>(std::countr_zero(gone)), kNoPair);
    uint32_t pair = kNoPair;
    if (behind != 0) {
      pair = PairAt(table.Rank(merged, symbols[std::countr_zero(behind)]), at);
    }
    pairs.Set(at, pair);
    const uint64_t before = there & ~above & ~(uint64_t{1} << at);
    if (before != 0) {
      const auto place = static_cast<size_t>(63 - std::countl_zero(before));
      pairs.Set(place, PairAt(table.Rank(symbols[place], merged), place));
    }
  }
}

size_t ScanMerge(const BpeModel& model, std::string_view pretoken, int32_t* ids) {
  const size_t n = pretoken.size();
  HWY_ALIGN uint32_t pairs[kScanBytes];
  int32_t symbols[kScanBytes];
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(pretoken[i]); };
  for (size_t i = 0; i < n; ++i) {
    symbols[i] = model.byte_id(byte(i));
    pairs[i] = i + 1 < n ? PairAt(model.byte_pair_rank(byte(i), byte(i + 1)), i) : kNoPair;
  }
  for (size_t i = n; i < FewPairs::Most() || i % 16 != 0; ++i) pairs[i] = kNoPair;
  uint64_t there = ~uint64_t{0} >> (64 - n);
  there = n <= FewPairs::Most() ? MergeAll(model, FewPairs(pairs), there, symbols)
                                : MergeAll(model, ManyPairs(pairs, n), there, symbols);
  size_t count = 0;
  for (; there != 0; there &= there - 1) ids[count++] = symbols[std::countr_zero(there)];
  return count;
}

}  // namespace folio::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio {
namespace {

HWY_EXPORT(ScanMerge);

constexpr size_t kWindow = 1024;
constexpr int kTries = 32;

size_t WindowFor(const BpeModel& model) {
  return std::max(kWindow, 8 * model.longest_token());
}

}  // namespace

size_t MergeByScan(const BpeModel& model, std::string_view pretoken, int32_t* ids) {
  return HWY_DYNAMIC_DISPATCH(ScanMerge)(model, pretoken, ids);
}

void MergeByHeap(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                 std::vector<int32_t>& ids) {
  const size_t n = pretoken.size();
  FOLIO_CHECK(n < ~uint32_t{0}, "places in a piece are 32-bit");
  const PairTable& table = model.pairs();
  std::vector<int32_t>& symbols = scratch.symbols;
  std::vector<uint32_t>& previous = scratch.previous;
  std::vector<uint32_t>& next = scratch.next;
  std::vector<uint64_t>& heap = scratch.heap;
  symbols.resize(n);
  previous.resize(n + 1);
  next.resize(n);
  heap.clear();
  // Pairs as numbers: the rank above, the place below. One whose rank is no longer that of the
  // symbols at its place is passed over.
  const auto push = [&](uint32_t rank, size_t at) {
    if (rank == PairTable::kNone) return false;
    heap.push_back(uint64_t{rank} << 32 | at);
    return true;
  };
  for (size_t i = 0; i < n; ++i) {
    symbols[i] = model.byte_id(static_cast<unsigned char>(pretoken[i]));
    previous[i] = static_cast<uint32_t>(i - 1);
    next[i] = static_cast<uint32_t>(i + 1);
  }
  for (size_t i = 0; i + 1 < n; ++i) push(table.Rank(symbols[i], symbols[i + 1]), i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto at = static_cast<uint32_t>(heap.back());
    heap.pop_back();
    if (symbols[at] < 0) continue;
    const uint32_t gone = next[at];
    if (gone >= n || table.Rank(symbols[at], symbols[gone]) != rank) continue;
    const uint32_t after = next[gone];
    symbols[at] = model.merged(rank);
    symbols[gone] = -1;
    next[at] = after;
    previous[after] = at;
    if (after < n && push(table.Rank(symbols[at], symbols[after]), at)) {
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    if (at > 0 && push(table.Rank(symbols[previous[at]], symbols[at]), previous[at])) {
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  for (size_t i = 0; i < n; i = next[i]) ids.push_back(symbols[i]);
}

// True if the encoding of every text that begins with `text` begins with this token, which that of
// `text` does: it has a boundary at one of the last places, as no token is longer than they are
// many, and up to there it is an encoding too. Only the beginning of `text` is looked at.
bool BeginsForCertain(const BpeModel& model, std::string_view text, int32_t token,
                      MergeScratch& scratch) {
  const size_t longest = model.longest_token();
  std::vector<int32_t> ids;
  for (size_t end = longest + 1; end <= 2 * longest; ++end) {
    ids.clear();
    MergeByHeap(model, text.substr(0, end), scratch, ids);
    if (ids.front() != token) return false;
  }
  return true;
}

// Two encodings of which one ends and the other begins with the same token at the same place are,
// put together, the encoding of the whole. So the next window begins with a token of this one, as
// late as one is found that the next window begins with too. A window that has to grow may begin
// with another token then: with merges whose ranks fall along the text, the end of it decides the
// beginning. What is put together before is wrong in that case.
size_t MergeByWindows(const BpeModel& model, std::string_view pretoken, size_t window, bool at_end,
                      MergeScratch& scratch, std::vector<int32_t>& ids) {
  const ByteStrings& tokens = model.vocab().tokens;
  std::vector<int32_t> current;
  std::vector<int32_t>& following = scratch.window;
  const size_t first = ids.size();
  size_t begin = 0;
  size_t length = window;
  MergeByHeap(model, pretoken.substr(begin, length), scratch, current);
  while (begin + length < pretoken.size()) {
    size_t at = begin + length;  // where the token `i` begins
    size_t i = current.size();
    bool found = false;
    for (int tries = 0; tries < kTries && i > 1 && !found;) {
      at -= tokens[static_cast<size_t>(current[--i])].size();
      if (at + length / 4 > begin + length) continue;  // too near the end to be sure
      if (!at_end && (at + window > pretoken.size() || !BeginsCharacter(pretoken[at]))) continue;
      ++tries;
      following.clear();
      MergeByHeap(model, pretoken.substr(at, window), scratch, following);
      found = following.front() == current[i];
    }
    if (!found) {  // not in any text that somebody wrote, but the window can grow
      length *= 2;
      const int32_t front = current.front();
      current.clear();
      MergeByHeap(model, pretoken.substr(begin, length), scratch, current);
      if (begin == 0 || current.front() == front) continue;
      ids.resize(first);
      if (!at_end) return 0;
      MergeByHeap(model, pretoken, scratch, ids);
      return pretoken.size();
    }
    ids.insert(ids.end(), current.begin(), current.begin() + static_cast<ptrdiff_t>(i));
    current.swap(following);
    begin = at;
    length = window;
  }
  if (!at_end) {
    if (begin == 0 || BeginsForCertain(model, pretoken.substr(begin), current.front(), scratch)) {
      return begin;
    }
    ids.resize(first);
    return 0;
  }
  ids.insert(ids.end(), current.begin(), current.end());
  return pretoken.size();
}

void MergePretoken(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                   std::vector<int32_t>& ids) {
  if (pretoken.empty()) return;
  if (pretoken.size() <= kScanBytes) {
    int32_t few[kScanBytes];
    ids.insert(ids.end(), few, few + MergeByScan(model, pretoken, few));
    return;
  }
  const size_t window = WindowFor(model);
  if (pretoken.size() <= 2 * window || !model.proper()) {
    MergeByHeap(model, pretoken, scratch, ids);
  } else {
    MergeByWindows(model, pretoken, window, true, scratch, ids);
  }
}

size_t MergeDecided(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                    std::vector<int32_t>& ids) {
  const size_t window = WindowFor(model);
  return model.proper() && pretoken.size() > 2 * window
             ? MergeByWindows(model, pretoken, window, false, scratch, ids)
             : 0;
}

}  // namespace folio
#endif
