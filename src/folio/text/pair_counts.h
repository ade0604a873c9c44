#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio {

// Two neighbouring symbols, each at least 0, as one number that sorts as (left, right) do.
constexpr uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

// Counts how often each pair of symbols stands side by side: a hash table that is asked about
// millions of pairs, nearly all of them outside the cache, hence Prefetch.
class PairCounts {
 public:
  PairCounts() : slots_(size_t{1} << (64 - shift_)) {}

  // Room for `more` pairs; only this moves slots.
  void Reserve(size_t more) {
    while ((size_ + more) * 2 > slots_.size()) Grow();
  }
  void Prefetch(uint64_t key) const { __builtin_prefetch(&slots_[Slot(key)], 1); }
  // REQUIRES: the pair is not there, and there is room.
  void Insert(uint64_t key, int64_t count) {
    *Find(key) = {key, count};
    ++size_;
  }
  // Does nothing for a pair that is not there.
  void Subtract(uint64_t key, int64_t count) {
    Entry* entry = Find(key);
    if (entry->key == key) entry->count -= count;
  }
  // 0 for a pair that is not there.
  int64_t Count(uint64_t key) const {
    const Entry* entry = const_cast<PairCounts*>(this)->Find(key);
    return entry->key == key ? entry->count : 0;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Entry {
    uint64_t key = kNone;
    int64_t count = 0;
  };

  size_t Slot(uint64_t key) const {
    key = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
    return (key ^ key << 32) >> shift_;
  }
  Entry* Find(uint64_t key) {
    size_t i = Slot(key);
    while (slots_[i].key != key && slots_[i].key != kNone) i = (i + 1) & (slots_.size() - 1);
    return &slots_[i];
  }
  // Doubles the room, and leaves out the pairs that no longer stand anywhere.
  void Grow() {
    const std::vector<Entry> old = std::move(slots_);
    --shift_;
    slots_.assign(old.size() * 2, Entry{});
    size_ = 0;
    for (const Entry& entry : old) {
      if (entry.key != kNone && entry.count > 0) Insert(entry.key, entry.count);
    }
  }

  int shift_ = 64 - 10;
  std::vector<Entry> slots_;
  size_t size_ = 0;
};

}  // namespace folio
