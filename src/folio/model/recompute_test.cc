// Recomputation gives up memory for time and changes no bit.

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "folio/backend/timed_backend.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"

namespace folio {
namespace {

struct RecomputeCase {
  std::string backend;
  Dtype dtype;
  std::string norm;
  double dropout;
  std::string adapters = "";  // their targets
};

std::string RecomputeName(const testing::TestParamInfo<RecomputeCase>& info) {
  const RecomputeCase& c = info.param;
  return c.backend + "_" + std::string(DtypeName(c.dtype)) + "_" + c.norm +
         (c.dropout > 0 ? "_dropout" : "") +
         (c.adapters.empty() ? "" : "_adapters_" + c.adapters.substr(c.adapters.size() - 4));
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
    config_.norm_position = GetParam().norm;
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
}  // namespace folio
