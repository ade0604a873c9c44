#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "folio/text/merge_queue.h"
#include "folio/text/pair_counts.h"
#include "folio/text/training_text.h"

namespace folio {

// Merges pairs of symbols in a training text, one after the other, and keeps count of all pairs.
// A pair is counted once, when its newer symbol is made; its count can only fall after that, and
// the positions at which it then stood hold all at which it ever will. A merge costs time in
// proportion to the positions of its pair, and all lists of positions together are at most three
// times as long as the text; so time and memory are linear in the distinct pretokens' bytes, but
// for the order in the queue.
class PairMerger {
 public:
  // The symbols of the text are 0 to 255, those that merges make are below `max_symbols`. Pairs
  // with counts below `min_count`, at least 1, are not offered.
  PairMerger(TrainingText text, size_t max_symbols, int64_t min_count);

  // The best pair now; nothing where none is left. It is not offered again.
  std::optional<MergeCandidate> Best() { return queue_.Pop(counts_); }
  // Replaces the pair by `merged`, from left to right in each pretoken. REQUIRES: `pair` is the
  // last Best(), and `merged` the next symbol: 256, 257 ... Returns how often it was replaced,
  // repeated pretokens counted.
  int64_t Merge(const MergeCandidate& pair, int32_t merged);

 private:
  // A place where a pair was merged, with its neighbours then.
  struct Event {
    uint32_t position;
    int32_t left;
    int32_t right;
  };
  // The symbols that stand on one side of the merged pairs.
  struct Neighbour {
    int64_t weight = 0;  // of all events with it
    size_t events = 0;   // of which these make a new pair
    size_t next = 0;     // where in positions_ the next of them is written
  };
  struct Side {
    std::vector<Neighbour> of;  // by symbol
    std::vector<int32_t> seen;  // those with events

    void Add(int32_t symbol, int64_t weight);
    void Clear();
  };

  void CountBytePairs();
  int64_t Apply(const MergeCandidate& pair, int32_t merged);
  void CountFallen(const MergeCandidate& pair, int32_t merged);
  void OfferNew(const MergeCandidate& pair, int32_t merged);
  void Offer(Neighbour& neighbour, int64_t count, int32_t left, int32_t right);
  void WritePositions();

  uint32_t LengthOf(int32_t symbol) const { return lengths_[static_cast<size_t>(symbol)]; }

  TrainingText text_;
  int64_t min_count_;
  std::vector<uint32_t> lengths_;    // of symbols, in bytes
  std::vector<uint32_t> positions_;  // of left symbols; each candidate has a range, ascending
  PairCounts counts_;
  MergeQueue queue_;
  // Buffers of the merge that goes on are members, to keep their memory.
  std::vector<Event> events_;
  Side left_;
  Side right_;
  int64_t joined_ = 0;  // weight of the events that follow another one directly
};

}  // namespace folio
