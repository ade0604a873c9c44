#include "folio/text/bpe_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "folio/base/machine.h"
#include "folio/text/split_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/text/bpe_encoder.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef FOLIO_TEXT_BPE_ENCODER_ONCE
#define FOLIO_TEXT_BPE_ENCODER_ONCE
namespace folio {
namespace {

// Pretokens of a text, one behind the other, and where their ids go.
struct Batch {
  const BpeModel& model;
  EncodeScratch& scratch;
  const PretokenCache& cache;  // the scratch's own or the model's
  std::string_view text;
  size_t begin;
  size_t pretokens;  // ends in scratch.ends
};

// Makes room behind `count` ids for the short units of a batch and `more`.
int32_t* Room(EncodeScratch& scratch, size_t count, size_t more) {
  const size_t needed =
      count + more + EncodeScratch::kUnits * PretokenKey::kMaxBytes + PretokenCache::kNarrow;
  if (scratch.ids.size() < needed) scratch.ids.resize(needed + needed / 2);
  return scratch.ids.data();
}

// Returns where the part of a pretoken that begins at `begin` ends: nothing merges across. Ends are
// looked for between characters only. REQUIRES: begin < pretoken.size().
size_t PartEnd(const BpeModel& model, std::string_view pretoken, size_t begin) {
  constexpr unsigned char kLengths[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(pretoken[i]); };
  for (size_t i = begin + kLengths[byte(begin) >> 4]; i < pretoken.size();) {
    if (model.Apart(byte(i - 1), byte(i))) return i;
    i += kLengths[byte(i) >> 4];
  }
  return pretoken.size();
}

// Writes the ids of a pretoken, of which the first part ends at `end`, part by part, and returns
// how many. REQUIRES: room for pretoken.size() ids and PretokenCache::kNarrow more.
size_t EncodeParts(const Batch& batch, std::string_view pretoken, size_t end, int32_t* ids);

// The ids of a pretoken that no cache has, which goes to one of them if that will save work.
size_t EncodeNew(const Batch& batch, std::string_view pretoken, const PretokenKey* key,
                 uint64_t hash, int32_t* ids) {
  EncodeScratch& scratch = batch.scratch;
  const bool proper = batch.model.proper();
  const size_t end = proper ? PartEnd(batch.model, pretoken, 0) : pretoken.size();
  const int32_t whole = proper ? -1 : batch.model.FindWhole(pretoken);
  if (whole >= 0) *ids = whole;
  const size_t count = whole >= 0 ? 1 : EncodeParts(batch, pretoken, end, ids);
  if (key != nullptr && count <= batch.cache.room()) {
    if (scratch.cache) scratch.cache->Insert(*key, hash, {ids, count});
  } else if (scratch.long_pretokens && (end == pretoken.size() || end == 1)) {
    // Parts of several bytes each are found as fast by themselves.
    scratch.long_pretokens->Insert(pretoken, hash, {ids, count});
  }
  return count;
}

// A short pretoken that is not in its first place in the cache. Returns how many ids were written.
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

// A pretoken of more than 15 bytes.
size_t EncodeLong(const Batch& batch, std::string_view pretoken, int32_t* ids) {
  const uint64_t hash = LongPretokenCache::Hash(pretoken);
  if (batch.scratch.long_pretokens) {
    if (const size_t found = batch.scratch.long_pretokens->Find(pretoken, hash, ids)) return found;
  }
  return EncodeNew(batch, pretoken, nullptr, hash, ids);
}

// Pretokens for which there is no room beforehand: a place for each byte would be most of the
// memory.
constexpr size_t kHugeBytes = size_t{1} << 16;

void MergeHuge(const BpeModel& model, std::string_view pretoken, EncodeScratch& scratch) {
  scratch.merged.clear();
  const int32_t token = model.proper() ? -1 : model.FindWhole(pretoken);
  if (token >= 0) {
    scratch.merged.push_back(token);
  } else {
    MergePretoken(model, pretoken, scratch.merge, scratch.merged);
  }
}

size_t EncodeParts(const Batch& batch, std::string_view pretoken, size_t end, int32_t* ids) {
  if (end == pretoken.size()) {
    if (pretoken.size() <= kScanBytes) return MergeByScan(batch.model, pretoken, ids);
    std::vector<int32_t>& merged = batch.scratch.merged;
    merged.clear();
    MergePretoken(batch.model, pretoken, batch.scratch.merge, merged);
    std::copy(merged.begin(), merged.end(), ids);
    return merged.size();
  }
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

// Writes all that an entry can hold.
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

// The units of a batch. All keys are made before the first is looked up, so that the memory they
// lead to is on its way when it is needed.
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

// Pretokens, and the parts of long pretokens of characters beyond ASCII: whole clauses of scripts
// that are written without spaces, which seldom come again.
HWY_INLINE size_t MakeUnits(const Batch& batch) {
  Units units(batch);
  size_t begin = batch.begin;
  for (size_t i = 0; i < batch.pretokens; ++i) {
    const size_t end = batch.scratch.ends[i];
    const size_t length = end - begin;
    if (HWY_UNLIKELY(length > PretokenKey::kMaxBytes) && batch.model.proper() &&
        static_cast<unsigned char>(batch.text[end - 1]) >= 0x80 &&
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

HWY_EXPORT(EncodeNarrow);
HWY_EXPORT(EncodeWide);

constexpr size_t kMaxLines = size_t{1} << 19;       // 32 MiB, two pretokens a line
constexpr size_t kOwnCacheAfter = size_t{1} << 16;  // bytes of text

// Few texts are not worth a cache of their own. One that fills up is replaced by a larger one, and
// a long text has a large one from the beginning: new words come with every line.
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

// Makes room for `count` more ids when `done` bytes of `text` have become the ids behind `first`:
// at once for all that the rest will become, as far as that can be told.
void Reserve(std::string_view text, size_t done, size_t first, size_t count,
             std::vector<int32_t>& ids) {
  if (ids.size() + count <= ids.capacity()) return;
  const double ratio = static_cast<double>(ids.size() - first + count) /
                       static_cast<double>(std::max<size_t>(done, 1));
  // The first pretokens tell little.
  constexpr size_t kEnough = size_t{1} << 20;
  const size_t ahead = std::min(text.size() - done, done < kEnough ? kEnough : text.size());
  const auto rest = static_cast<size_t>(1.05 * ratio * static_cast<double>(ahead));
  ids.reserve(std::max(ids.size() + count + rest, ids.size() + ids.size() / 4));
  if (ids.capacity() - ids.size() >= kLargePageBytes) {
    AdviseLargePages(ids.data() + ids.size(), (ids.capacity() - ids.size()) * sizeof(int32_t));
  }
}

}  // namespace

void EncodeScratch::Trim() {
  constexpr size_t kKept = size_t{1} << 20;
  if (ids.capacity() > kKept) ids = {};
  if (merged.capacity() > kKept) merged = {};
  if (merge.symbols.capacity() > kKept) merge = {};
}

size_t EncodeText(const BpeModel& model, EncodeScratch& scratch, std::string_view text, bool at_end,
                  std::vector<int32_t>& ids) {
  const SplitPattern pattern = model.vocab().pattern;
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
  // A pretoken without an end in sight.
  constexpr size_t kLongRun = size_t{1} << 18;
  if (!at_end && text.size() - begin >= kLongRun) {
    const std::string_view rest = text.substr(begin);
    begin += MergeDecided(model, rest.substr(0, CertainRun(pattern, rest)), scratch.merge, ids);
  }
  scratch.Trim();
  return begin;
}

}  // namespace folio
#endif
