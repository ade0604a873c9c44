#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"

namespace folio {

inline bool SameNumbers(const GptWeights& a, const GptWeights& b) {
  return std::ranges::equal(a.tensors(), b.tensors(), [](const Tensor& x, const Tensor& y) {
    return std::ranges::equal(Elements<float>(x), Elements<float>(y));
  });
}

// The logits of the model, in float64.
inline std::vector<double> Logits64(const StoredModel& model, const std::vector<int32_t>& ids,
                                    int64_t B, int64_t T) {
  const auto weights = ReadWeights(model, Dtype::kF64);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  GptPass pass(*backend, model.config, B, T, PassKind::kForward, {.dtype = Dtype::kF64});
  pass.Forward(weights->params(), ids);
  std::vector<double> logits(static_cast<size_t>(B * T * model.config.vocab_size));
  pass.Logits(weights->params(), 0, B * T, Tensor(logits.data(), {B * T, model.config.vocab_size}));
  return logits;
}

// Succeeds if the model gives the logits that the expected.safetensors in `dir` has for its ids.
inline testing::AssertionResult GivesExpected(const StoredModel& model,
                                              const std::filesystem::path& dir,
                                              double tolerance = 1e-10) {
  const SafetensorsFile expected(dir / "expected.safetensors");
  const TensorInfo& ids = expected.Require("ids");
  const auto logits = Logits64(model, expected.ReadAs<int32_t>("ids"), ids.shape[0], ids.shape[1]);
  const auto theirs = expected.ReadAs<double>("logits");
  if (logits.size() != theirs.size()) return testing::AssertionFailure() << "another shape";
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::abs(logits[i] - theirs[i]) <= tolerance * (1 + std::abs(theirs[i]))) continue;
    return testing::AssertionFailure()
           << "logit " << i << " is " << logits[i] << ", not " << theirs[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace folio
