// The gradient of the loss with respect to every parameter, over all choices that a configuration
// has, in float64 against central differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

struct GradientsCase {
  std::string norm, name;
  std::function<void(GptConfig&)> edit;
  LoraConfig lora = {};
  bool key_mask = false;
  enum { kNoMask, kAllowed, kAdded } mask = kNoMask;  // of queries and keys
  bool ignore_targets = false;
  bool packed = false;
};

std::vector<GradientsCase> GradientsCases() {
  using C = GptConfig;
  std::vector<GradientsCase> cases;
  // Every place of norms with the ingredients of later decoders.
  for (const char* norm : {"pre", "post", "branch", "both"}) {
    const auto add = [&](const std::string& name, const std::function<void(C&)>& edit) {
      cases.push_back({.norm = norm, .name = name, .edit = [edit](C& c) {
                         c.norm = NormKind::kRms;
                         c.position_embedding = PositionKind::kRotary;
                         c.n_head = 4;
                         c.n_kv_head = 2;
                         c.head_dim = 4;
                         edit(c);
                       }});
    };
    add("rotary_rms", [](C&) {});
    add("gated", [](C& c) {
      c.mlp = MlpKind::kGated;
      c.activation_function = Activation::kSilu;
      c.n_inner = 7;
      c.mlp_pdrop = 0.2;
    });
    add("one_plus", [](C& c) {
      c.norm = NormKind::kRmsOnePlus;
      c.qk_norm = QkNorm::kHead;
    });
    add("no_weight", [](C& c) {
      c.norm = NormKind::kRmsNoWeight;
      c.qk_norm = QkNorm::kAfterRotary;
      c.qk_scale = 1.2;
      c.activation_function = Activation::kRelu2;
    });
    add("layer_norm", [](C& c) { c.norm = NormKind::kLayer; });
    if (norm == std::string("pre")) {
      add("parallel", [](C& c) {
        c.block = BlockKind::kParallel;
        c.sublayer_pdrop = 0.2;
      });
      add("parallel_one_norm", [](C& c) {
        c.block = BlockKind::kParallelOneNorm;
        c.resid_pdrop = 0.2;
      });
    }
    const auto wide = [](C& c) {
      c.n_embd = 24;
      c.n_inner = 5;
      c.n_layer = 3;
      c.norm = NormKind::kRmsNoWeight;
    };
    add("nanochat", [wide](C& c) {
      wide(c);
      AddNanochatExtras(c);
      c.embedding_scale = 1.7;
      c.embd_pdrop = 0.2;
    });
    if (norm == std::string("pre")) {
      for (const auto& [name, on] :
           {std::pair{"embedding_norm", &C::embedding_norm}, std::pair{"smear", &C::smear},
            std::pair{"residual_lambdas", &C::residual_lambdas},
            std::pair{"value_embeddings", &C::value_embeddings},
            std::pair{"backout", &C::backout}}) {
        add(name, [wide, on = on](C& c) {
          wide(c);
          c.n_layer = 2;
          c.*on = true;
        });
      }
    }
    add("full_qk_norm", [](C& c) {
      c.qk_norm = QkNorm::kFull;
      c.rotary_dim = 2;
      c.no_rope_every = 2;
    });
    add("scaled", [](C& c) {
      c.embedding_scale = 1.7;
      c.residual_scale = 0.6;
      c.logit_scale = 0.8;
      c.logit_cap = 1.5;
      c.attention_cap = 0.7;
      c.sliding_window = 2;
      c.layer_kinds = LayerKindsOf("wf");
      c.rope_window_theta = 3;
      c.attention_scale = 0.3;
      c.resid_pdrop = 0.2;
      c.qkv_bias = false;
    });
  }
  for (const char* norm : {"pre", "post"}) {
    const auto add = [&](const std::string& name,
                         const std::function<void(C&)>& edit) -> GradientsCase& {
      return cases.emplace_back(GradientsCase{.norm = norm, .name = name, .edit = edit});
    };
    add("plain", [](C&) {});
    add("sinusoidal_untied_head_bias", [](C& c) {
      c.position_embedding = PositionKind::kSinusoidal;
      c.tie_word_embeddings = false;
      c.lm_head_bias = true;
    });
    add("no_bias", [](C& c) { c.bias = false; });
    add("no_attention_bias", [](C& c) { c.attention_bias = false; });
    add("no_mlp_bias", [](C& c) { c.mlp_bias = false; });
    add("no_layer_norm_bias", [](C& c) { c.layer_norm_bias = false; });
    add("gelu", [](C& c) { c.activation_function = Activation::kGelu; });
    add("relu", [](C& c) { c.activation_function = Activation::kRelu; });
    add("silu", [](C& c) { c.activation_function = Activation::kSilu; });
    add("scaled_by_layer", [](C& c) {
      c.scale_attn_weights = false;
      c.scale_attn_by_inverse_layer_idx = true;
    });
    add("narrow_inner", [](C& c) { c.n_inner = 3; });
    add("wide_inner", [](C& c) { c.n_inner = 37; });
    add("one_head", [](C& c) { c.n_head = 1; });
    add("heads_of_one_channel", [](C& c) { c.n_head = c.n_embd; });
    add("grouped_heads", [](C& c) {
      c.n_head = 4;
      c.n_kv_head = 2;
      c.head_dim = 3;
    });
    add("one_kv_head", [](C& c) { c.n_kv_head = 1; });
    add("narrow_heads", [](C& c) {
      c.n_head = 5;
      c.head_dim = 1;
      c.n_kv_head = 1;
    });
    add("grouped_heads_adapters", [](C& c) {
      c.n_head = 4;
      c.n_kv_head = 2;
      c.head_dim = 5;
      c.attn_pdrop = 0.3;
    }).lora = {.rank = 2, .alpha = 3, .targets = "c_attn,c_proj", .dropout = 0.3};
    add("one_layer", [](C& c) { c.n_layer = 1; });
    add("four_layers", [](C& c) { c.n_layer = 4; });
    add("key_mask", [](C&) {}).key_mask = true;
    add("both_ways", [](C& c) { c.causal = false; });
    add("allowed", [](C&) {}).mask = GradientsCase::kAllowed;
    add("allowed_both_ways", [](C& c) { c.causal = false; }).mask = GradientsCase::kAllowed;
    add("added", [](C&) {}).mask = GradientsCase::kAdded;
    add("added_both_ways", [](C& c) { c.causal = false; }).mask = GradientsCase::kAdded;
    add("ignored_targets", [](C&) {}).ignore_targets = true;
    add("packed", [](C&) {}).packed = true;
    add("packed_sinusoidal", [](C& c) {
      c.position_embedding = PositionKind::kSinusoidal;
    }).packed = true;
    const auto nanochat = [](C& c) {
      c.n_embd = 24;
      c.n_inner = 5;
      AddNanochatExtras(c);
    };
    add("packed_nanochat", nanochat).packed = true;
    add("key_mask_nanochat", nanochat).key_mask = true;
    add("adapters_nanochat", nanochat).lora = {.rank = 1, .targets = "c_fc"};
    add("embedding_dropout", [](C& c) { c.embd_pdrop = 0.4; });
    add("attention_dropout", [](C& c) { c.attn_pdrop = 0.4; });
    add("residual_dropout", [](C& c) { c.resid_pdrop = 0.4; });
    add("activation_dropout", [](C& c) { c.mlp_pdrop = 0.4; });
    add("sublayer_dropout", [](C& c) { c.sublayer_pdrop = 0.4; });
    add("adapters", [](C&) {}).lora = {.rank = 2, .alpha = 3};
    add("adapters_of_parts", [](C& c) {
      c.n_head = 4;
      c.n_kv_head = 2;
      c.head_dim = 5;
      c.mlp = MlpKind::kGated;
    }).lora = {.rank = 2, .alpha = 3, .targets = "k,v,up,mlp.c_proj"};
    add("adapters_of_parts_dropout", [](C& c) { c.mlp = MlpKind::kGated; }).lora = {
        .rank = 2, .alpha = 3, .targets = "q,v,gate", .dropout = 0.3};
    add("adapters_attn_c_proj", [](C&) {}).lora = {.rank = 1, .targets = "attn.c_proj"};
    add("adapters_c_fc", [](C&) {}).lora = {.rank = 1, .targets = "c_fc"};
    add("adapters_mlp_c_proj", [](C&) {}).lora = {.rank = 1, .targets = "mlp.c_proj"};
    add("adapters_everywhere", [](C& c) { c.tie_word_embeddings = false; }).lora = {
        .rank = 3, .alpha = 7, .targets = "c_attn,c_proj,c_fc"};
    add("adapters_dropout", [](C&) {}).lora = {
        .rank = 3, .alpha = 2, .targets = "c_attn,c_proj,c_fc", .dropout = 0.3};
    add("adapters_and_everything", [](C& c) {
      for (double C::*rate : C::DropoutRates()) c.*rate = 0.2;
      c.bias = false;
    }).lora = {.rank = 2, .alpha = 1, .targets = "c_proj", .dropout = 0.4};
    GradientsCase& all = add("everything", [](C& c) {
      c.embd_pdrop = 0.2;
      c.attn_pdrop = 0.3;
      c.resid_pdrop = 0.25;
      c.mlp_pdrop = 0.15;
      c.sublayer_pdrop = 0.1;
      c.tie_word_embeddings = false;
      c.lm_head_bias = true;
      c.n_inner = 13;
    });
    all.key_mask = all.ignore_targets = true;
    all.mask = GradientsCase::kAdded;
  }
  return cases;
}

std::string GradientsName(const testing::TestParamInfo<GradientsCase>& info) {
  return info.param.norm + "_" + info.param.name;
}

class ModelGradients : public testing::TestWithParam<GradientsCase> {};

// A gradient that is written over whatever was there is the one that was added to zeros.
void ExpectWrittenOver(GptPass& pass, const GptWeights& weights, std::span<const int32_t> ids,
                       std::span<const int32_t> targets, DropoutContext dropout, double scale,
                       const GptWeights& added) {
  const ParamTable& table = weights.table();
  const GptWeights written(table, Dtype::kF64, ParamPart::kTrained);
  VisitParams(table.config(), table.lora(), table.shard(), written.params(),
              [](const ParamRow& row, const Tensor& view) {
                ASSERT_EQ(static_cast<bool>(view), row.trained) << row.Name();
                if (!row.trained) return;
                for (double& g : Elements<double>(view)) g = NAN;
              });
  pass.Forward(weights.params(), ids, dropout);
  pass.LossAndBackward(weights.params(), targets, scale, written.params(), /*accumulate=*/false);
  const auto expected = Elements<double>(added.flat()), found = Elements<double>(written.flat());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST_P(ModelGradients, AreCentralDifferences) {
  constexpr int64_t B = 2, T = 4;
  constexpr double kScale = 0.37;
  GptConfig config = TinyConfig();
  config.norm_position = *FromName<NormPosition>(GetParam().norm);
  GetParam().edit(config);
  const ParamTable table(config, GetParam().lora);
  const GptWeights weights(table, Dtype::kF64);
  const GptWeights grads(table, Dtype::kF64, ParamPart::kTrained);
  Scatter(weights, 1);
  const auto backend = MakeReferenceBackend();
  GptPass pass(*backend, config, B, T, PassKind::kTraining,
               {.dtype = Dtype::kF64, .packed = GetParam().packed, .lora = GetParam().lora});
  const std::vector<int32_t> begins = {0, 0, 2, 2, /**/ 0, 1, 1, 1};
  if (GetParam().packed) pass.set_begins(begins);
  std::vector<uint8_t> mask = {1, 0, 1, 1, /**/ 0, 1, 1, 0};  // the first row sees nothing at first
  if (GetParam().key_mask) pass.set_key_mask(Tensor(mask.data(), {B, T}));
  // One for both sequences, and the second query sees nothing; one for each.
  std::vector<uint8_t> allowed = {1, 0, 1, 1, /**/ 0, 0, 0, 0, /**/ 1, 1, 0, 1, /**/ 1, 0, 1, 1};
  std::vector<double> added(B * T * T);
  for (size_t i = 0; i < added.size(); ++i) {
    added[i] = i % 5 == 4 ? -INFINITY : std::sin(static_cast<double>(i));
  }
  if (GetParam().mask == GradientsCase::kAllowed)
    pass.set_mask(Tensor(allowed.data(), {1, 1, T, T}));
  if (GetParam().mask == GradientsCase::kAdded) pass.set_mask(Tensor(added.data(), {B, 1, T, T}));
  const std::vector<int32_t> ids = RandomTokens(B * T, config.vocab_size, 2);
  std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
  if (GetParam().ignore_targets) targets[1] = targets[7] = CrossEntropy::kIgnore;
  const DropoutContext dropout{.on = true, .seed = 5, .step = 6, .first_sequence = 3};

  pass.Forward(weights.params(), ids, dropout);
  pass.LossAndBackward(weights.params(), targets, kScale, grads.params());
  ExpectWrittenOver(pass, weights, ids, targets, dropout, kScale, grads);
  // Gradients that are there already are added to.
  for (double& g : Elements<double>(grads.flat())) g = 0.5;
  pass.Forward(weights.params(), ids, dropout);
  const double loss = pass.LossAndBackward(weights.params(), targets, kScale, grads.params());
  const auto loss_now = [&] {
    pass.Forward(weights.params(), ids, dropout);
    return kScale * pass.Loss(weights.params(), targets);
  };
  EXPECT_NEAR(loss_now(), kScale * loss, 1e-12 * loss);
  for (const ParamInfo& info : weights.table().params()) {
    if (!info.trained) continue;
    const auto w = Elements<double>(weights.table().View(info, weights.flat()));
    const auto g = Elements<double>(weights.table().View(info, grads.flat()));
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(g[i] - 0.5, CentralDifference(w[i], loss_now), 2e-8 * std::max(1.0, loss))
          << info.name << "[" << i << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ModelGradients, testing::ValuesIn(GradientsCases()),
                         GradientsName);

// Vocabulary and rows large enough that the head takes its rows in three chunks: the slope of the
// loss along a random direction.
TEST(ModelGradientsOfALargeVocabulary, AreASlopeOverAllChunks) {
  GptConfig config = TinyConfig();
  config.vocab_size = 16411;
  config.n_layer = 1;
  config.n_positions = 129;
  config.tie_word_embeddings = false;
  config.lm_head_bias = true;
  constexpr int64_t B = 4, T = 129;
  ASSERT_EQ((B * T + LossChunkRows(B * T, config.vocab_size) - 1) /
                LossChunkRows(B * T, config.vocab_size),
            3);
  const GptWeights weights(config, Dtype::kF64), grads(config, Dtype::kF64);
  const GptWeights along(config, Dtype::kF64);
  Scatter(weights, 1);
  const auto backend = MakeReferenceBackend();
  GptPass pass(*backend, config, B, T, PassKind::kTraining, {.dtype = Dtype::kF64});
  const std::vector<int32_t> ids = RandomTokens(B * T, config.vocab_size, 2);
  const std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
  pass.Forward(weights.params(), ids);
  const double scale = 1.0 / (B * T);
  pass.LossAndBackward(weights.params(), targets, scale, grads.params());
  ExpectWrittenOver(pass, weights, ids, targets, {}, scale, grads);

  Scatter(along, 4);
  const auto w = Elements<double>(weights.flat()), d = Elements<double>(along.flat());
  const auto g = Elements<double>(grads.flat());
  double slope = 0;
  for (size_t i = 0; i < w.size(); ++i) slope += g[i] * d[i];
  constexpr double kStep = 1e-6;
  const auto loss_at = [&](double distance) {
    for (size_t i = 0; i < w.size(); ++i) w[i] += distance * d[i];
    pass.Forward(weights.params(), ids);
    const double loss = scale * pass.Loss(weights.params(), targets);
    for (size_t i = 0; i < w.size(); ++i) w[i] -= distance * d[i];
    return loss;
  };
  const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, difference, 1e-7 * std::max(1.0, std::abs(slope)));
  EXPECT_GT(std::abs(slope), 1e-2);
}

}  // namespace
}  // namespace folio
