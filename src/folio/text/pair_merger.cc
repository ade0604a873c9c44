#include "folio/text/pair_merger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

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

constexpr size_t kByteValues = 256;
constexpr size_t kNowhere = static_cast<size_t>(-1);
// How far ahead memory is prefetched: positions of symbols, and pairs in the hash table.
constexpr size_t kSymbolsAhead = 24;
constexpr size_t kPairsAhead = 8;

}  // namespace

TrainingText::TrainingText(std::vector<CountedPretokens> parts,
                           const std::array<int32_t, 256>& symbols) {
  struct Ref {
    int64_t count;
    uint32_t part, index;
  };
  std::vector<Ref> refs;  // for pretokens of two bytes and more
  size_t positions = 1;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    for (uint32_t i = 0; i < parts[part].counts.size(); ++i) {
      const size_t length = parts[part].pretokens[i].size();
      if (length < 2) continue;
      refs.push_back({parts[part].counts[i], part, i});
      positions += length + 1;
    }
  }
  std::ranges::sort(refs, {}, [](const Ref& ref) {  // most frequent first
    return std::tuple(-ref.count, ref.part, ref.index);
  });
  if (positions > std::numeric_limits<uint32_t>::max()) {
    throw Error(
        ErrorKind::kResource, "the text has too many different pieces",
        fmt::format("{} bytes in {} pieces, at most 4 GiB are supported", positions, refs.size()),
        "use less text");
  }
  row_.reserve(positions);
  row_.push_back(kEdge);
  for (const Ref& ref : refs) {
    for (const char c : parts[ref.part].pretokens[ref.index]) {
      row_.push_back(symbols[static_cast<uint8_t>(c)]);
    }
    row_.push_back(kEdge);
    if (runs_.empty() || runs_.back().weight != ref.count) runs_.push_back({0, ref.count});
    runs_.back().end = row_.size();
  }
  run_of_.resize((row_.size() + kBlock - 1) / kBlock);
  for (size_t block = 0, run = 0; block < run_of_.size() && !runs_.empty(); ++block) {
    while (run + 1 < runs_.size() && runs_[run].end <= block * kBlock) ++run;
    run_of_[block] = static_cast<uint32_t>(run);
  }
}

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

// Moves the candidates with the most digits into the empty heap. Returns false if none is waiting.
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

void PairMerger::Side::Add(int32_t symbol, int64_t weight) {
  Neighbour& neighbour = neighbours[static_cast<size_t>(symbol)];
  if (neighbour.weight == 0) seen.push_back(symbol);
  neighbour.weight += weight;
  ++neighbour.events;
}

void PairMerger::Side::Clear() {
  for (const int32_t symbol : seen) neighbours[static_cast<size_t>(symbol)] = {};
  seen.clear();
}

PairMerger::PairMerger(TrainingText text, size_t max_symbols, int64_t min_count)
    : text_(std::move(text)), min_count_(min_count), queue_(min_count) {
  lengths_.reserve(max_symbols);
  lengths_.assign(kByteValues, 1);
  left_.neighbours.resize(max_symbols);
  right_.neighbours.resize(max_symbols);
  CountBytePairs();
}

void PairMerger::CountBytePairs() {
  std::vector<Neighbour> pairs(kByteValues * kByteValues);
  const std::span<const int32_t> row = text_.row();
  const auto pair_at = [&](size_t i) -> Neighbour* {
    if (row[i] < 0 || row[i + 1] < 0) return nullptr;
    return &pairs[static_cast<size_t>(row[i]) * kByteValues + static_cast<size_t>(row[i + 1])];
  };
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    Neighbour* pair = pair_at(i);
    if (pair == nullptr) continue;
    pair->weight += text_.Weight(static_cast<uint32_t>(i));
    ++pair->events;
  }
  counts_.Reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].events == 0) continue;
    Offer(pairs[i], pairs[i].weight, static_cast<int32_t>(i / kByteValues),
          static_cast<int32_t>(i % kByteValues));
  }
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    Neighbour* pair = pair_at(i);
    if (pair == nullptr || pair->next == kNowhere) continue;
    positions_[pair->next++] = static_cast<uint32_t>(i);
  }
}

int64_t PairMerger::Merge(const MergeCandidate& pair, int32_t merged) {
  FOLIO_CHECK(static_cast<size_t>(merged) == lengths_.size() &&
                  static_cast<size_t>(merged) < left_.neighbours.size(),
              "symbols are made in order, below max_symbols");
  lengths_.push_back(LengthOf(pair.left) + LengthOf(pair.right));
  const int64_t weight = Apply(pair, merged);
  // Overlapping occurrences of a pair of equal symbols are not merged.
  FOLIO_CHECK(weight == pair.count || pair.left == pair.right,
              "pairs stand where they were counted");
  CountFallen(pair, merged);
  OfferNew(pair, merged);
  WritePositions();
  events_.clear();
  left_.Clear();
  right_.Clear();
  joined_ = 0;
  return weight;
}

// Rewrites the symbols and records the events. Returns their total weight.
int64_t PairMerger::Apply(const MergeCandidate& pair, int32_t merged) {
  int32_t* const row = text_.symbols();
  const uint32_t left_length = LengthOf(pair.left);
  const uint32_t right_length = LengthOf(pair.right);
  const uint32_t* const positions = positions_.data() + pair.first;
  int64_t sum = 0;
  for (size_t i = 0; i < pair.positions; ++i) {
    if (i + kSymbolsAhead < pair.positions) __builtin_prefetch(row + positions[i + kSymbolsAhead]);
    const uint32_t begin = positions[i];
    const uint32_t middle = begin + left_length;
    if (row[begin] != pair.left || row[middle] != pair.right) continue;
    const uint32_t end = middle + right_length;
    row[middle - 1] = row[middle] = TrainingText::kInside;
    row[begin] = row[end - 1] = merged;

    const int64_t weight = text_.Weight(begin);
    sum += weight;
    Event event{begin, row[begin - 1], row[end]};
    if (event.left == merged) {
      // The event before counted the left symbol as its right neighbour, which is now `merged`.
      events_.back().right = TrainingText::kEdge;
      --right_.neighbours[static_cast<size_t>(pair.left)].events;
      joined_ += weight;
    }
    if (event.left >= 0) left_.Add(event.left, weight);
    if (event.right >= 0) right_.Add(event.right, weight);
    events_.push_back(event);
  }
  return sum;
}

// Calls f(symbol, neighbour) for the symbols of one side; `key_of` gives the key of the pair in
// counts_ that f looks up.
template <class Key, class F>
void PairMerger::ForSeen(Side& side, Key&& key_of, F&& f) {
  for (size_t i = 0; i < side.seen.size(); ++i) {
    if (i + kPairsAhead < side.seen.size()) counts_.Prefetch(key_of(side.seen[i + kPairsAhead]));
    f(side.seen[i], side.neighbours[static_cast<size_t>(side.seen[i])]);
  }
}

// Subtracts the broken pairs of the events from their counts.
void PairMerger::CountFallen(const MergeCandidate& pair, int32_t merged) {
  counts_.Subtract(PairKey(pair.left, pair.right), pair.count);
  const auto before = [&](int32_t symbol) { return PairKey(symbol, pair.left); };
  const auto behind = [&](int32_t symbol) { return PairKey(pair.right, symbol); };
  ForSeen(left_, before, [&](int32_t symbol, const Neighbour& neighbour) {
    if (symbol == merged) return;  // counted as right neighbour of the event before
    counts_.Subtract(before(symbol), neighbour.weight);
  });
  ForSeen(right_, behind, [&](int32_t symbol, const Neighbour& neighbour) {
    counts_.Subtract(behind(symbol), neighbour.weight);
  });
}

// Counts and queues the new pairs of the events.
void PairMerger::OfferNew(const MergeCandidate& pair, int32_t merged) {
  counts_.Reserve(left_.seen.size() + right_.seen.size());
  ForSeen(
      left_, [&](int32_t symbol) { return PairKey(symbol, merged); },
      [&](int32_t symbol, Neighbour& neighbour) {
        Offer(neighbour, neighbour.weight, symbol, merged);
      });
  ForSeen(
      right_, [&](int32_t symbol) { return PairKey(merged, symbol); },
      [&](int32_t symbol, Neighbour& neighbour) {
        Offer(neighbour, neighbour.weight - (symbol == pair.left ? joined_ : 0), merged, symbol);
      });
}

// Inserts and queues a new pair, and makes room for its positions.
void PairMerger::Offer(Neighbour& neighbour, int64_t count, int32_t left, int32_t right) {
  neighbour.next = kNowhere;
  if (count < min_count_) return;
  neighbour.next = positions_.size();
  positions_.resize(positions_.size() + neighbour.events);
  counts_.Insert(PairKey(left, right), count);
  queue_.Push({count, left, right, neighbour.next, neighbour.events});
}

void PairMerger::WritePositions() {
  const auto write = [&](Side& side, int32_t symbol, uint32_t position) {
    if (symbol < 0) return;
    Neighbour& neighbour = side.neighbours[static_cast<size_t>(symbol)];
    if (neighbour.next != kNowhere) positions_[neighbour.next++] = position;
  };
  for (const Event& event : events_) {
    if (event.left >= 0) write(left_, event.left, event.position - LengthOf(event.left));
    write(right_, event.right, event.position);
  }
}

}  // namespace folio
