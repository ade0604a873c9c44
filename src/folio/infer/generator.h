#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/sampler.h"
#include "folio/model/decoder.h"

namespace folio {

// What happens when a text has filled the context.
enum class WhenFull {
  kSlide,  // its oldest tokens are forgotten, and it goes on
  kStop,   // it ends
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_tokens = {};       // one of these ends the text and is not given out
  std::vector<std::string> stop_strings = {};  // for WriteText (text_writer.h) alone
  std::vector<bool> usable = {};               // by id: what may be chosen; empty for all
  WhenFull when_full = WhenFull::kSlide;
  std::optional<int64_t> stride = {};  // tokens forgotten at a time, 1 to P-1; P/2 if not given
  bool truncate = false;               // of a prompt longer than P the last P - stride tokens count
  // The model's own probabilities are worked out, with so many of the likeliest tokens.
  std::optional<int64_t> likeliest = {};
};

// How the last text went.
struct GenerateStats {
  int64_t prompt_tokens = 0;  // that the model saw
  int64_t dropped = 0;        // tokens of the prompt before these
  double prompt_seconds = 0;  // until the first token could be chosen
  int64_t tokens = 0;         // that the model saw after the prompt
  double seconds = 0;         // for these, with sliding, choosing and handing out
  int64_t stride = 0;         // that was used
  int64_t slides = 0;         // how often the context was full
  int64_t reread = 0;         // tokens that were computed again for that
  double slide_seconds = 0;   // for these
};

// What the model itself expected at the place of a token, before biases, penalties and cuts.
struct ModelProbabilities {
  double log_probability = 0;                    // ln, of the token that was chosen
  std::vector<TokenProbability> likeliest = {};  // likeliest first
};

enum class FinishReason { kLength, kStop, kContext, kCancelled };

// Continues texts with one model. While text and prompt fit the context of P tokens each token
// costs one row of work. When a token comes to a full context, the `stride` oldest of the P are
// forgotten, and the model reads the others and the new one as if it saw them for the first time,
// in one pass; then it goes on until the context is full again. With stride 1 it always sees the
// last P tokens, and computes all of them for each; with P/2 a token costs less than two.
class Generator {
 public:
  // `backend` and `weights` must outlive it.
  Generator(Backend& backend, const GptWeights& weights);

  // Throws a kUsage Error for a prompt, called `name`, that is longer than the context (unless it
  // is to be truncated), and for options that do not fit the model.
  void Check(std::span<const int32_t> prompt, const GenerateOptions& options,
             const std::string& name = "the prompt") const;

  // Calls on_token for each new token, in order; it returns false to end the text. `sequence` tells
  // texts of one prompt apart: each has random numbers of its own. Throws what Check and Sampler
  // throw. REQUIRES: the prompt is not empty, each id in [0,V).
  FinishReason Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                        uint64_t sequence, const std::function<bool(int32_t id)>& on_token);

  const GenerateStats& stats() const { return stats_; }
  // With `likeliest`: of the token that on_token was called with last.
  const ModelProbabilities& probabilities() const { return probabilities_; }

 private:
  void Begin(std::span<const int32_t> prompt, const GenerateOptions& options);
  // The logits of what follows tokens_, of which all but the last `fresh` have been appended.
  std::span<const float> Next(size_t fresh);
  // The same for a full context.
  std::span<const float> Slide();

  Decoder decoder_;
  CachedSequence text_{decoder_.cache()};
  int64_t V_;
  std::vector<int32_t> tokens_;  // prompt and text, all of it
  GenerateStats stats_;
  ModelProbabilities probabilities_;
};

}  // namespace folio
