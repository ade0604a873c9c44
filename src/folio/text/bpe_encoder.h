#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "folio/text/bpe_symbols.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/pretoken_cache.h"

namespace folio {

// The table of the pairs of tokens that merge, with their ranks. A pair and its rank together take
// eight bytes: these look-ups dominate the merging of rare words.
class PairTable {
 public:
  static constexpr uint32_t kNone = (uint32_t{1} << 22) - 1;  // no such merge; above every rank
  static constexpr int kIdBits = 21;
  static constexpr int kRankBits = 22;

  // `ranks` belong to `merges`. REQUIRES: ids below 2^21, ranks below kNone, distinct pairs.
  PairTable(std::span<const BpeMerge> merges, std::span<const uint32_t> ranks) {
    size_t slots = 64;
    while (slots < merges.size() * 2) slots *= 2;
    mask_ = slots - 1;
    slots_.assign(slots, kEmpty);
    maybe_.assign(slots / 16, 0);
    for (size_t i = 0; i < merges.size(); ++i) {
      const uint64_t pair = Pair(merges[i].left, merges[i].right);
      size_t slot = Home(Mix(pair));
      while (slots_[slot] != kEmpty) slot = (slot + 1) & mask_;
      slots_[slot] = pair << kRankBits | ranks[i];
      const uint64_t mixed = Mix(pair);
      maybe_[MaybeWord(mixed)] |= MaybeBit(mixed);
    }
  }

  // The rank of the merge of two neighbours, or kNone.
  uint32_t Rank(int32_t left, int32_t right) const {
    const uint64_t pair = Pair(left, right);
    const uint64_t mixed = Mix(pair);
    if ((maybe_[MaybeWord(mixed)] & MaybeBit(mixed)) == 0) return kNone;
    for (size_t slot = Home(mixed);; slot = (slot + 1) & mask_) {
      const uint64_t entry = slots_[slot];
      if (entry >> kRankBits == pair) return static_cast<uint32_t>(entry) & kNone;
      if (entry == kEmpty) return kNone;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t Pair(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << kIdBits | static_cast<uint64_t>(right);
  }
  static uint64_t Mix(uint64_t pair) {
    const uint64_t mixed = pair * 0x9E3779B97F4A7C15;
    return mixed ^ mixed >> 32;
  }
  size_t Home(uint64_t mixed) const { return static_cast<size_t>(mixed) & mask_; }
  // Four bits for each slot.
  size_t MaybeWord(uint64_t mixed) const { return static_cast<size_t>(mixed >> 6) & mask_ >> 4; }
  static uint64_t MaybeBit(uint64_t mixed) { return uint64_t{1} << (mixed & 63); }

  std::vector<uint64_t> slots_;
  // Most pairs do not merge: a bit for each value of a hash, set if some pair with that value
  // merges. Small enough to stay in the cache.
  std::vector<uint64_t> maybe_;
  size_t mask_ = 0;
};

struct EncodeScratch;

// A vocabulary prepared for encoding and decoding. Immutable, except for the scratch memory that
// encoding threads borrow.
class BpeModel {
 public:
  // `vocab` must have passed CheckBpeVocab.
  explicit BpeModel(BpeVocab vocab);
  ~BpeModel();
  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

  const BpeVocab& vocab() const { return vocab_; }
  // The vocabulary's pattern, or one that divides more finely with the same ids.
  SplitPattern pattern() const { return pattern_; }
  int64_t vocab_size() const { return static_cast<int64_t>(vocab_.tokens.size()); }

  // The symbols that are merged: tokens below vocab_size(), and others above.
  const BpeSymbols& symbols() const { return symbols_; }
  // True if all symbols are tokens.
  bool all_tokens() const { return symbols_.others.empty(); }
  // True if bytes of the pretoken are dropped before merging: the bytes beside them may merge.
  bool Loses(std::string_view pretoken) const;
  std::string WithoutLost(std::string_view pretoken) const;
  // Replaces symbols of one pretoken, from `first` on, by the ids that they stand for.
  void Expand(size_t first, std::vector<int32_t>& ids) const;

  int32_t byte_id(unsigned char byte) const { return symbols_.of_byte[byte]; }
  // The rank of the merge of two bytes, or PairTable::kNone.
  uint32_t byte_pair_rank(unsigned char left, unsigned char right) const {
    return byte_pair_ranks_[size_t{left} << 8 | right];
  }
  const PairTable& pairs() const { return pairs_; }
  // The symbol that merges of this rank make.
  int32_t merged(uint32_t rank) const { return merged_[rank]; }

  // True if the bytes of every token that a text may become are encoded as that token, and one
  // merge makes it. Then the encoding of a pretoken is the only sequence of tokens in which each
  // two neighbours are encoded as themselves; so pretokens may be looked up as a whole, and be
  // divided.
  bool proper() const { return proper_; }
  size_t longest_token() const { return longest_token_; }  // in bytes
  // True if no token contains these two bytes in a row: nothing ever merges across them.
  bool Apart(unsigned char left, unsigned char right) const {
    return !together_[size_t{left} << 8 | right];
  }
  // The token for a whole pretoken that merging may not produce, or -1. A proper model has none.
  int32_t FindWhole(std::string_view pretoken) const;
  // The short tokens, as far as they fit; for an improper model only those that FindWhole finds.
  const PretokenCache& tokens_cache() const { return *tokens_cache_; }
  bool narrow() const { return vocab_size() <= 65536; }

  // Bytes of a token, 15 of them and their count; kLongToken means more.
  static constexpr unsigned char kLongToken = 255;
  struct alignas(16) ShortToken {
    char bytes[15];
    unsigned char length;
  };
  const ShortToken* short_tokens() const { return short_tokens_.data(); }

  // Lends memory to one thread at a time; Return gives it back. Never waits. At most as many as
  // there are computing threads (base/thread_pool.h) have caches of their own, of up to 40 MB each.
  EncodeScratch* Borrow() const;
  void Return(EncodeScratch* scratch) const;

 private:
  // Returns true if a merge makes the token, or it is a byte.
  bool Made(size_t id) const;
  bool IsProper(const std::vector<bool>& special) const;
  // True if two tokens, each encoded as itself, stay separate side by side, ignoring `made`, the
  // rank of the merge that makes one of them (kNone: there is none).
  bool StayApart(int32_t left, int32_t right, uint32_t made) const;
  void FillCache(const std::vector<bool>& special);

  // True if no token has a space after anything but a space.
  bool SpacesBeginTokens(const std::vector<bool>& special) const;

  BpeVocab vocab_;
  SplitPattern pattern_;
  BpeSymbols symbols_;
  PairTable pairs_;
  std::vector<int32_t> merged_;
  std::vector<uint32_t> rank_of_;  // of the merge that makes a symbol; kNone for bytes and specials
  std::vector<uint32_t> byte_pair_ranks_;
  std::bitset<65536> together_;
  bool proper_ = false;
  size_t longest_token_ = 0;
  std::unordered_map<std::string_view, int32_t> whole_tokens_;
  std::unique_ptr<PretokenCache> tokens_cache_;
  std::vector<ShortToken> short_tokens_;

  static constexpr size_t kLent = 64;
  mutable std::array<std::atomic<EncodeScratch*>, kLent> scratch_ = {};
  mutable std::atomic<size_t> with_caches_ = 0;
};

// Memory that merging reuses.
struct MergeScratch {
  std::vector<int32_t> symbols;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<int32_t> window;
};

// Appends the symbols that the merges make of one pretoken, without looking it up as a whole. Short
// pretokens by repeated search for the lowest rank, longer ones with a heap of pairs, O(n log n);
// with a proper model very long ones in overlapping windows, in time linear in the pretoken and
// with memory for one window.
void MergePretoken(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                   std::vector<int32_t>& ids);

// The same for the beginning of a pretoken that continues: appends the symbols that are certain,
// and returns how many bytes they cover, up to a character. The rest may be merged separately.
size_t MergeDecided(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                    std::vector<int32_t>& ids);

// The methods for pretokens of a certain size, for tests.
inline constexpr size_t kScanBytes = 64;
// REQUIRES: 1 to kScanBytes bytes. Writes at most pretoken.size() ids and returns how many.
size_t MergeByScan(const BpeModel& model, std::string_view pretoken, int32_t* ids);
void MergeByHeap(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                 std::vector<int32_t>& ids);
// Returns how many bytes were merged: all of them with `at_end`, else those before the last window
// that begins with a character, or none if later text may change their ids. REQUIRES:
// model.proper(); a window of at least twice the longest token.
size_t MergeByWindows(const BpeModel& model, std::string_view pretoken, size_t window, bool at_end,
                      MergeScratch& scratch, std::vector<int32_t>& ids);

// Memory that a thread keeps between texts, with what it has cached.
struct EncodeScratch {
  // Frees what one very long pretoken has enlarged.
  void Trim();

  static constexpr size_t kPretokens = 512;  // processed at a time
  static constexpr size_t kUnits = 1024;     // pretokens, or the parts of long ones

  bool has_caches = false;               // it may have the following:
  std::unique_ptr<PretokenCache> cache;  // null until the thread has encoded enough to need its own
  std::unique_ptr<LongPretokenCache> long_pretokens;  // the same
  size_t bytes = 0;                                   // encoded with this so far
  MergeScratch merge;
  std::vector<int32_t> merged;
  std::vector<int32_t> ids;
  std::array<size_t, kPretokens> ends;
  std::array<size_t, kUnits> unit_ends;
  std::array<uint64_t, kUnits> low, high, hash;  // for units of up to 15 bytes
};

// Appends the ids of `text` to `ids`, as Tokenizer::EncodePrefix (at_end) or EncodeDecided; returns
// how many bytes were encoded.
size_t EncodeText(const BpeModel& model, EncodeScratch& scratch, std::string_view text, bool at_end,
                  std::vector<int32_t>& ids);

}  // namespace folio
