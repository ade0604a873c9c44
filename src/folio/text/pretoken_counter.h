#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"
#include "folio/text/split.h"

namespace folio {

// Open addressing with linear probing, ordered by the first bits of the hash, so that entries which
// hash into one of kParts equal ranges are contiguous in every table. Entry has `int64_t count`, 0
// if the slot is empty, and `uint64_t hash() const`.
template <class Entry>
class CountTable {
 public:
  static constexpr int kPartBits = 6;
  static constexpr uint64_t kParts = uint64_t{1} << kPartBits;

  // `skip` first bits of every hash are the same.
  explicit CountTable(int skip = 0) : skip_(skip), slots_(size_t{1} << (64 - shift_)) {}

  size_t size() const { return size_; }
  // Makes room for `more` entries; no other function moves entries.
  void Reserve(size_t more) {
    while ((size_ + more) * 2 > slots_.size()) Grow();
  }
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[Slot(hash)], 1); }
  // The entry for which same(entry), or the empty one for it, which the caller fills, with Added.
  template <class Same>
  Entry& Find(uint64_t hash, Same&& same) {
    size_t i = Slot(hash);
    while (slots_[i].count != 0 && !same(slots_[i])) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void Added() { ++size_; }

  // Calls f(entry) for each entry whose hash is in `part` of kParts. REQUIRES: made with skip 0.
  template <class F>
  void ForPart(uint64_t part, F&& f) const {
    const size_t width = slots_.size() >> kPartBits;
    for (size_t n = 0; n < slots_.size(); ++n) {
      const Entry& entry = slots_[(part * width + n) & (slots_.size() - 1)];
      if (entry.count == 0) {
        if (n >= width) return;
        continue;
      }
      if (entry.hash() >> (64 - kPartBits) == part) f(entry);
    }
  }
  template <class F>
  void ForEach(F&& f) const {
    for (const Entry& entry : slots_) {
      if (entry.count != 0) f(entry);
    }
  }

 private:
  size_t Slot(uint64_t hash) const { return (hash << skip_) >> shift_; }

  void Grow() {
    const std::vector<Entry> old = std::move(slots_);
    --shift_;
    slots_.assign(old.size() * 2, Entry{});
    for (const Entry& entry : old) {
      if (entry.count != 0) Find(entry.hash(), [](const Entry&) { return false; }) = entry;
    }
  }

  int skip_;
  int shift_ = 64 - 10;
  std::vector<Entry> slots_;
  size_t size_ = 0;
};

// Distinct pretokens, each with how often it occurred.
struct CountedPretokens {
  ByteStrings pretokens;
  std::vector<int64_t> counts;
};

class PretokenTable;

// Counts the pretokens of texts on all threads, each with its own table; Take adds them up.
class PretokenCounter {
 public:
  explicit PretokenCounter(SplitPattern pattern);
  ~PretokenCounter();

  // Counts a whole document, or a part of one that begins and ends where FindCut says.
  void AddText(std::string_view text);
  // Counted so far, with repetitions.
  int64_t pretokens() const;
  // Each distinct pretoken in exactly one of the parts, whose order and division depend on the
  // threads. The counter is empty afterwards.
  std::vector<CountedPretokens> Take();

 private:
  SplitPattern pattern_;
  std::vector<std::unique_ptr<PretokenTable>> tables_;  // by thread
};

}  // namespace folio
