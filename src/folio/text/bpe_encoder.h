#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_model.h"
#include "folio/text/pretoken_cache.h"

namespace folio {

// Memory that merging uses again and again.
struct MergeScratch {
  std::vector<int32_t> symbols;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<int32_t> window;
};

// Appends the ids that the merges make of one pretoken; nothing is looked up as a whole. Short
// pretokens by searching for the lowest rank again and again, longer ones with a heap of pairs, O(n
// log n); with a proper model very long ones in overlapping windows, in time linear in the pretoken
// and with memory for one window.
void MergePretoken(const BpeModel& model, std::string_view pretoken, MergeScratch& scratch,
                   std::vector<int32_t>& ids);

// The same for the beginning of a pretoken that goes on: appends the ids that are certain, and
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
