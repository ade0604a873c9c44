#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/fields.h"
#include "folio/io/safetensors.h"
#include "folio/model/config.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/expect.h"
#include "tests/kit/fields.h"
#include "tests/kit/paths.h"

namespace folio {

inline bool SameNumbers(const GptWeights& a, const GptWeights& b) {
  return std::ranges::equal(a.tensors(), b.tensors(), [](const Tensor& x, const Tensor& y) {
    return std::ranges::equal(Elements<float>(x), Elements<float>(y));
  });
}

// Settings of a configuration by their names.
using ConfigChanges = std::vector<std::pair<std::string, std::string>>;
inline GptConfig With(GptConfig config, const ConfigChanges& changes) {
  for (const auto& [key, value] : changes) SetField(FindField(config.Fields(), key), value, "test");
  return config;
}

// Expects `refusal` of a configuration with each of these settings to name it and its value.
template <class F>
void ExpectSettingsRefused(const GptConfig& config, const ConfigChanges& settings,
                           const F& refusal) {
  for (const auto& [key, value] : settings) {
    EXPECT_TRUE(Contains(refusal(With(config, {{key, value}})), key + " = " + value));
  }
}

// The logits of the model in float32, by the backend of that name.
inline std::vector<float> LogitsOf(const GptWeights& weights, std::span<const int32_t> ids,
                                   const char* backend_name = "reference") {
  const auto backend = MakeBackend(backend_name);
  const int64_t T = std::ssize(ids), V = weights.config().vocab_size;
  GptPass pass(*backend, weights.config(), 1, T, PassKind::kForward);
  pass.Forward(weights.params(), ids);
  std::vector<float> logits(static_cast<size_t>(T * V));
  pass.Logits(weights.params(), 0, T, Tensor(logits.data(), {T, V}));
  return logits;
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

// Families whose files have biases, rows in another order, norms with something added and matrices
// that lie the other way round, in sizes that are whole blocks.
inline std::vector<GptConfig> SmallFamilies(int64_t width) {
  GptConfig gpt2 = TinyConfig();
  gpt2.n_embd = width;
  std::vector<GptConfig> configs = {gpt2};
  for (const char* name : {"llama3", "gemma3", "gpt_neox", "qwen2", "phi"}) {
    GptConfig config = LoadModelConfig(Fixture("families") / name);
    config.n_embd = config.n_inner.emplace(width);
    config.n_head = 4;
    if (config.n_kv_head) config.n_kv_head = 2;
    if (config.head_dim) config.head_dim = width / 4;
    if (config.rotary_dim) config.rotary_dim = width / 8;
    config.attention_scale = 0;
    config.rope_scaling = RopeScaling::kDefault;
    if (config.rotary_dim) config.rope_theta = 10000;
    if (config.embedding_scale != 1) config.embedding_scale = std::sqrt(width);
    configs.push_back(config);
  }
  for (GptConfig& config : configs) config.n_layer = 1;
  return configs;
}

}  // namespace folio
