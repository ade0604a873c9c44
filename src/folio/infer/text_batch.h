#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "folio/infer/growing_text.h"
#include "folio/model/params.h"

namespace folio {

struct TextBatchOptions {
  int64_t texts = 1;                // at once, at most
  std::optional<Dtype> cache = {};  // of keys and values: F32, or BF16
  int64_t pages =
      0;  // of the KV cache, a hard limit; 0 for so many full contexts as there are texts
};

// Texts that are continued together: they join and leave between passes ("continuous batching",
// G.-I. Yu et al., Orca, OSDI 2022). A pass reads the weights once for all of them, so that several
// cost little more than one. What is written depends on a text's own request alone: not on those
// beside it, nor on the number of threads. Texts that begin alike share what the model made of it.
//
// While text and prompt fit the context of P tokens each token costs one row of work. When a token
// comes to a full context, the `stride` oldest of the P are forgotten, and the model reads the
// others and the new one as if it saw them for the first time; then it goes on until the context is
// full again. With stride 1 it always sees the last P tokens, and computes all of them for each;
// with P/2 a token costs less than two.
class TextBatch {
 public:
  using Id = uint64_t;

  // `backend` and `weights` must outlive it. Throws a kUsage Error for a model that is not causal,
  // and a kResource Error where memory does not suffice.
  TextBatch(Backend& backend, const GptWeights& weights, const TextBatchOptions& options = {});

  int64_t context() const { return decoder_.capacity(); }  // P
  int64_t vocab_size() const { return V_; }

  // The text joins as soon as there is room: in the order of Add, none before all of its pages are
  // sure. Throws what CheckGeneration throws, and a kUsage Error for one that needs more pages than
  // there are.
  Id Add(TextRequest request);
  // Ends a text as kCancelled, wherever it is; nothing for one that has ended.
  void Cancel(Id id);
  // Runs the model: over the next page of one long prompt, and over all other texts, which get a
  // token each (or more, where guesses of a draft were right). Calls on_token and on_end, which may
  // Add. Returns whether there is anything left. What it throws ends nothing: not to be called
  // again then.
  bool Step();

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }

 private:
  struct Text {
    Id id;
    GrowingText text;
    bool done = false;
  };

  void Admit();
  int64_t PromisedPages();
  void ReadPages();
  // One pass over these texts' pending tokens, which are few.
  void RunRows(std::span<Text* const> texts);
  void Take(std::span<Text* const> texts, const Tensor& logits, double pass_seconds);

  int64_t texts_, V_;
  Decoder decoder_;
  Id next_id_ = 0;
  std::deque<Text> waiting_, running_;
};

}  // namespace folio
