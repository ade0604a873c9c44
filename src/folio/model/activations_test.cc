// The plan of a pass: nothing may lie on memory that somebody still reads.

#include "folio/model/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "folio/backend/generic_backend.h"
#include "folio/backend/test_values.h"
#include "folio/model/gpt.h"
#include "folio/model/layers/head.h"
#include "folio/model/param_list.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

// The same buffers, none of them sharing memory.
MemoryPlan Apart(const MemoryPlan& plan) {
  MemoryPlan apart;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    apart.Add(buffer.name, buffer.dtype, buffer.shape);
  }
  apart.Place();
  return apart;
}

// Checks the operands of each operation and notes when each buffer of an arena is used.
class Watch final : public GenericBackend<Watch> {
 public:
  struct Life {
    int64_t first = -1, last = -1;  // operations, counted from 0
  };

  Watch(const MemoryPlan& plan, const Arena& arena) : lives_(plan.buffers().size()) {
    for (size_t i = 0; i < lives_.size(); ++i) {
      begins_[arena.Get(plan, static_cast<int>(i)).raw()] = i;
    }
    end_ = begins_.begin()->first + plan.arena_bytes();
  }
  std::string name() const override { return "watch"; }
  std::string description() const override { return "watch"; }
  bool Supports(Dtype) const override { return true; }
  Dtype PreferredDtype() const override { return Dtype::kF32; }
  const std::vector<Life>& lives() const { return lives_; }

  template <class Op>
  void Apply(const Op& op) {
    for (const Operand& operand : Operands(op)) {
      auto at = begins_.upper_bound(operand.data());
      if (at == begins_.begin() || operand.data() >= end_) continue;  // a parameter or a token
      Life& life = lives_[(--at)->second];
      if (life.first < 0) life.first = operations_;
      life.last = operations_;
    }
    ++operations_;
    op.Check();
  }

 private:
  std::map<const std::byte*, size_t> begins_;  // of the buffers
  const std::byte* end_ = nullptr;             // of the arena
  std::vector<Life> lives_;
  int64_t operations_ = 0;
};

struct ActivationsCase {
  std::string norm;
  int64_t layers;
  int64_t inner;  // narrow and wide change which buffers are packed first
  PassKind kind;
  PassOptions options;
};

std::string ActivationsName(const testing::TestParamInfo<ActivationsCase>& info) {
  const ActivationsCase& c = info.param;
  return c.norm + "_L" + std::to_string(c.layers) + "_F" + std::to_string(c.inner) +
         (c.kind == PassKind::kTraining ? "_training" : "_forward") +
         (c.options.dtype == Dtype::kBF16 ? "_bf16" : "") +
         (c.options.recompute ? "_recompute" : "");
}

std::vector<ActivationsCase> ActivationsCases() {
  std::vector<ActivationsCase> cases;
  for (const char* norm : {"pre", "post"}) {
    for (int64_t layers : {1, 2, 3, 4}) {
      for (int64_t inner : {1, 8, 41}) {
        for (const Dtype dtype : {Dtype::kF64, Dtype::kBF16}) {
          cases.push_back({norm, layers, inner, PassKind::kForward, {.dtype = dtype}});
          for (const bool recompute : {false, true}) {
            cases.push_back({norm, layers, inner, PassKind::kTraining, {dtype, recompute}});
          }
        }
      }
    }
  }
  return cases;
}

class PlannedPass : public testing::TestWithParam<ActivationsCase> {
 protected:
  static constexpr int64_t B = 2, T = 3, N = B * T;

  PlannedPass() {
    config_.norm_position = GetParam().norm;
    config_.n_layer = GetParam().layers;
    config_.n_inner = GetParam().inner;
    for (double GptConfig::*rate : GptConfig::DropoutRates()) config_.*rate = training() ? 0.3 : 0;
    weights_ = std::make_unique<GptWeights>(config_, options().number());
    grads_ = std::make_unique<GptWeights>(config_, options().number());
    Scatter(*weights_, 1);
    ids_ = RandomTokens(N, config_.vocab_size, 2);
    targets_ = RandomTokens(N, config_.vocab_size, 3);
    packed_ = PlanBuffers(shape_);
    apart_ = Apart(packed_);
  }
  const PassOptions& options() const { return GetParam().options; }
  bool training() const { return GetParam().kind == PassKind::kTraining; }

  // The operations of a pass on memory of the test's own. Returns the losses.
  std::vector<double> RunOn(Backend& backend, const MemoryPlan& memory, const Arena& arena) {
    PassContext pass{.backend = backend, .config = config_, .B = B, .T = T};
    pass.dropout = dropout_;
    const GptParams& p = weights_->params();
    PassBuffers buffers;
    BindBuffers(shape_, memory, arena, buffers);
    CopyTokens(ids_, buffers.ids, 0, config_.vocab_size);
    CopyTokens(targets_, buffers.targets, 0, config_.vocab_size);
    TransformerForward(pass, p, buffers);
    if (!training()) {
      HeadForward(pass, p, buffers.acts, buffers.targets);
    } else {
      const GptParams& d = grads_->params();
      HeadForwardBackward(pass, p, buffers.acts, buffers.targets, kScale, d, buffers.grads);
      TransformerBackward(pass, p, buffers, d);
    }
    return Values(buffers.acts.losses);
  }

  static constexpr double kScale = 0.3;
  GptConfig config_ = TinyConfig();
  DropoutContext dropout_{.on = training(), .seed = 4, .step = 5, .first_sequence = 6};
  std::unique_ptr<GptWeights> weights_, grads_;
  std::vector<int32_t> ids_, targets_;
  PassShape shape_{config_, B, T, GetParam().kind, options()};
  MemoryPlan packed_, apart_;
};

TEST_P(PlannedPass, BuffersInUseAtOnceDoNotShareMemory) {
  const Arena arena(apart_);
  Watch watch(apart_, arena);
  RunOn(watch, apart_, arena);
  const std::span<const MemoryPlan::Buffer> planned = packed_.buffers();
  for (size_t i = 0; i < planned.size(); ++i) {
    const Watch::Life& a = watch.lives()[i];
    ASSERT_GE(a.first, 0) << planned[i].name << " is never used";
    for (size_t j = 0; j < planned.size(); ++j) {
      const Watch::Life& b = watch.lives()[j];
      if (planned[i].last_tick < planned[j].first_tick) {
        EXPECT_LT(a.last, b.first)
            << planned[i].name << " outlives the birth of " << planned[j].name;
      }
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = planned[i].offset < planned[j].offset + planned[j].bytes &&
                           planned[j].offset < planned[i].offset + planned[i].bytes;
      if (i != j) {
        EXPECT_FALSE(together && overlap) << planned[i].name << " and " << planned[j].name;
      }
    }
  }
}

TEST_P(PlannedPass, SharedMemoryAndStaleContentsChangeNothing) {
  const auto backend = MakeReferenceBackend();
  const Arena arena(apart_);
  for (const MemoryPlan::Buffer& buffer : apart_.buffers()) {
    const Tensor x = arena.Get(apart_, static_cast<int>(&buffer - apart_.buffers().data()));
    std::memset(x.raw(), 0xFF, x.bytes());  // all of them NaN, in any dtype
  }
  const std::vector<double> losses = RunOn(*backend, apart_, arena);
  for (double loss : losses) ASSERT_TRUE(std::isfinite(loss));

  const GptWeights grads(config_, options().number());
  GptPass pass(*backend, config_, B, T, GetParam().kind, options());
  for (const bool first : {true, false}) {  // other tokens first, so that something stale is there
    const std::vector<int32_t> ids = first ? RandomTokens(N, config_.vocab_size, 7) : ids_;
    std::memset(grads.flat().raw(), 0, grads.flat().bytes());
    pass.Forward(weights_->params(), ids, dropout_);
    if (training()) {
      pass.LossAndBackward(weights_->params(), targets_, kScale, grads.params());
    } else {
      pass.Loss(weights_->params(), targets_);
    }
  }
  EXPECT_EQ(Values(pass.losses()), losses);
  EXPECT_EQ(Values(grads.flat()), Values(grads_->flat()));
}

INSTANTIATE_TEST_SUITE_P(Configs, PlannedPass, testing::ValuesIn(ActivationsCases()),
                         ActivationsName);

TEST(PassPlan, AForwardPassNeedsLessThanATrainingStep) {
  GptConfig config = TinyConfig();
  config.n_layer = 8;
  const auto bytes = [&](PassKind kind) { return GptPass::Plan(config, 2, 5, kind).arena_bytes(); };
  EXPECT_LT(bytes(PassKind::kForward) * 2, bytes(PassKind::kTraining));
  // Without a backward, depth costs nothing.
  const size_t eight = bytes(PassKind::kForward);
  config.n_layer = 3;
  EXPECT_EQ(bytes(PassKind::kForward), eight);
}

TEST(PassPlan, NoLayerHoldsAnArrayOfAllPairsOfPositions) {
  GptConfig config;
  config.n_layer = 1;
  const int64_t B = 2, T = 1024;
  const MemoryPlan plan = GptPass::Plan(config, B, T, PassKind::kTraining);
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name == "logits") continue;
    EXPECT_LT(buffer.shape.count(), B * config.n_head * T * T) << buffer.name;
  }
}

TEST(PassPlan, RefusesWhatNoMachineHolds) {
  GptConfig config = TinyConfig();
  config.n_embd = 1 << 30;
  config.n_inner = 1 << 30;
  EXPECT_THROW(GptPass::Plan(config, int64_t{1} << 24, int64_t{1} << 24, PassKind::kTraining),
               std::exception);
}

TEST(PassPlan, Bf16HalvesWhatIsOfLowPrecisionAndNothingElse) {
  for (const char* norm : {"pre", "post"}) {
    GptConfig config = TinyConfig();
    config.norm_position = norm;
    const MemoryPlan wide = GptPass::Plan(config, 2, 5, PassKind::kTraining);
    const MemoryPlan low =
        GptPass::Plan(config, 2, 5, PassKind::kTraining, {.dtype = Dtype::kBF16});
    const auto dtype_of = [](const MemoryPlan& plan, const std::string& name) {
      for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
        if (buffer.name == name) return std::string(DtypeName(buffer.dtype));
      }
      return std::string("none");
    };
    for (const char* name : {"h.1.qkv", "h.1.attn", "h.1.fc", "h.1.act", "branch", "norm_f",
                             "d_branch", "d_wide", "d_attn"}) {
      EXPECT_EQ(dtype_of(low, name), "BF16") << name;
      EXPECT_EQ(dtype_of(wide, name), "F32") << name;
    }
    for (const char* name : {"embedded", "h.1.sum_1", "h.1.sum_2", "h.1.lse", "h.1.norm_1.mean",
                             "h.1.norm_2.rstd", "norm_f.rstd", "logits", "losses", "d_stream"}) {
      EXPECT_EQ(dtype_of(low, name), "F32") << name;
    }
    // A post-norm block's LayerNorms are its stream.
    EXPECT_EQ(dtype_of(low, "h.1.norm_1"), config.pre_norm() ? "BF16" : "F32");
    EXPECT_EQ(dtype_of(low, "h.1.norm_2"), config.pre_norm() ? "BF16" : "F32");
    EXPECT_EQ(dtype_of(low, "d_logits"), "BF16");
    EXPECT_EQ(dtype_of(wide, "d_logits"), "none");  // the logits' own memory
  }
}

// Bytes of a training pass per token and layer, where all is large beside padding.
double BytesPerTokenAndLayer(GptConfig config, const PassOptions& options) {
  constexpr int64_t B = 1, T = 64, kMore = 8;
  config.n_positions = T;
  const auto bytes = [&](int64_t layers) {
    config.n_layer = layers;
    return static_cast<double>(
        GptPass::Plan(config, B, T, PassKind::kTraining, options).arena_bytes());
  };
  return (bytes(4 + kMore) - bytes(4)) / (B * T * kMore);
}

TEST(PassPlan, KeepsWhatTheBackwardNeedsOfEachLayerAndNoMore) {
  GptConfig config;
  config.n_embd = 256;
  config.n_head = 4;
  const double C = 256, small = 5 * 4.0 + 4 * 4.0;  // statistics of two norms, lse of four heads
  const auto expect = [&](const PassOptions& options, double low_channels) {
    const double low = options.dtype == Dtype::kBF16 ? 2 : 4;
    const double expected = C * (low * low_channels + 2 * 4.0) + small;
    EXPECT_NEAR(BytesPerTokenAndLayer(config, options), expected, 0.02 * expected);
  };
  // Two norms, qkv, attn, fc and act; sum_1 and sum_2 are the stream.
  expect({}, 2 + 3 + 1 + 4 + 4);
  expect({.dtype = Dtype::kBF16}, 2 + 3 + 1 + 4 + 4);
  expect({.recompute = true}, 3 + 1 + 4);
  expect({.dtype = Dtype::kBF16, .recompute = true}, 3 + 1 + 4);
}

TEST(PassPlan, MemoryGrowsWithBatchAndContextAsALine) {
  GptConfig config;
  config.n_layer = 3;
  config.n_embd = 64;
  config.n_head = 4;
  config.vocab_size = 100;
  for (const PassOptions& options : {PassOptions{}, PassOptions{Dtype::kBF16, true}}) {
    const auto bytes = [&](int64_t B, int64_t T) {
      return static_cast<double>(
          GptPass::Plan(config, B, T, PassKind::kTraining, options).arena_bytes());
    };
    EXPECT_NEAR(bytes(16, 256) / bytes(1, 256), 16, 0.2);
    EXPECT_NEAR(bytes(2, 1024) / bytes(2, 128), 8, 0.2);
  }
}

// A configuration of the plan, and the arena that its lives, numbered by hand, once took.
struct PlannedCase {
  std::string name;
  size_t bound;
  std::function<void(GptConfig&)> edit = [](GptConfig&) {};
  PassOptions options = {};
  PassKind kind = PassKind::kTraining;
};

void EverywhereDropped(GptConfig& config) {
  for (double GptConfig::*rate : GptConfig::DropoutRates()) config.*rate = 0.1;
}

void PostNorm(GptConfig& config) {
  config.norm_position = "post";
}

void PostNormDropped(GptConfig& config) {
  PostNorm(config);
  EverywhereDropped(config);
}

std::vector<PlannedCase> PlannedCases() {
  const auto lora = [](std::string targets) {
    return LoraConfig{.rank = 4, .targets = std::move(targets), .dropout = 0.1};
  };
  const std::string all = "c_attn,attn.c_proj,c_fc,mlp.c_proj";
  const auto none = [](GptConfig&) {};
  const Dtype bf16 = Dtype::kBF16;
  return {
      {"pre_norm", 27034112},
      {"post_norm", 27034112, PostNorm},
      {"sinusoidal", 27083328, [](GptConfig& c) { c.position_embedding = "sinusoidal"; }},
      {"no_bias", 27034112, [](GptConfig& c) { c.bias = false; }},
      {"untied", 27034112, [](GptConfig& c) { c.tie_word_embeddings = false; }},
      {"dropout", 27034112, EverywhereDropped},
      {"post_norm_dropout", 27034112, PostNormDropped},
      {"recompute", 18428800, none, {.recompute = true}},
      {"post_norm_recompute", 21378688, PostNormDropped, {.recompute = true}},
      {"bf16", 17746496, none, {.dtype = bf16}},
      {"post_norm_bf16", 19221056, PostNorm, {.dtype = bf16}},
      {"bf16_recompute", 13321664, EverywhereDropped, {.dtype = bf16, .recompute = true}},
      {"lora", 19722368, none, {.lora = lora("c_attn")}},
      {"lora_everywhere", 27281408, EverywhereDropped, {.lora = lora(all)}},
      {"lora_post_norm", 27400960, PostNormDropped, {.lora = lora("c_proj")}},
      {"lora_recompute", 19659200, none, {.recompute = true, .lora = lora(all)}},
      {"lora_bf16", 16302656, PostNorm, {.dtype = bf16, .lora = lora("c_fc")}},
      {"packed", 27118720, none, {.packed = true}},
      {"shard", 16881216, none, {.shard = {.index = 0, .count = 2}}},
      {"shard_post_norm", 14292672, PostNormDropped, {.recompute = true, .shard = {1, 2}}},
      {"forward", 3205824, none, {}, PassKind::kForward},
      {"forward_post_norm", 3697472, PostNorm, {}, PassKind::kForward},
      {"forward_bf16", 2944576, none, {.dtype = bf16}, PassKind::kForward},
      {"forward_shard", 1976960, none, {.shard = {.index = 0, .count = 2}}, PassKind::kForward},
      {"decode", 592512, none, {}, PassKind::kDecode},
      {"decode_post_norm", 740160, PostNorm, {}, PassKind::kDecode},
  };
}

class PlannedBytes : public testing::TestWithParam<PlannedCase> {};

TEST_P(PlannedBytes, AreNoMoreThanThoseOfLivesNumberedByHand) {
  const PlannedCase& c = GetParam();
  GptConfig config;
  config.vocab_size = 1000;
  config.n_positions = 128;
  config.n_embd = 96;
  config.n_head = 4;
  config.n_layer = 6;
  c.edit(config);
  const bool decode = c.kind == PassKind::kDecode;
  const MemoryPlan plan = GptPass::Plan(config, decode ? 1 : 5, 128, c.kind, c.options);
  EXPECT_LE(plan.arena_bytes(), c.bound);
}

INSTANTIATE_TEST_SUITE_P(Configs, PlannedBytes, testing::ValuesIn(PlannedCases()),
                         [](const auto& planned) { return planned.param.name; });

}  // namespace
}  // namespace folio
