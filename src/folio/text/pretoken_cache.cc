#include "folio/text/pretoken_cache.h"

#include <algorithm>
#include <new>

#include "folio/base/check.h"
#include "folio/base/machine.h"

namespace folio {

PretokenCache::PretokenCache(size_t lines, bool narrow) : mask_(lines - 1), narrow_(narrow) {
  FOLIO_CHECK(lines >= 2 && (lines & mask_) == 0, "not a power of two");
  const size_t bytes = lines * sizeof(Line);
  void* memory =
      std::aligned_alloc(bytes % kLargePageBytes == 0 ? kLargePageBytes : alignof(Line), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  AdviseLargePages(memory, bytes);
  std::memset(memory, 0, bytes);
  lines_.reset(static_cast<Line*>(memory));
}

void PretokenCache::Insert(const PretokenKey& key, uint64_t hash, std::span<const int32_t> ids) {
  if (ids.empty() || ids.size() > room()) return;
  const size_t home = hash & mask_;
  // If all places are in use, a bit of the hash that did not choose the line chooses one.
  Entry* place = &lines_[home].entries[hash >> 63];
  for (const size_t at : {home, home ^ 1}) {
    bool found = false;
    for (Entry& entry : lines_[at].entries) {
      if (entry.high != 0 && !entry.Is(key)) continue;
      place = &entry;
      found = true;
      break;
    }
    if (found) break;
  }
  if (place->high == 0) ++filled_;
  place->low = key.low;
  place->high = key.high | uint64_t{ids.size()} << 60;
  if (narrow_) {
    uint16_t narrow[kNarrow] = {};
    std::transform(ids.begin(), ids.end(), narrow,
                   [](int32_t id) { return static_cast<uint16_t>(id); });
    std::memcpy(place->ids, narrow, sizeof(narrow));
  } else {
    int32_t wide[kWide] = {};
    std::copy(ids.begin(), ids.end(), wide);
    std::memcpy(place->ids, wide, sizeof(wide));
  }
}

size_t PretokenCache::Copy(const Entry& entry, int32_t* out) const {
  if (narrow_) {
    uint16_t ids[kNarrow];
    std::memcpy(ids, entry.ids, sizeof(ids));
    for (size_t i = 0; i < kNarrow; ++i) out[i] = ids[i];
  } else {
    std::memcpy(out, entry.ids, sizeof(entry.ids));
  }
  return entry.count();
}

void PretokenCache::InsertAll(const PretokenCache& other) {
  FOLIO_CHECK(narrow_ == other.narrow_, "caches of different widths");
  int32_t ids[kNarrow];
  for (size_t i = 0; i <= other.mask_; ++i) {
    for (const Entry& entry : other.lines_[i].entries) {
      if (entry.high == 0) continue;
      const PretokenKey key{entry.low, entry.high & kKeyBits};
      Insert(key, key.Hash(), {ids, other.Copy(entry, ids)});
    }
  }
}

LongPretokenCache::LongPretokenCache()
    : places_(static_cast<Place*>(std::calloc(kPlaces, sizeof(Place)))) {
  if (!places_) throw std::bad_alloc();
}

uint64_t LongPretokenCache::Hash(std::string_view pretoken) {
  uint64_t hash = pretoken.size();
  const auto mix = [&](const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0x9E3779B97F4A7C15;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  for (size_t i = 0; i + 8 <= pretoken.size(); i += 8) mix(pretoken.data() + i);
  mix(pretoken.data() + pretoken.size() - 8);
  return hash;
}

size_t LongPretokenCache::Find(std::string_view pretoken, uint64_t hash, int32_t* ids) const {
  if (tags_[hash % kPlaces] != static_cast<uint16_t>(hash >> 48)) return 0;
  const Place& place = places_[hash % kPlaces];
  if (place.length != pretoken.size() ||
      std::memcmp(place.bytes, pretoken.data(), pretoken.size()) != 0) {
    return 0;
  }
  std::copy_n(place.ids, place.count, ids);
  return place.count;
}

void LongPretokenCache::Insert(std::string_view pretoken, uint64_t hash,
                               std::span<const int32_t> ids) {
  if (pretoken.size() > kMaxBytes || ids.size() > kMaxIds) return;
  tags_[hash % kPlaces] = static_cast<uint16_t>(hash >> 48);
  Place& place = places_[hash % kPlaces];
  place.length = static_cast<uint32_t>(pretoken.size());
  place.count = static_cast<uint32_t>(ids.size());
  std::copy(pretoken.begin(), pretoken.end(), place.bytes);
  std::copy(ids.begin(), ids.end(), place.ids);
}

}  // namespace folio
