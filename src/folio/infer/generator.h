#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "folio/infer/decode_batch.h"
#include "folio/infer/generate_options.h"

namespace folio {

// Continues texts with one model, one after the other: a DecodeBatch of one, without its callbacks.
class Generator {
 public:
  // `backend` and `weights` must outlive it.
  Generator(Backend& backend, const GptWeights& weights) : batch_(backend, weights) {}

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
