// Recomputation gives up memory for time and changes no bit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "folio/backend/decorated_backends.h"
#include "folio/base/thread_pool.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace {

struct RecomputeCase {
  std::string backend;
  Dtype dtype;
  std::string norm;
  double dropout;
  std::string adapters = "";  // their targets
  bool nanochat = false;
};

std::string RecomputeName(const testing::TestParamInfo<RecomputeCase>& info) {
  const RecomputeCase& c = info.param;
  return c.backend + "_" + std::string(DtypeName(c.dtype)) + "_" + c.norm +
         (c.dropout > 0 ? "_dropout" : "") +
         (c.adapters.empty() ? "" : "_adapters_" + c.adapters.substr(c.adapters.size() - 4)) +
         (c.nanochat ? "_nanochat" : "");
}

std::vector<RecomputeCase> RecomputeCases() {
  std::vector<RecomputeCase> cases;
  for (const char* norm : {"pre", "post"}) {
    for (const double dropout : {0.0, 0.3}) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
        for (const char* backend : {"reference", "cpu"}) {
          cases.push_back({backend, dtype, norm, dropout});
        }
      }
      cases.push_back({"reference", Dtype::kF64, norm, dropout});
      cases.push_back({"cpu", Dtype::kBF16, norm, dropout, "c_attn,mlp.c_proj"});
      cases.push_back({"cpu", Dtype::kF32, norm, dropout, "attn.c_proj,c_fc"});
      cases.push_back({"cpu", Dtype::kBF16, norm, dropout, "", true});
      cases.push_back({"cpu", Dtype::kF32, norm, dropout, "attn.c_proj,c_fc", true});
    }
  }
  return cases;
}

class Recomputation : public testing::TestWithParam<RecomputeCase> {
 protected:
  static constexpr int64_t B = 3, T = 13;

  Recomputation() {
    config_.vocab_size = 37;
    config_.n_positions = T;
    config_.n_embd = 20;
    config_.n_inner = 51;
    config_.norm_position = *FromName<NormPosition>(GetParam().norm);
    if (GetParam().nanochat) {
      config_.n_embd = 24;
      AddNanochatExtras(config_);
    }
    for (double GptConfig::*rate : GptConfig::DropoutRates()) {
      config_.*rate = GetParam().dropout;
    }
    if (GetParam().adapters.empty()) return;
    lora_ = {.rank = 3, .targets = GetParam().adapters, .dropout = GetParam().dropout};
  }

  // Bytes of the losses and of the gradient.
  std::string Pass(Backend& backend, bool recompute) const {
    const PassOptions options{.dtype = GetParam().dtype, .recompute = recompute, .lora = lora_};
    const ParamTable table(config_, lora_);
    const GptWeights weights(table, options.number());
    const GptWeights grads(table, options.number(), ParamPart::kTrained);
    Scatter(weights, 1);
    GptPass pass(backend, config_, B, T, PassKind::kTraining, options);
    const std::vector<int32_t> ids = RandomTokens(B * T, config_.vocab_size, 2);
    const std::vector<int32_t> targets = RandomTokens(B * T, config_.vocab_size, 3);
    for (const uint64_t step : {1, 2}) {
      pass.Forward(weights.params(), ids, {.on = true, .seed = 4, .step = step});
      pass.LossAndBackward(weights.params(), targets, 1.0 / (B * T), grads.params());
    }
    std::string bytes;
    for (const Tensor& x : {pass.losses(), grads.flat()}) {
      bytes.append(reinterpret_cast<const char*>(x.raw()), x.bytes());
    }
    return bytes;
  }

  GptConfig config_ = TinyConfig();
  LoraConfig lora_;
};

TEST_P(Recomputation, GivesTheSameBits) {
  const auto backend = MakeBackend(GetParam().backend);
  const std::string kept = Pass(*backend, false), again = Pass(*backend, true);
  ASSERT_EQ(kept.size(), again.size());
  EXPECT_TRUE(kept == again);
  EXPECT_NE(kept.find_first_not_of('\0'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Backends, Recomputation, testing::ValuesIn(RecomputeCases()),
                         RecomputeName);

TEST(RecomputationsCost, IsTwoLayerNormsAndAnActivationABlock) {
  const GptConfig config = TinyConfig();
  const GptWeights weights(config), grads(config);
  Scatter(weights, 1);
  const std::vector<int32_t> ids = RandomTokens(10, config.vocab_size, 2);
  const auto calls = [&](bool recompute, const std::string& name) {
    TimedBackend timed(MakeReferenceBackend());
    GptPass pass(timed, config, 2, 5, PassKind::kTraining, {.recompute = recompute});
    pass.Forward(weights.params(), ids);
    pass.LossAndBackward(weights.params(), ids, 1, grads.params());
    for (const OpTime& op : timed.Times()) {
      if (op.name == name) return static_cast<int64_t>(op.calls);
    }
    return int64_t{0};
  };
  EXPECT_EQ(calls(false, "layernorm_forward"), 2 * config.n_layer + 1);
  EXPECT_EQ(calls(true, "layernorm_forward"), 4 * config.n_layer + 1);
  EXPECT_EQ(calls(false, "activation_forward"), 0);  // made by linear operations
  EXPECT_EQ(calls(true, "activation_forward"), config.n_layer);
  for (const char* name :
       {"attention_forward", "linear_forward", "linear_backward", "residual_forward"}) {
    EXPECT_EQ(calls(true, name), calls(false, name)) << name;
    EXPECT_GT(calls(true, name), 0) << name;
  }
}

}  // namespace

// Passes in bfloat16 beside those in float32.
namespace {

struct Bf16Case {
  std::string backend;
  std::string norm;
  double dropout;      // in the places that GPT-2 has
  double new_dropout;  // in the others
  bool tied;
  bool adapters = false, nanochat = false;
};

std::string Bf16Name(const testing::TestParamInfo<Bf16Case>& info) {
  const Bf16Case& c = info.param;
  return c.backend + "_" + c.norm + (c.dropout > 0 ? "_dropout" : "") +
         (c.new_dropout > 0 ? "_new_dropout" : "") + (c.tied ? "" : "_untied") +
         (c.adapters ? "_adapters" : "") + (c.nanochat ? "_nanochat" : "");
}

std::vector<Bf16Case> Bf16Cases() {
  std::vector<Bf16Case> cases;
  for (const char* backend : {"reference", "cpu"}) {
    for (const char* norm : {"pre", "post"}) {
      cases.push_back({backend, norm, 0, 0, true});
      cases.push_back({backend, norm, 0.2, 0, false});
      cases.push_back({backend, norm, 0, 0.1, true});
      cases.push_back({backend, norm, 0, 0, true, true});
      cases.push_back({backend, norm, 0.1, 0.1, true, true});
    }
    cases.push_back({backend, "pre", 0, 0, false, false, true});
  }
  return cases;
}

struct Bf16Result {
  double loss = 0;
  std::vector<float> losses, gradient;
};

class Bf16Pass : public testing::TestWithParam<Bf16Case> {
 protected:
  static constexpr int64_t B = 3, T = 29;

  Bf16Pass() {
    config_.vocab_size = 61;
    config_.n_positions = T;
    config_.n_embd = 36;
    config_.n_head = 3;
    config_.norm_position = *FromName<NormPosition>(GetParam().norm);
    config_.embd_pdrop = config_.attn_pdrop = config_.resid_pdrop = GetParam().dropout;
    config_.mlp_pdrop = config_.sublayer_pdrop = GetParam().new_dropout;
    config_.tie_word_embeddings = GetParam().tied;
    config_.lm_head_bias = !GetParam().tied;
    if (GetParam().nanochat) AddNanochatExtras(config_);
    if (!GetParam().adapters) return;
    lora_ = {.rank = 5, .targets = "c_attn,c_proj,c_fc", .dropout = GetParam().dropout};
  }
  ~Bf16Pass() override { SetThreads(threads_); }

  Bf16Result Run(Dtype dtype, const std::string& backend_name = GetParam().backend,
                 bool rounded_weights = false) const {
    const auto backend = MakeBackend(backend_name);
    const ParamTable table(config_, lora_);
    const GptWeights weights(table), grads(table, Dtype::kF32, ParamPart::kTrained);
    Scatter(weights, 1);
    for (float& w : Elements<float>(weights.flat())) {
      // Softmaxes that are not of one key alone: of these nearly all that c_attn's gradient has is
      // what rounding makes of it.
      if (GetParam().adapters) w *= 0.5f;
      if (rounded_weights) w = ToFloat(ToBF16(w));
    }
    GptPass pass(*backend, config_, B, T, PassKind::kTraining, {.dtype = dtype, .lora = lora_});
    std::vector<int32_t> targets = RandomTokens(B * T, config_.vocab_size, 3);
    targets[5] = CrossEntropy::kIgnore;
    pass.Forward(weights.params(), RandomTokens(B * T, config_.vocab_size, 2),
                 {.on = true, .seed = 4, .step = 5});
    Bf16Result result;
    result.loss = pass.LossAndBackward(weights.params(), targets, 1.0 / (B * T), grads.params());
    const auto losses = Elements<float>(pass.losses()), gradient = Elements<float>(grads.flat());
    result.losses.assign(losses.begin(), losses.end());
    result.gradient.assign(gradient.begin(), gradient.end());
    return result;
  }

  // |a - b| / |b| over all elements.
  static double Distance(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
      length += static_cast<double>(b[i]) * b[i];
    }
    return std::sqrt(difference / length);
  }

  // How far a float32 gradient goes when every weight is rounded once: what one rounding of each
  // operand does to this very model.
  double OneRounding(const Bf16Result& wide) const {
    return Distance(Run(Dtype::kF32, "reference", true).gradient, wide.gradient);
  }

  int threads_ = Threads();
  GptConfig config_ = TinyConfig();
  LoraConfig lora_;
};

TEST_P(Bf16Pass, GradientsAreTheFloat32OnesButForRounding) {
  const Bf16Result wide = Run(Dtype::kF32), half = Run(Dtype::kBF16);
  const double one = OneRounding(wide), found = Distance(half.gradient, wide.gradient);
  // Weights, forward values and gradients are rounded, independently of each other.
  EXPECT_LT(found, 3 * one);
  EXPECT_GT(found, one / 3);  // it is rounded at all
  EXPECT_NEAR(half.loss, wide.loss, one * wide.loss);
  EXPECT_EQ(half.losses[5], 0);
}

TEST_P(Bf16Pass, EachParametersGradientPointsTheSameWay) {
  const Bf16Result wide = Run(Dtype::kF32), half = Run(Dtype::kBF16);
  const ParamTable table(config_, lora_);
  double whole = 0;
  for (const float g : wide.gradient) whole += static_cast<double>(g) * g;
  for (const ParamInfo& info : table.params()) {
    if (!info.trained) continue;
    double together = 0, w2 = 0, h2 = 0;
    for (int64_t i = info.offset; i < info.offset + info.shape.count(); ++i) {
      const double w = wide.gradient[static_cast<size_t>(i)];
      const double h = half.gradient[static_cast<size_t>(i)];
      together += w * h;
      w2 += w * w;
      h2 += h * h;
    }
    if (w2 < 1e-8 * whole) continue;  // nothing but rounding: the gradient of a key's bias
    // The gradient of a single number is a sum over the whole stream, which cancels almost to zero.
    if (info.shape.count() <= config_.n_layer) continue;
    EXPECT_GT(together, 0.99 * std::sqrt(w2 * h2)) << info.name;
    EXPECT_NEAR(std::sqrt(h2 / w2), 1, 0.05) << info.name;
  }
}

TEST_P(Bf16Pass, ThreadsChangeNoBit) {
  SetThreads(1);
  const Bf16Result one = Run(Dtype::kBF16);
  for (const int threads : {2, 3}) {
    SetThreads(threads);
    const Bf16Result more = Run(Dtype::kBF16);
    EXPECT_EQ(more.losses, one.losses) << threads;
    EXPECT_EQ(more.gradient, one.gradient) << threads;
  }
}

TEST_P(Bf16Pass, RoundsAsTheReferenceDoes) {
  if (GetParam().backend == "reference") GTEST_SKIP() << "is the reference";
  const Bf16Result here = Run(Dtype::kBF16), reference = Run(Dtype::kBF16, "reference");
  const double one = OneRounding(Run(Dtype::kF32, "reference"));
  // Sums in another order now and then round to the other neighbour.
  EXPECT_LT(Distance(here.gradient, reference.gradient), 2 * one);
  EXPECT_NEAR(here.loss, reference.loss, one / 4 * reference.loss);
}

INSTANTIATE_TEST_SUITE_P(Models, Bf16Pass, testing::ValuesIn(Bf16Cases()), Bf16Name);

}  // namespace

}  // namespace folio
