#include "folio/text/bpe_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "folio/base/check.h"
#include "folio/base/machine.h"
#include "folio/base/utf8.h"
#include "folio/text/split.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/text/bpe_encoder.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef FOLIO_TEXT_BPE_ENCODER_ONCE
#define FOLIO_TEXT_BPE_ENCODER_ONCE
namespace folio {
namespace {

// Consecutive pretokens of a text, and where their ids are written.
struct Batch {
  const BpeModel& model;
  EncodeScratch& scratch;
  const PretokenCache& cache;  // the cache of the scratch or of the model
  std::string_view text;
  size_t begin;
  size_t pretokens;  // the number of ends in scratch.ends
};

// Makes room behind `count` ids for the short units of a batch and `more` ids.
int32_t* Room(EncodeScratch& scratch, size_t count, size_t more) {
  const size_t needed =
      count + more + EncodeScratch::kUnits * PretokenKey::kMaxBytes + PretokenCache::kNarrow;
  if (scratch.ids.size() < needed) scratch.ids.resize(needed + needed / 2);
  return scratch.ids.data();
}

// Returns the end of the part of a pretoken that begins at `begin`: no merge crosses it. Ends are
// only between characters. REQUIRES: begin < pretoken.size().
size_t PartEnd(const BpeModel& model, std::string_view pretoken, size_t begin) {
  constexpr unsigned char kLengths[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(pretoken[i]); };
  for (size_t i = begin + kLengths[byte(begin) >> 4]; i < pretoken.size();) {
    if (model.Apart(byte(i - 1), byte(i))) return i;
    i += kLengths[byte(i) >> 4];
  }
  return pretoken.size();
}

// Writes the ids of a pretoken, whose first part ends at `end`, part by part, and returns how many.
// REQUIRES: room for pretoken.size() ids and PretokenCache::kNarrow more.
size_t EncodeParts(const Batch& batch, std::string_view pretoken, size_t end, int32_t* ids);

// Merges a pretoken, or a part of one, without a cache.
size_t EncodePart(const Batch& batch, std::string_view part, int32_t* ids) {
  if (part.size() <= kScanBytes && batch.model.all_tokens()) {
    return MergeByScan(batch.model, part, ids);
  }
  std::vector<int32_t>& merged = batch.scratch.merged;
  merged.clear();
  MergePretoken(batch.model, part, batch.scratch.merge, merged);
  batch.model.Expand(0, merged);
  std::copy(merged.begin(), merged.end(), ids);
  return merged.size();
}

// The ids of a pretoken that is in no cache; inserts it into one if that will save work.
size_t EncodeNew(const Batch& batch, std::string_view pretoken, const PretokenKey* key,
                 uint64_t hash, int32_t* ids) {
  EncodeScratch& scratch = batch.scratch;
  if (batch.model.Loses(pretoken)) {
    const std::string kept = batch.model.WithoutLost(pretoken);
    return EncodePart(batch, kept, ids);
  }
  const bool proper = batch.model.proper();
  const size_t end = proper ? PartEnd(batch.model, pretoken, 0) : pretoken.size();
  const int32_t whole = proper ? -1 : batch.model.FindWhole(pretoken);
  if (whole >= 0) *ids = whole;
  const size_t count = whole >= 0 ? 1 : EncodeParts(batch, pretoken, end, ids);
  if (key != nullptr && count <= batch.cache.room()) {
    if (scratch.cache) scratch.cache->Insert(*key, hash, {ids, count});
  } else if (scratch.long_pretokens && (end == pretoken.size() || end == 1)) {
    // A pretoken of several long parts is found as fast by its parts.
    scratch.long_pretokens->Insert(pretoken, hash, {ids, count});
  }
  return count;
}

// Encodes a short pretoken that is not in its first place in the cache. Returns how many ids.
size_t EncodeShort(const Batch& batch, std::string_view pretoken, const PretokenKey& key,
                   uint64_t hash, int32_t* ids) {
  if (const PretokenCache::Entry* entry = batch.cache.Find(key, hash)) {
    return batch.cache.Copy(*entry, ids);
  }
  if (batch.scratch.long_pretokens && pretoken.size() > batch.cache.room()) {
    if (const size_t found = batch.scratch.long_pretokens->Find(pretoken, hash, ids)) return found;
  }
  return EncodeNew(batch, pretoken, &key, hash, ids);
}

// Encodes a pretoken of more than 15 bytes.
size_t EncodeLong(const Batch& batch, std::string_view pretoken, int32_t* ids) {
  const bool kept = pretoken.size() <= LongPretokenCache::kMaxBytes;
  const uint64_t hash = kept ? LongPretokenCache::Hash(pretoken) : 0;
  if (batch.scratch.long_pretokens) {
    if (const size_t found = batch.scratch.long_pretokens->Find(pretoken, hash, ids)) return found;
  }
  return EncodeNew(batch, pretoken, nullptr, hash, ids);
}

// Larger pretokens get no room in advance: an id for each byte would take most of the memory.
constexpr size_t kHugeBytes = size_t{1} << 16;

void MergeHuge(const BpeModel& model, std::string_view pretoken, EncodeScratch& scratch) {
  scratch.merged.clear();
  const int32_t token = model.proper() ? -1 : model.FindWhole(pretoken);
  if (token >= 0) {
    scratch.merged.push_back(token);
  } else {
    const std::string kept = model.Loses(pretoken) ? model.WithoutLost(pretoken) : "";
    MergePretoken(model, kept.empty() ? pretoken : kept, scratch.merge, scratch.merged);
    model.Expand(0, scratch.merged);
  }
}

size_t EncodeParts(const Batch& batch, std::string_view pretoken, size_t end, int32_t* ids) {
  if (end == pretoken.size()) return EncodePart(batch, pretoken, ids);
  size_t count = 0;
  for (size_t begin = 0;; end = PartEnd(batch.model, pretoken, begin)) {
    const std::string_view part = pretoken.substr(begin, end - begin);
    if (part.size() <= PretokenKey::kMaxBytes) {
      const PretokenKey key = PretokenKey::In(part, batch.text.data() + batch.text.size());
      count += EncodeShort(batch, part, key, key.Hash(), ids + count);
    } else {
      count += EncodeParts(batch, part, part.size(), ids + count);
    }
    begin = end;
    if (begin == pretoken.size()) return count;
  }
}

}  // namespace
}  // namespace folio
#endif

HWY_BEFORE_NAMESPACE();
namespace folio::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The pairs of a pretoken as numbers rank * kScanBytes + place: the smallest is the next to merge,
// and among equal ranks the leftmost.
constexpr uint32_t kNoPair = ~uint32_t{0};

HWY_INLINE uint32_t PairAt(uint32_t rank, size_t place) {
  return rank == PairTable::kNone ? kNoPair : rank * kScanBytes + static_cast<uint32_t>(place);
}

// At most two vectors of pairs, kept in registers: loading a vector right after storing single
// numbers would stall.
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

// Merges until no pair is left. `there` has a bit for the place of each symbol, the bits below n.
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

// Writes as many ids as an entry can hold.
template <bool kNarrow>
HWY_INLINE void CopyIds(const PretokenCache::Entry& entry, int32_t* ids) {
  if constexpr (kNarrow) {
    const hn::CappedTag<int32_t, 8> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    for (size_t i = 0; i < PretokenCache::kNarrow; i += hn::Lanes(d)) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(entry.ids) + i)),
                 d, ids + i);
    }
  } else {
    std::memcpy(ids, entry.ids, sizeof(entry.ids));
  }
}

// The units of a batch. All keys are computed before the first is looked up, so that their memory
// is already being fetched.
class Units {
 public:
  HWY_INLINE explicit Units(const Batch& batch)
      : text_(batch.text), scratch_(batch.scratch), cache_(batch.cache) {}

  HWY_INLINE void Add(size_t begin, size_t end) {
    if (HWY_LIKELY(end - begin <= PretokenKey::kMaxBytes)) {
      const PretokenKey key =
          PretokenKey::In(text_.substr(begin, end - begin), text_.data() + text_.size());
      const uint64_t hash = key.Hash();
      __builtin_prefetch(cache_.line(hash));
      scratch_.low[count_] = key.low;
      scratch_.high[count_] = key.high;
      scratch_.hash[count_] = hash;
    }
    scratch_.unit_ends[count_++] = end;
  }
  size_t count() const { return count_; }

 private:
  std::string_view text_;
  EncodeScratch& scratch_;
  const PretokenCache& cache_;
  size_t count_ = 0;
};

// Makes units of pretokens, and of the parts of long pretokens of characters beyond ASCII: whole
// clauses of scripts without spaces, which seldom repeat.
HWY_INLINE size_t MakeUnits(const Batch& batch) {
  Units units(batch);
  size_t begin = batch.begin;
  for (size_t i = 0; i < batch.pretokens; ++i) {
    const size_t end = batch.scratch.ends[i];
    const size_t length = end - begin;
    if (HWY_UNLIKELY(length > PretokenKey::kMaxBytes) && batch.model.proper() &&
        static_cast<unsigned char>(batch.text[end - 1]) >= 0x80 &&
        !batch.model.Loses(batch.text.substr(begin, length)) &&
        units.count() + length + batch.pretokens - i <= EncodeScratch::kUnits) {
      const std::string_view pretoken = batch.text.substr(begin, length);
      for (size_t part = 0; part < length;) {
        const size_t part_end = PartEnd(batch.model, pretoken, part);
        units.Add(begin + part, begin + part_end);
        part = part_end;
      }
    } else {
      units.Add(begin, end);
    }
    begin = end;
  }
  return units.count();
}

template <bool kNarrow>
size_t EncodeBatch(const Batch& batch) {
  EncodeScratch& scratch = batch.scratch;
  const PretokenCache& cache = batch.cache;
  const size_t units = MakeUnits(batch);
  size_t count = 0;
  int32_t* ids = Room(scratch, 0, 0);
  size_t begin = batch.begin;
  for (size_t i = 0; i < units; ++i) {
    const size_t end = scratch.unit_ends[i];
    const size_t length = end - begin;
    if (HWY_LIKELY(length <= PretokenKey::kMaxBytes)) {
      const PretokenKey key = {scratch.low[i], scratch.high[i]};
      const PretokenCache::Line* line = cache.line(scratch.hash[i]);
      const PretokenCache::Entry* entry = &line->entries[line->entries[1].Is(key)];
      if (HWY_LIKELY(entry->Is(key))) {
        CopyIds<kNarrow>(*entry, ids + count);
        count += entry->count();
      } else {
        count +=
            EncodeShort(batch, batch.text.substr(begin, length), key, scratch.hash[i], ids + count);
      }
    } else {
      const std::string_view pretoken = batch.text.substr(begin, length);
      ids = Room(scratch, count, std::min(length, kHugeBytes));
      if (HWY_UNLIKELY(length > kHugeBytes)) {
        MergeHuge(batch.model, pretoken, scratch);
        ids = Room(scratch, count, scratch.merged.size());
        std::copy(scratch.merged.begin(), scratch.merged.end(), ids + count);
        count += scratch.merged.size();
      } else {
        count += EncodeLong(batch, pretoken, ids + count);
      }
    }
    begin = end;
  }
  return count;
}

size_t EncodeNarrow(const Batch& batch) {
  return EncodeBatch<true>(batch);
}
size_t EncodeWide(const Batch& batch) {
  return EncodeBatch<false>(batch);
}

}  // namespace folio::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio {
namespace {

HWY_EXPORT(ScanMerge);
HWY_EXPORT(EncodeNarrow);
HWY_EXPORT(EncodeWide);

constexpr size_t kWindow = 1024;
constexpr int kTries = 32;

size_t WindowFor(const BpeModel& model) {
  return std::max(kWindow, 8 * model.longest_token());
}
constexpr size_t kMaxLines = size_t{1} << 19;       // 32 MiB, two pretokens a line
constexpr size_t kOwnCacheAfter = size_t{1} << 16;  // bytes of text

// A few texts do not justify a cache for the thread. A full one is replaced by a larger one, and a
// long text gets a large one from the start: new words come with every line.
const PretokenCache& CacheFor(const BpeModel& model, EncodeScratch& scratch, size_t left) {
  const PretokenCache& old = scratch.cache ? *scratch.cache : model.tokens_cache();
  const bool small = scratch.cache ? scratch.cache->filled() > scratch.cache->lines() &&
                                         scratch.cache->lines() < kMaxLines
                                   : scratch.bytes >= kOwnCacheAfter && scratch.has_caches;
  if (small) {
    const size_t lines = std::min(
        std::max((scratch.cache ? 4 : 2) * old.lines(), std::bit_floor(left / 128)), kMaxLines);
    auto larger = std::make_unique<PretokenCache>(std::max(lines, old.lines()), model.narrow());
    larger->InsertAll(old);
    scratch.cache = std::move(larger);
    if (!scratch.long_pretokens) scratch.long_pretokens = std::make_unique<LongPretokenCache>();
  }
  return scratch.cache ? *scratch.cache : model.tokens_cache();
}

// Makes room for `count` more ids after `done` bytes of `text` have become the ids behind `first`:
// enough for the estimated rest at once.
void Reserve(std::string_view text, size_t done, size_t first, size_t count,
             std::vector<int32_t>& ids) {
  if (ids.size() + count <= ids.capacity()) return;
  const double ratio = static_cast<double>(ids.size() - first + count) /
                       static_cast<double>(std::max<size_t>(done, 1));
  // The first pretokens are too few for an estimate.
  constexpr size_t kEnough = size_t{1} << 20;
  const size_t ahead = std::min(text.size() - done, done < kEnough ? kEnough : text.size());
  const auto rest = static_cast<size_t>(1.05 * ratio * static_cast<double>(ahead));
  ids.reserve(std::max(ids.size() + count + rest, ids.size() + ids.size() / 4));
  if (ids.capacity() - ids.size() >= kLargePageBytes) {
    AdviseLargePages(ids.data() + ids.size(), (ids.capacity() - ids.size()) * sizeof(int32_t));
  }
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
  // Pairs as numbers: the rank above, the place below. A pair whose rank is not that of the symbols
  // now at its place is skipped.
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

// True if the encoding of every text that begins with `text` begins with this token, as that of
// `text` does: there is a boundary at one of the last places, since no token is longer than these
// places together, and up to there it is an encoding too. Only the beginning of `text` is examined.
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

// Two encodings of which one ends and the other begins with the same token at the same place
// together are the encoding of the whole. So the next window begins with a token of this window, as
// late as possible such that the next window's encoding begins with it too. If a window must grow
// it may begin with another token then: with merges whose ranks fall along the text, its end
// decides its beginning. What was joined before is wrong in that case.
size_t MergeByWindows(const BpeModel& model, std::string_view pretoken, size_t window, bool at_end,
                      MergeScratch& scratch, std::vector<int32_t>& ids) {
  const ByteStrings& symbols = model.symbols().bytes;
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
      at -= symbols[static_cast<size_t>(current[--i])].size();
      if (at + length / 4 > begin + length) continue;  // too near the end to be certain
      if (!at_end && (at + window > pretoken.size() || !BeginsCharacter(pretoken[at]))) continue;
      ++tries;
      following.clear();
      MergeByHeap(model, pretoken.substr(at, window), scratch, following);
      found = following.front() == current[i];
    }
    if (!found) {  // does not occur in natural text, but the window can grow
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

void EncodeScratch::Trim() {
  constexpr size_t kKept = size_t{1} << 20;
  if (ids.capacity() > kKept) ids = {};
  if (merged.capacity() > kKept) merged = {};
  if (merge.symbols.capacity() > kKept) merge = {};
}

size_t EncodeText(const BpeModel& model, EncodeScratch& scratch, std::string_view text, bool at_end,
                  std::vector<int32_t>& ids) {
  const SplitPattern pattern = model.pattern();
  const size_t first = ids.size();
  size_t begin = 0;
  while (begin < text.size()) {
    Batch batch{model, scratch, CacheFor(model, scratch, text.size() - begin), text, begin, 0};
    batch.pretokens = SplitPretokens(pattern, text, begin, at_end, scratch.ends);
    if (batch.pretokens == 0) break;
    const size_t count = model.narrow() ? HWY_DYNAMIC_DISPATCH(EncodeNarrow)(batch)
                                        : HWY_DYNAMIC_DISPATCH(EncodeWide)(batch);
    scratch.bytes += scratch.ends[batch.pretokens - 1] - begin;
    begin = scratch.ends[batch.pretokens - 1];
    Reserve(text, begin, first, count, ids);
    ids.insert(ids.end(), scratch.ids.data(), scratch.ids.data() + count);
  }
  // A pretoken of this size may have no end.
  constexpr size_t kLongRun = size_t{1} << 18;
  if (!at_end && text.size() - begin >= kLongRun && !model.Loses(text.substr(begin))) {
    const std::string_view rest = text.substr(begin);
    const size_t before = ids.size();
    begin += MergeDecided(model, rest.substr(0, CertainRun(pattern, rest)), scratch.merge, ids);
    model.Expand(before, ids);
  }
  scratch.Trim();
  return begin;
}

}  // namespace folio
#endif
