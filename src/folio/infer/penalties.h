#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/infer/sampler.h"

namespace folio {

// Changes logits as PenaltyOptions say (sampler.h).
class Penalties {
 public:
  // `ends`: the tokens that end a text.
  explicit Penalties(PenaltyOptions options, std::vector<int32_t> ends = {});

  // The changed logits: `logits` itself where nothing changes, else valid until the next call. They
  // depend on the arguments and options alone, and take time for each token of the text.
  // REQUIRES: every id is that of a logit.
  std::span<const float> Apply(std::span<const float> logits, const TokenHistory& text);

 private:
  void PenaliseRepetition(const TokenHistory& text);
  void BanRepeatedNgrams(std::span<const int32_t> tokens);
  float& At(int32_t id);

  PenaltyOptions options_;
  std::vector<int32_t> ends_;
  std::vector<float> changed_;
  std::vector<int32_t> counts_;  // by id: times written, -1 in the prompt alone; 0 between calls
  std::vector<int32_t> found_;
};

}  // namespace folio
