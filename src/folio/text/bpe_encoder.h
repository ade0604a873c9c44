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

// The table of the pairs of tokens that merge, and when. A pair, its rank and nothing else lie in
// eight bytes: the merging of rare words waits for these look-ups.
class PairTable {
 public:
  static constexpr uint32_t kNone = (uint32_t{1} << 22) - 1;  // no such merge; above every rank
  static constexpr int kIdBits = 21;
  static constexpr int kRankBits = 22;

  // `ranks` are those of `merges`. REQUIRES: ids below 2^21, ranks below kNone, distinct pairs.
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
  // Four bits for a slot.
  size_t MaybeWord(uint64_t mixed) const { return static_cast<size_t>(mixed >> 6) & mask_ >> 4; }
  static uint64_t MaybeBit(uint64_t mixed) { return uint64_t{1} << (mixed & 63); }

  std::vector<uint64_t> slots_;
  // Most pairs do not merge: a bit for each value of a hash, set where some pair that does has it.
  // Small enough to stay near.
  std::vector<uint64_t> maybe_;
  size_t mask_ = 0;
};

struct EncodeScratch;

// A vocabulary made ready for encoding and decoding. Constant once made, but for the scratch
// memory that encoding threads borrow.
class BpeModel {
 public:
  // `vocab` must have passed CheckBpeVocab.
  explicit BpeModel(BpeVocab vocab);
  ~BpeModel();
  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

  const BpeVocab& vocab() const { return vocab_; }
  // That of the vocabulary, or one that cuts more and gives the same ids.
  SplitPattern pattern() const { return pattern_; }
  int64_t vocab_size() const { return static_cast<int64_t>(vocab_.tokens.size()); }

  // What merging works on. Its symbols are tokens below vocab_size(), and others from there on.
  const BpeSymbols& symbols() const { return symbols_; }
  // True if no symbol is anything but a token.
  bool all_tokens() const { return symbols_.others.empty(); }
  // True if bytes of the pretoken are left out before it is merged: what is beside them may merge.
  bool Loses(std::string_view pretoken) const;
  std::string WithoutLost(std::string_view pretoken) const;
  // Puts the ids that they stand for in the place of symbols of one pretoken, from `first` on.
  void Expand(size_t first, std::vector<int32_t>& ids) const;

  int32_t byte_id(unsigned char byte) const { return symbols_.of_byte[byte]; }
  // The rank of the merge of two bytes, or PairTable::kNone.
  uint32_t byte_pair_rank(unsigned char left, unsigned char right) const {
    return byte_pair_ranks_[size_t{left} << 8 | right];
  }
  const PairTable& pairs() const { return pairs_; }
  // The symbol that the merges of this rank make.
  int32_t merged(uint32_t rank) const { return merged_[rank]; }

  // True if every token that a text may become is what its own bytes are encoded as, and one merge
  // makes it. Then the encoding of a pretoken is the one sequence of tokens of which each two
  // neighbours are encoded as themselves; that lets pretokens be looked up as a whole, and be cut.
  bool proper() const { return proper_; }
  size_t longest_token() const { return longest_token_; }  // in bytes
  // True if no token has these two bytes in a row: nothing ever merges across.
  bool Apart(unsigned char left, unsigned char right) const {
    return !together_[size_t{left} << 8 | right];
  }
  // The token that a whole pretoken is encoded as though merging may not make it, or -1. A proper
  // model has none.
  int32_t FindWhole(std::string_view pretoken) const;
  // The short tokens, as far as they have a place in it; with an improper model only those that
  // FindWhole finds.
  const PretokenCache& tokens_cache() const { return *tokens_cache_; }
  bool narrow() const { return vocab_size() <= 65536; }

  // Bytes of a token, 15 of them and their number; kLongToken stands for more.
  static constexpr unsigned char kLongToken = 255;
  struct alignas(16) ShortToken {
    char bytes[15];
    unsigned char length;
  };
  const ShortToken* short_tokens() const { return short_tokens_.data(); }

  // Lends memory to one thread at a time; Return gives it back. Never waits. As many have caches of
  // their own, of up to 40 MB each, as threads compute (base/thread_pool.h), however many encode.
  EncodeScratch* Borrow() const;
  void Return(EncodeScratch* scratch) const;

 private:
  // Returns whether a merge makes the token, or it is a byte.
  bool Made(size_t id) const;
  bool IsProper(const std::vector<bool>& special) const;
  // True if two tokens, each encoded as itself, stay as they are side by side, but for `made`, the
  // rank of the merge that makes one of them (kNone: there is none).
  bool StayApart(int32_t left, int32_t right, uint32_t made) const;
  void FillCache(const std::vector<bool>& special);

  // True if no token has a space behind anything but a space.
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

// Memory that merging uses again and again.
struct MergeScratch {
  std::vector<int32_t> symbols;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<int32_t> window;
};

// Appends the symbols that the merges make of one pretoken; nothing is looked up as a whole. Short
// pretokens by searching for the lowest rank again and again, longer ones with a heap of pairs, O(n
// log n); with a proper model very long ones in overlapping windows, in time linear in the pretoken
// and with memory for one window.
void MergePretoken(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                   std::vector<int32_t>& ids);

// The same for the beginning of a pretoken that goes on: appends the symbols that are certain, and
// returns how many bytes they are, up to a character. The rest may be merged by itself.
size_t MergeDecided(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                    std::vector<int32_t>& ids);

// The plain methods, for pretokens of their size.
inline constexpr size_t kScanBytes = 64;
// REQUIRES: 1 to kScanBytes bytes. Writes at most pretoken.size() ids and returns how many.
size_t MergeByScan(const BpeModel& model, std::string_view pretoken, int32_t* ids);
void MergeByHeap(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                 std::vector<int32_t>& ids);
// Returns how many bytes were merged: all of them with `at_end`, else those before the last window
// that begins with a character, or none if what follows may change their ids. REQUIRES:
// model.proper(); a window of at least twice the longest token.
size_t MergeByWindows(const BpeModel& model, std::string_view pretoken, size_t window, bool at_end,
                      MergeScratch& scratch, std::vector<int32_t>& ids);

// A thread keeps its scratch, and what it has found, between texts.
struct EncodeScratch {
  // Gives back what one very long pretoken has made long.
  void Trim();

  static constexpr size_t kPretokens = 512;  // handled at a time
  static constexpr size_t kUnits = 1024;     // they, or the parts of the long ones among them

  bool has_caches = false;               // it may have those:
  std::unique_ptr<PretokenCache> cache;  // none until a thread has encoded enough to need its own
  std::unique_ptr<LongPretokenCache> long_pretokens;  // likewise
  size_t bytes = 0;                                   // encoded with this so far
  MergeScratch merge;
  std::vector<int32_t> merged;
  std::vector<int32_t> ids;
  std::array<size_t, kPretokens> ends;
  std::array<size_t, kUnits> unit_ends;
  std::array<uint64_t, kUnits> low, high, hash;  // of units of up to 15 bytes
};

// Appends the ids of `text` to `ids`, as Tokenizer::EncodePrefix (at_end) or EncodeDecided; returns
// how many bytes that was.
size_t EncodeText(const BpeModel& model, EncodeScratch& scratch, std::string_view text, bool at_end,
                  std::vector<int32_t>& ids);

}  // namespace folio
