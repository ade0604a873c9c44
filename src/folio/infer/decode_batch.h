#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/infer/sampler.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/params.h"

namespace folio {

// The continuation of a text that has filled the context.
enum class WhenFull {
  kSlide,  // its oldest tokens are forgotten, and it continues
  kStop,   // it ends
};

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_tokens = {};       // each ends the text, of which it is no part
  std::vector<std::string> stop_strings = {};  // for TextStreamer (text_streamer.h) alone
  std::vector<bool> usable = {};               // by id, which tokens may be chosen; empty for all
  WhenFull when_full = WhenFull::kSlide;
  std::optional<int64_t> stride = {};  // tokens forgotten at a time, 1 to P-1; P/2 if not given
  bool truncate = false;  // uses the last P - stride tokens of a prompt that is longer than P
  // If set, each token comes with the model's own probabilities and so many of the likeliest
  // tokens.
  std::optional<int64_t> likeliest = {};
};

// GenerateStats counts and times the passes of one text.
struct GenerateStats {
  int64_t prompt_tokens = 0;  // that the model saw
  int64_t shared = 0;         // the first of these, known from another text
  int64_t dropped = 0;        // tokens of the prompt before these
  double prompt_seconds = 0;  // until the first token could be chosen
  int64_t tokens = 0;         // that the model saw after the prompt
  double seconds = 0;         // for these, with sliding, choosing and callbacks
  int64_t stride = 0;         // the stride that was used
  int64_t passes = 0;         // of the model for these: fewer, if proposals were accepted
  int64_t proposed = 0;       // tokens proposed by a draft
  int64_t accepted = 0;       // of these, accepted ones
  int64_t slides = 0;         // how often the context was full
  int64_t reread = 0;         // tokens that were computed again for that
  double slide_seconds = 0;   // for these
};

struct NewToken {
  int32_t id = 0;
  ModelProbabilities probabilities = {};  // with GenerateOptions::likeliest
  double chance = 1;                      // its probability after penalties and cuts
  int64_t seen = 0;                       // tokens before it that the model saw
};

// The number of tokens, the last ones, that a model with a context of P sees of a prompt with
// `length` tokens.
int64_t PromptTokensSeen(int64_t length, const GenerateOptions& options, int64_t P);

enum class FinishReason { kLength, kStop, kContext, kCancelled };

// Throws a kUsage Error for a prompt, called `name`, that is empty, has ids without a token or is
// longer than a context of P (unless it is to be truncated), and for options that are out of their
// ranges or do not fit a model with this context and V tokens.
void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name = "the prompt");

class Draft;  // infer/speculation.h

// A text to be continued.
struct TextRequest {
  std::vector<int32_t> prompt;  // not empty, each in [0,V), else Add throws
  GenerateOptions options = {};
  // Texts of one prompt and seed have different random numbers by different streams.
  uint64_t rng_stream = 0;
  // Optional: proposes tokens if that is faster and no other text runs. The text is the same
  // without it. A draft is for one text at a time, and must outlive it.
  Draft* draft = nullptr;
  // Called with the rows (n,C) of the final norm, and with logits (n,V), of the prompt's tokens
  // from `first` on, in order, before the first new token. The tensors are valid during the call.
  // All of the prompt is then computed, even with max_tokens 0.
  std::function<void(int64_t first, const Tensor& norm)> on_norm = {};
  std::function<void(int64_t first, const Tensor& logits)> on_logits = {};
  int64_t logits_from = 0;  // the first token of the prompt for which on_logits is called
  // Called after each pass over a part of the prompt.
  std::function<void(int64_t done, int64_t total)> on_read = {};
  // Called for each new token, in order; returns false to end the text.
  std::function<bool(const NewToken&)> on_token = {};
  // Called once, at the end.
  std::function<void(FinishReason, const GenerateStats&)> on_end = {};
};

struct DecodeBatchOptions {
  int64_t texts = 1;                // at once, at most; up to 65,536
  std::optional<Dtype> cache = {};  // of keys and values: F32, or BF16
  int64_t pages = 0;  // of the KV cache, a hard limit; 0: as many as `texts` full contexts need
};

// Texts that are continued together: they join and leave between passes ("continuous batching",
// G.-I. Yu et al., Orca, OSDI 2022). A pass reads the weights once for all of them, so that several
// cost little more than one. A text depends only on its own request: neither on other texts nor on
// the number of threads. Texts with the same beginning share its keys and values.
//
// While text and prompt fit the context of P tokens, each token costs one row of work. In a full
// context the `stride` oldest tokens are forgotten before the next one, and the model reads the
// others again, until the context is full the next time. With stride 1 it always sees the last P
// tokens, and computes all of them for each new one; with P/2 a token costs less than two rows.
class DecodeBatch {
 public:
  using Id = uint64_t;

  // `backend` and `weights` must outlive it. Throws a kUsage Error for a model that is not causal
  // and for no texts or too many, and a kResource Error where memory does not suffice.
  DecodeBatch(Backend& backend, const GptWeights& weights, const DecodeBatchOptions& options = {});
  ~DecodeBatch();

  const GptConfig& config() const;
  int64_t context() const;  // P

  // Texts join in the order of Add, each as soon as all of its pages are available. Throws what
  // CheckGeneration throws, and a kUsage Error for a text that needs more pages than there are.
  Id Add(TextRequest request);
  // Ends a text as kCancelled; does nothing for one that has ended.
  void Cancel(Id id);
  // Suspends a text that has not ended, so that others can run, until Resume, after which it waits
  // to join again, as after Add. It keeps its pages until another text needs them; then the model
  // reads its tokens again. The text is the same in either case.
  void Park(Id id);
  void Resume(Id id);
  // Runs the model: over the next page of one long prompt, and over all other texts, which get a
  // token each (or more, if proposals of a draft were accepted). Calls on_token and on_end, which
  // may call Add. Returns true if any text runs or waits. After an exception Step must not be
  // called again.
  bool Step();

  int64_t running() const;
  int64_t waiting() const;  // without parked texts
  // The bytes of keys and values: of the whole cache, and of its pages in use.
  int64_t cache_bytes() const;
  int64_t used_cache_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Continues texts with one model, one after the other: a DecodeBatch of one, without its callbacks.
class Generator {
 public:
  // `backend` and `weights` must outlive it.
  Generator(Backend& backend, const GptWeights& weights) : batch_(backend, weights) {}

  const GptConfig& config() const { return batch_.config(); }

  // Calls on_token for each new token, in order; it returns false to end the text. `rng_stream` is
  // that of a TextRequest. Throws what CheckGeneration and Sampler throw.
  FinishReason Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                        uint64_t rng_stream, const std::function<bool(const NewToken&)>& on_token);

  const GenerateStats& stats() const { return stats_; }  // of the last text

 private:
  DecodeBatch batch_;
  GenerateStats stats_;
};

}  // namespace folio
