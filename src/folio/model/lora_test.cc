#include "folio/model/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/adapters.h"
#include "folio/model/decoder.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model/weight_init.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

template <class T>
std::vector<T> LogitsOf(const GptWeights& weights) {
  const GptConfig& config = weights.config();
  const auto backend = MakeReferenceBackend();
  const Dtype dtype = weights.tensors().front().dtype();
  GptPass pass(*backend, config, 2, 5, PassKind::kForward,
               {.dtype = dtype, .lora = weights.table().lora()});
  pass.Forward(weights.params(), RandomTokens(10, config.vocab_size, 2));
  std::vector<T> logits(static_cast<size_t>(10 * config.vocab_size));
  pass.Logits(weights.params(), 0, 10, Tensor(logits.data(), {10, config.vocab_size}));
  return logits;
}

TEST(Adapters, AMergedModelGivesTheSame) {
  for (const char* targets : {"c_attn", "c_attn,c_proj,c_fc", "attn.c_proj", "c_fc"}) {
    const GptWeights weights(AdaptedTiny(targets), Dtype::kF64);
    Scatter(weights, 1);
    const auto merged = MergeAdapter(weights);
    EXPECT_FALSE(merged->table().lora().on());
    const auto apart = LogitsOf<double>(weights), together = LogitsOf<double>(*merged);
    for (size_t i = 0; i < apart.size(); ++i) ASSERT_NEAR(apart[i], together[i], 1e-11) << targets;
    const GptWeights bare(TinyConfig(), Dtype::kF64);
    InitWeightsFrom(weights, bare);
    EXPECT_GT(std::abs(LogitsOf<double>(bare)[0] - apart[0]), 1e-3);
  }
}

TEST(Adapters, ADecoderRunsThem) {
  const GptWeights weights(AdaptedTiny(), Dtype::kF64);
  Scatter(weights, 1);
  const auto logits = LogitsOf<double>(weights);
  const auto backend = MakeReferenceBackend();
  Decoder decoder(*backend, weights, {.dtype = Dtype::kF64});
  CachedSequence text(decoder.cache());
  const std::vector<int32_t> ids = RandomTokens(10, weights.config().vocab_size, 2);
  for (size_t t = 0; t < 5; ++t) {
    const Tensor last = decoder.Append(text, std::span(ids).subspan(t, 1));
    for (size_t v = 0; v < 11; ++v) ASSERT_NEAR(last.data<double>()[v], logits[t * 11 + v], 1e-12);
  }
}

TEST(Adapters, BeginByChangingNothing) {
  GptWeights weights(AdaptedTiny());
  InitWeights(weights, 7);
  const GptWeights bare(TinyConfig());
  InitWeightsFrom(weights, bare);
  EXPECT_EQ(LogitsOf<float>(weights), LogitsOf<float>(bare));
  for (const ParamInfo& info : weights.table().params()) {
    if (!info.trained) continue;
    float largest = 0;
    for (const float x : Elements<float>(weights.table().View(info, weights.flat()))) {
      largest = std::max(largest, std::abs(x));
    }
    const float bound = 1 / std::sqrt(static_cast<float>(info.shape[1]));
    const bool is_a = info.part.starts_with("lora_A");
    EXPECT_LE(largest, is_a ? bound : 0) << info.name;
    EXPECT_GT(largest, is_a ? bound / 2 : -1) << info.name;
  }
}

TEST(Adapters, AreWhatHasGradientsAndMoments) {
  const ParamTable table = AdaptedTiny("c_attn"), bare(TinyConfig());
  const int64_t C = table.config().n_embd, V = table.config().vocab_size;
  const int64_t added = 2 * 3 * (C + 3 * C);
  EXPECT_EQ(table.parameters(), bare.parameters() + added);
  EXPECT_EQ(table.matrix_parameters(true), added);
  EXPECT_EQ(table.matrix_parameters(), 2 * 12 * C * C + V * C + added);
  EXPECT_LT(table.trained_size(), added + 4 * 16);
  for (const ParamInfo& info : table.params())
    EXPECT_TRUE(IsDecayed(info.group) || !info.trained) << info.name;
  EXPECT_EQ(bare.trained_size(), bare.flat_size());
  const GptWeights grads(table, Dtype::kF32, ParamPart::kTrained);
  EXPECT_EQ(grads.flat().count(), table.trained_size());
  EXPECT_FALSE(grads.params().wte || grads.params().h[0].attn.c_attn.weight);
  EXPECT_TRUE(grads.params().h[1].attn.c_attn.lora_a && grads.params().h[1].attn.c_attn.lora_b);
}

// Activations that only the gradient of a frozen matrix would read are not kept.
TEST(Adapters, SpareActivations) {
  GptConfig config;
  config.n_layer = 4;
  const auto bytes = [&](const std::string& targets) {
    const PassOptions options{.lora = {.rank = targets.empty() ? 0 : 8, .targets = targets}};
    const MemoryPlan plan = GptPass::Plan(config, 2, 256, PassKind::kTraining, options);
    return static_cast<double>(plan.arena_bytes());
  };
  const double row = 2 * 256 * 768 * 4, blocks = 3;  // what the last block has serves the backward
  EXPECT_LT(bytes("c_attn"), bytes("") - blocks * 5 * row);  // norm_2 and act
  EXPECT_LT(bytes("c_proj"), bytes("") - blocks * 2 * row + 0.1 * row);
}

TEST(Adapters, TargetsNameLayers) {
  const auto adapted = [](const std::string& targets) {
    const LoraConfig config{.rank = 1, .targets = targets};
    std::string found;
    for (const std::string_view layer : kLinearLayers) {
      if (config.Adapts(layer)) found += std::string(layer) + " ";
    }
    return found;
  };
  EXPECT_EQ(adapted("c_attn"), "attn.c_attn ");
  EXPECT_EQ(adapted("c_proj"), "attn.c_proj mlp.c_proj ");
  EXPECT_EQ(adapted("mlp.c_proj,attn.c_attn"), "attn.c_attn mlp.c_proj ");
  EXPECT_EQ(adapted("proj"), "");
  EXPECT_EQ(adapted(""), "");
  for (const char* targets : {"proj", "", "c_attn,", "c_attn, c_fc", "h.0.attn.c_attn", ".c_fc"}) {
    const LoraConfig config{.rank = 1, .targets = targets};
    EXPECT_TRUE(
        Contains(ErrorAndHelp([&] { ValidateTargets(config, "settings"); }, ErrorKind::kUsage),
                 ": lora.targets: there is no layer '", "attn.c_attn, attn.c_proj, mlp.c_fc"))
        << targets;
  }
}

}  // namespace
}  // namespace folio
