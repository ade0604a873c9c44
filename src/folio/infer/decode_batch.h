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

// WhenFull says how a text goes on that has filled the context.
enum class WhenFull {
  kSlide,  // its oldest tokens are forgotten, and it goes on
  kStop,   // it ends
};

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_tokens = {};       // one of these ends the text and is not given out
  std::vector<std::string> stop_strings = {};  // for TextStreamer (text_streamer.h) alone
  std::vector<bool> usable = {};               // by id: what may be chosen; empty for all
  WhenFull when_full = WhenFull::kSlide;
  std::optional<int64_t> stride = {};  // tokens forgotten at a time, 1 to P-1; P/2 if not given
  bool truncate = false;               // of a prompt longer than P the last P - stride tokens count
  // The model's own probabilities are worked out, with so many of the likeliest tokens.
  std::optional<int64_t> likeliest = {};
};

// GenerateStats counts and times the passes of one text.
struct GenerateStats {
  int64_t prompt_tokens = 0;  // that the model saw
  int64_t shared = 0;         // of these, from the first: known from another text
  int64_t dropped = 0;        // tokens of the prompt before these
  double prompt_seconds = 0;  // until the first token could be chosen
  int64_t tokens = 0;         // that the model saw after the prompt
  double seconds = 0;         // for these, with sliding, choosing and handing out
  int64_t stride = 0;         // that was used
  int64_t passes = 0;         // of the model for these: fewer, where guesses were right
  int64_t proposed = 0;       // guesses
  int64_t accepted = 0;       // of these, right ones
  int64_t slides = 0;         // how often the context was full
  int64_t reread = 0;         // tokens that were computed again for that
  double slide_seconds = 0;   // for these
};

struct NewToken {
  int32_t id = 0;
  ModelProbabilities probabilities = {};  // with GenerateOptions::likeliest
  double chance = 1;                      // with which it was chosen, after penalties and cuts
  int64_t seen = 0;                       // tokens before it that the model saw
};

// Returns how many tokens of a prompt with `length` of them a model with a context of P sees: the
// last ones.
int64_t PromptTokensSeen(int64_t length, const GenerateOptions& options, int64_t P);

enum class FinishReason { kLength, kStop, kContext, kCancelled };

// Throws a kUsage Error for a prompt, called `name`, that is empty, holds what is no token or is
// longer than a context of P (unless it is to be truncated), and for options that are out of their
// ranges or do not fit a model with that and V tokens.
void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name = "the prompt");

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
  // These get the rows (n,C) of the final norm, and logits (n,V), of the prompt's tokens from
  // `first` on, in order, before the first new token. The tensors are valid during the call. All of
  // the prompt is then computed, even if no token is wanted.
  std::function<void(int64_t first, const Tensor& norm)> on_norm = {};
  std::function<void(int64_t first, const Tensor& logits)> on_logits = {};
  int64_t logits_from = 0;  // the token of the prompt from which on on_logits is called
  // Called when the model has read so many tokens of the prompt, for prompts that take several
  // passes.
  std::function<void(int64_t done, int64_t total)> on_read = {};
  // Called for each new token, in order; returns false to end the text.
  std::function<bool(const NewToken&)> on_token = {};
  // Called once, at the end.
  std::function<void(FinishReason, const GenerateStats&)> on_end = {};
};

struct DecodeBatchOptions {
  int64_t texts = 1;                // at once, at most; up to 65,536
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
  // and for no texts or too many, and a kResource Error where memory does not suffice.
  DecodeBatch(Backend& backend, const GptWeights& weights, const DecodeBatchOptions& options = {});
  ~DecodeBatch();

  const GptConfig& config() const;
  int64_t context() const;  // P

  // The text joins as soon as there is room: in the order of Add, none before all of its pages are
  // sure. Throws what CheckGeneration throws, and a kUsage Error for one that needs more pages than
  // there are.
  Id Add(TextRequest request);
  // Ends a text as kCancelled, wherever it is; nothing for one that has ended.
  void Cancel(Id id);
  // A text that has not ended leaves the others its room until Resume, after which it waits to join
  // again, as after Add. It keeps its pages while nobody needs them; else the model reads anew what
  // it has seen. It becomes the same text in either case.
  void Park(Id id);
  void Resume(Id id);
  // Runs the model: over the next page of one long prompt, and over all other texts, which get a
  // token each (or more, where guesses of a draft were right). Calls on_token and on_end, which may
  // Add. Returns whether anything runs or waits. An exception ends no text; Step is not to be
  // called again then.
  bool Step();

  int64_t running() const;
  int64_t waiting() const;  // without those that are parked
  // Return the bytes of keys and values: the most there will be, and those that texts have now.
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
