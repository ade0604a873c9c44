#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/infer/generate_options.h"
#include "folio/model/params.h"

namespace folio {

class Draft;  // infer/speculation.h

// A text to be continued.
struct TextRequest {
  std::vector<int32_t> prompt;  // not empty, each in [0,V), else Add throws
  GenerateOptions options = {};
  // Tells texts of one prompt and seed apart: each has random numbers of its own.
  uint64_t rng_stream = 0;
  // Optional: guesses how the text goes on, where it pays and no other text is beside it. The text
  // is the same without. One for a text at a time; must outlive it.
  Draft* draft = nullptr;
  // These show what the model makes of the prompt: rows of the final LayerNorm (n,C), and logits
  // (n,V), of its tokens from `first` on, in order, before the first new token. Valid during the
  // call. All of the prompt is then computed, even if nothing is to be written.
  std::function<void(int64_t first, const Tensor& norm)> on_norm = {};
  std::function<void(int64_t first, const Tensor& logits)> on_logits = {};
  // Called when the model has read so many tokens of the prompt, for prompts that take several
  // passes.
  std::function<void(int64_t done, int64_t total)> on_read = {};
  // Called for each new token, in order; returns false to end the text.
  std::function<bool(const NewToken&)> on_token = {};
  // Called once, at the end.
  std::function<void(FinishReason, const GenerateStats&)> on_end = {};
};

struct DecodeBatchOptions {
  int64_t texts = 1;                // at once, at most
  std::optional<Dtype> cache = {};  // of keys and values: F32, or BF16
  int64_t pages =
      0;  // of the KV cache, a hard limit; 0 for so many full contexts as there are texts
};

// Texts that are continued together: they join and leave between passes ("continuous batching",
// G.-I. Yu et al., Orca, OSDI 2022). A pass reads the weights once for all of them, so that several
// cost little more than one. A text depends on its own request alone: not on those beside it, nor
// on the number of threads. Texts that begin alike share what the model made of it.
//
// While text and prompt fit the context of P tokens each token costs one row of work. When a token
// comes to a full context, the `stride` oldest of the P are forgotten, and the model reads the
// others and the new one as if it saw them for the first time; then it goes on until the context is
// full again. With stride 1 it always sees the last P tokens, and computes all of them for each;
// with P/2 a token costs less than two.
class DecodeBatch {
 public:
  using Id = uint64_t;

  // `backend` and `weights` must outlive it. Throws a kUsage Error for a model that is not causal
  // and for no texts, and a kResource Error where memory does not suffice.
  DecodeBatch(Backend& backend, const GptWeights& weights, const DecodeBatchOptions& options = {});
  ~DecodeBatch();

  int64_t context() const;  // P

  // The text joins as soon as there is room: in the order of Add, none before all of its pages are
  // sure. Throws what CheckGeneration throws, and a kUsage Error for one that needs more pages than
  // there are.
  Id Add(TextRequest request);
  // Ends a text as kCancelled, wherever it is; nothing for one that has ended.
  void Cancel(Id id);
  // Runs the model: over the next page of one long prompt, and over all other texts, which get a
  // token each (or more, where guesses of a draft were right). Calls on_token and on_end, which may
  // Add. Returns whether there is anything left. An exception ends no text; Step is not to be
  // called again then.
  bool Step();

  int64_t running() const;
  int64_t waiting() const;
  // Return the bytes of keys and values: the most there will be, and those that texts have now.
  int64_t cache_bytes() const;
  int64_t used_cache_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio
