#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "folio/text/pretoken_counter.h"

namespace folio {

// The distinct pretokens as one row of symbols, in which pairs are merged in place. Each byte of
// each pretoken has a position. A symbol of n bytes is written at the first and at the last of its
// n positions, and a value that is no symbol between; so both neighbours of a symbol are found
// without links. kEdge stands before, between and behind the pretokens.
class TrainingText {
 public:
  static constexpr int32_t kEdge = -1;
  static constexpr int32_t kInside = -2;

  // `symbols` are the symbols of the 256 bytes. Pretokens of a single byte, which have no pairs,
  // are left out. Frees `parts` while reading them. Throws a kResource Error if there are 2^32
  // positions or more.
  TrainingText(std::vector<CountedPretokens> parts, const std::array<int32_t, 256>& symbols);

  std::span<const int32_t> row() const { return row_; }
  int32_t* symbols() { return row_.data(); }
  // Returns how often the pretoken at this position occurred.
  int64_t Weight(uint32_t position) const {
    size_t run = run_of_[position / kBlock];
    while (runs_[run].end <= position) ++run;
    return runs_[run].weight;
  }

 private:
  // Pretokens with the same count, most frequent first.
  struct Run {
    size_t end;
    int64_t weight;
  };
  static constexpr size_t kBlock = 64;

  std::vector<int32_t> row_;
  std::vector<Run> runs_;
  std::vector<uint32_t> run_of_;  // for the first position of each block of kBlock
};

// Two neighbouring symbols, each at least 0, as one number that sorts as (left, right) do.
constexpr uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

// Counts how often each pair of symbols is adjacent: a hash table with millions of look-ups of
// pairs, nearly all outside of the cache, hence Prefetch.
class PairCounts {
 public:
  PairCounts() : slots_(size_t{1} << (64 - shift_)) {}

  // Makes room for `more` pairs; no other function moves slots.
  void Reserve(size_t more) {
    while ((size_ + more) * 2 > slots_.size()) Grow();
  }
  void Prefetch(uint64_t key) const { __builtin_prefetch(&slots_[Slot(key)], 1); }
  // REQUIRES: the pair is new, and there is room.
  void Insert(uint64_t key, int64_t count) {
    *Find(key) = {key, count};
    ++size_;
  }
  // Does nothing if the pair is missing.
  void Subtract(uint64_t key, int64_t count) {
    Entry* entry = Find(key);
    if (entry->key == key) entry->count -= count;
  }
  // 0 if the pair is missing.
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
  // Doubles the room, and drops pairs that no longer occur.
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

// A pair that may be merged. Its positions when it was first counted are a range of the trainer's
// list of positions.
struct MergeCandidate {
  int64_t count = 0;
  int32_t left = 0;
  int32_t right = 0;
  size_t first = 0;
  size_t positions = 0;
};

// Candidates by highest count, among equal counts by smallest (left, right). Counts may fall while
// candidates wait: Pop looks them up and puts fallen ones back. Only candidates whose counts have
// as many binary digits as the highest are in a heap, which stays small; the others wait unordered.
class MergeQueue {
 public:
  // Candidates whose counts fall below `min_count`, which is at least 1, are dropped.
  explicit MergeQueue(int64_t min_count) : min_count_(min_count) {}

  // REQUIRES: candidate.count is not above that of the last one popped.
  void Push(const MergeCandidate& candidate);
  // The best candidate, with its count from `counts`; nothing if none is left.
  std::optional<MergeCandidate> Pop(const PairCounts& counts);

 private:
  bool FillHeap(const PairCounts& counts);

  int64_t min_count_;
  size_t digits_ = 64;  // of the counts in heap_
  std::vector<MergeCandidate> heap_;
  std::array<std::vector<MergeCandidate>, 64> waiting_;  // by digits of the count, as it was
};

// Merges pairs of symbols in a training text, one after the other, and updates the counts of all
// pairs. A pair is counted once, when its newer symbol is made; its count can only fall afterwards,
// and its positions at that time include all later ones. A merge takes time in proportion to the
// positions of its pair, and all lists of positions together are at most three times as long as the
// text; so time and memory are linear in the distinct pretokens' bytes, except for the queue's
// order.
class PairMerger {
 public:
  // The symbols of the text are 0 to 255, those made by merges are below `max_symbols`. Pairs with
  // counts below `min_count`, at least 1, are not offered.
  PairMerger(TrainingText text, size_t max_symbols, int64_t min_count);

  // The best pair now; nothing if none is left. Each pair is returned once.
  std::optional<MergeCandidate> Best() { return queue_.Pop(counts_); }
  // Replaces the pair by `merged`, from left to right in each pretoken. REQUIRES: `pair` is the
  // last Best(), and `merged` the next symbol: 256, 257 ... Returns how often it was replaced, with
  // repetitions of pretokens.
  int64_t Merge(const MergeCandidate& pair, int32_t merged);

 private:
  // A place where a pair was merged, with its neighbours then.
  struct Event {
    uint32_t position;
    int32_t left;
    int32_t right;
  };
  // A symbol beside merged pairs, on one side.
  struct Neighbour {
    int64_t weight = 0;  // total weight of its events
    size_t events = 0;   // how many of them make a new pair
    size_t next = 0;     // where in positions_ its next event is written
  };
  struct Side {
    std::vector<Neighbour> neighbours;  // by symbol
    std::vector<int32_t> seen;          // symbols with events

    void Add(int32_t symbol, int64_t weight);
    void Clear();
  };

  void CountBytePairs();
  int64_t Apply(const MergeCandidate& pair, int32_t merged);
  template <class Key, class F>
  void ForSeen(Side& side, Key&& key_of, F&& f);
  void CountFallen(const MergeCandidate& pair, int32_t merged);
  void OfferNew(const MergeCandidate& pair, int32_t merged);
  void Offer(Neighbour& neighbour, int64_t count, int32_t left, int32_t right);
  void WritePositions();

  uint32_t LengthOf(int32_t symbol) const { return lengths_[static_cast<size_t>(symbol)]; }

  TrainingText text_;
  int64_t min_count_;
  std::vector<uint32_t> lengths_;    // of symbols, in bytes
  std::vector<uint32_t> positions_;  // of left symbols; each candidate has an ascending range
  PairCounts counts_;
  MergeQueue queue_;
  // Buffers of the current merge, kept to reuse their memory.
  std::vector<Event> events_;
  Side left_;
  Side right_;
  int64_t joined_ = 0;  // weight of the events that directly follow another one
};

}  // namespace folio
