#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_merger.h"
#include "folio/text/pretoken_cache.h"

namespace folio {

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
