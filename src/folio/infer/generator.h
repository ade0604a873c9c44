#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "folio/infer/sampler.h"
#include "folio/model/decoder.h"

namespace folio {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_tokens = {};  // one of these ends the text and is not given out
  std::vector<bool> usable = {};          // by id: what may be chosen; empty for all
};

// How the last text went.
struct GenerateStats {
  int64_t prompt_tokens = 0;  // that the model saw, n_positions at most
  double prompt_seconds = 0;  // until the first token could be chosen
  int64_t tokens = 0;         // that the model saw after it
  double seconds = 0;         // for these, with choosing and handing out
  bool slid = false;          // the text was longer than the context
};

enum class FinishReason { kLength, kStop, kCancelled };

// Continues texts with one model. While text and prompt fit the context each token costs one row of
// work; after that the window slides by one token at a time and is computed anew, as if the model
// saw its last n_positions tokens for the first time.
class Generator {
 public:
  // `backend` and `weights` must outlive it.
  Generator(Backend& backend, const GptWeights& weights);

  // Calls on_token for each new token, in order; it returns false to end the text. `sequence` tells
  // texts of one prompt apart: each has random numbers of its own. Of a prompt longer than the
  // context the last n_positions tokens count. REQUIRES: the prompt is not empty, each id in [0,V).
  FinishReason Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                        uint64_t sequence, const std::function<bool(int32_t id)>& on_token);

  const GenerateStats& stats() const { return stats_; }

 private:
  // The logits after `tokens`, of which all but the last `fresh` have been appended before.
  std::span<const float> Next(std::span<const int32_t> tokens, size_t fresh);

  Decoder decoder_;
  std::vector<int32_t> tokens_;
  GenerateStats stats_;
};

}  // namespace folio
