#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/model/kv_cache.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

struct DecoderOptions {
  Dtype dtype = Dtype::kF32;        // of weights that are not stored ones: F32 or F64
  std::optional<Dtype> cache = {};  // of keys and values: `dtype`, or BF16 for F32
  int64_t pages = 0;                // of the cache; 0 for the pages of one sequence of P tokens
  int64_t sequences = 0;            // the largest number at once, as in KvCache
};

// The tokens that a pass appends to one sequence.
struct SequencePiece {
  CachedSequence* sequence = nullptr;
  std::span<const int32_t> ids = {};  // each in [0,V)
  bool every_row = false;  // logits are wanted after each token, not after the last alone
};

// Runs a model over sequences that grow: keys and values of the tokens so far are kept, so that a
// new token costs one row of work. Up to kFewRows rows, of any sequences, go through the model
// together, and each has the same result, bit for bit, whatever the others are. Longer pieces go a
// page at a time, cut at the ends of pages, so that the result of a sequence that was appended at
// once depends on its tokens alone, also where it shares pages with others. After construction a
// step allocates no large memory.
class Decoder {
 public:
  static constexpr int64_t kFewRows = LinearForward::kFewRows;

  // `backend` and the weights, which are whole, must outlive it. Throws a kUsage Error for a model
  // that is not causal, and a kResource Error where memory does not suffice.
  Decoder(Backend& backend, const GptWeights& weights, const DecoderOptions& options = {});
  Decoder(const Decoder&) = delete;

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  int64_t capacity() const { return cache_.capacity(); }  // P, of each sequence

  // Appends tokens, each in [0,V), to a sequence of cache(), and returns the logits (1,V) of what
  // follows the last of them, for the host; they stay valid until the next call. REQUIRES: at least
  // one token, sequence.size() + ids.size() <= capacity(), and free pages.
  Tensor Append(CachedSequence& sequence, std::span<const int32_t> ids);
  // Does the same without logits. REQUIRES: as above, but there may be no token.
  void Read(CachedSequence& sequence, std::span<const int32_t> ids);

  // Return the result of the last pass, valid until the next: the final norm (n,C) of all rows, in
  // the backend's memory, and the logits (end - begin, V) of some of them, for the host. REQUIRES:
  // end - begin <= kFewRows.
  const Tensor& norm() const { return buffers_.acts.norm_f.out; }
  Tensor LogitsOf(int64_t begin, int64_t end);

  // Appends to several sequences in one pass, and returns the logits that are wanted, in the order
  // of the pieces, one row for each. REQUIRES: as above, one piece for a sequence, and no more than
  // kFewRows tokens together.
  Tensor Append(std::span<const SequencePiece> pieces);

  // Returns another sequence of the same tokens; full pages are shared.
  CachedSequence Fork(const CachedSequence& sequence);

 private:
  const GptConfig& config() const { return weights_.config(); }
  PassShape Pass(int64_t rows) const;  // of `rows` new tokens
  // Makes one pass up to the final norm. REQUIRES: one piece within a page, or few rows.
  void Forward(std::span<const SequencePiece> pieces);
  // Returns the logits that are wanted after it.
  Tensor Logits(std::span<const SequencePiece> pieces);
  // Gives a sequence pages for more rows, and one of its own for the next.
  void Grow(CachedSequence& sequence, int64_t rows);
  // Copies the first rows of a page of some layers: those with windows, or the others.
  void CopyPage(int32_t from, int32_t to, int64_t rows, bool windows);

  Backend& backend_;
  const GptWeights& weights_;
  DecoderOptions options_;
  PassOptions pass_options_;
  KvCache cache_;
  MemoryPlan plan_, cached_plan_;  // of the longest pass
  Arena arena_, cached_arena_;
  PassBuffers buffers_;
  CachedRows cached_;
  Mirror positions_;  // of the rows
  Mirror tables_, window_tables_;
};

}  // namespace folio
