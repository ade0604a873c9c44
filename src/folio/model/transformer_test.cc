// The plan of a pass: nothing may lie on memory that somebody still reads.

#include "folio/model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "folio/backend/backend.h"
#include "folio/backend/test_op_cases.h"
#include "folio/model/gpt.h"
#include "folio/model/layers/head.h"
#include "folio/model/lifetimes.h"
#include "folio/model/test_models.h"

namespace folio {
namespace {

// The same buffers, none of them sharing memory.
MemoryPlan Apart(const MemoryPlan& plan) {
  MemoryPlan apart;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.mirrored) {
      apart.AddMirrored(buffer.name, buffer.dtype, buffer.shape);
    } else {
      apart.Add(buffer.name, buffer.dtype, buffer.shape);
    }
  }
  apart.Place();
  return apart;
}

// Fills a buffer with NaN, in any dtype.
void Poison(const Tensor& x) {
  std::memset(x.raw(), 0xFF, x.bytes());
}

// Runs the operations of a pass on the reference, and poisons each buffer at the end of its life.
class Poisoner final : public GenericBackend<Poisoner> {
 public:
  Poisoner(const MemoryPlan& lives, const MemoryPlan& plan, const Arena& arena)
      : lives_(lives), plan_(plan), arena_(arena) {
    for (size_t i = 0; i < lives.buffers().size(); ++i) Poison(At(i));
  }
  std::string name() const override { return "poisoner"; }
  std::string description() const override { return "poisoner"; }
  bool Supports(Dtype) const override { return true; }
  Dtype PreferredDtype() const override { return Dtype::kF32; }

  template <class Op>
  void Apply(const Op& op) {
    reference_->Run(op);
    for (size_t i = 0; i < lives_.buffers().size(); ++i) {
      if (lives_.buffers()[i].last_tick == operation_) Poison(At(i));
    }
    ++operation_;
  }

 private:
  Tensor At(size_t i) const { return arena_.Get(plan_, static_cast<MemoryPlan::Id>(i)); }

  const MemoryPlan &lives_, &plan_;
  const Arena& arena_;
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  int64_t operation_ = 0;
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
         (c.options.recompute ? "_recompute" : "") + (c.options.lora.on() ? "_lora" : "");
}

std::vector<ActivationsCase> ActivationsCases() {
  std::vector<ActivationsCase> cases;
  for (const char* norm : {"pre", "post"}) {
    for (int64_t layers : {1, 2, 3, 4}) {
      for (int64_t inner : {1, 8, 41}) {
        for (const Dtype dtype : {Dtype::kF64, Dtype::kBF16}) {
          cases.push_back({norm, layers, inner, PassKind::kForward, {.dtype = dtype}});
          for (const bool recompute : {false, true}) {
            PassOptions options{.dtype = dtype, .recompute = recompute};
            cases.push_back({norm, layers, inner, PassKind::kTraining, options});
            options.lora = {.rank = 2, .targets = "c_attn,c_proj,c_fc", .dropout = 0.3};
            if (inner == 8) cases.push_back({norm, layers, inner, PassKind::kTraining, options});
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
    config_.norm_position = *FromName<NormPosition>(GetParam().norm);
    config_.n_layer = GetParam().layers;
    config_.n_inner = GetParam().inner;
    for (double GptConfig::*rate : GptConfig::DropoutRates()) config_.*rate = training() ? 0.3 : 0;
    weights_ = Parameters(ParamPart::kAll);
    grads_ = Parameters(ParamPart::kTrained);
    Scatter(*weights_, 1);
    ids_ = RandomTokens(N, config_.vocab_size, 2);
    targets_ = RandomTokens(N, config_.vocab_size, 3);
    packed_ = PlanBuffers(shape_);
    apart_ = Apart(packed_);
  }
  const PassOptions& options() const { return GetParam().options; }
  std::unique_ptr<GptWeights> Parameters(ParamPart part) const {
    return std::make_unique<GptWeights>(ParamTable(config_, options().lora), options().number(),
                                        part);
  }
  bool training() const { return GetParam().kind == PassKind::kTraining; }

  // The operations of a pass on memory of the test's own. Returns the losses.
  std::vector<double> RunOn(Backend& backend, const MemoryPlan& memory, const Arena& arena) {
    PassContext pass{.backend = backend, .config = config_, .lora = options().lora, .B = B, .T = T};
    pass.dropout = dropout_;
    const GptParams& p = weights_->params();
    PassBuffers buffers;
    BindBuffers(shape_, memory, arena, buffers);
    CopyTokens(ids_, buffers.ids.host, 0, config_.vocab_size);
    CopyTokens(targets_, buffers.targets.host, 0, config_.vocab_size);
    TransformerForward(pass, p, buffers);
    if (!training()) {
      HeadForward(pass, p, buffers.acts, buffers.targets.device, loss_sum_);
    } else {
      const GptParams& d = grads_->params();
      HeadForwardBackward(pass, p, buffers.acts, buffers.targets.device, kScale, d, buffers.grads,
                          loss_sum_);
      TransformerBackward(pass, p, buffers, d);
    }
    return Values(buffers.acts.losses.host);
  }

  static constexpr double kScale = 0.3;
  double sum_ = 0;
  const Tensor loss_sum_{&sum_, {1}};
  GptConfig config_ = TinyConfig();
  DropoutContext dropout_{.on = training(), .seed = 4, .step = 5, .first_sequence = 6};
  std::unique_ptr<GptWeights> weights_, grads_;
  std::vector<int32_t> ids_, targets_;
  PassShape shape_{config_, B, T, GetParam().kind, options()};
  MemoryPlan packed_, apart_;
};

// Where dropout is off, as it may be in any pass, operations are fewer and read other buffers.
TEST_P(PlannedPass, BuffersInUseAtOnceDoNotShareMemoryWithoutDropoutEither) {
  const Arena arena(apart_);
  const std::span<const MemoryPlan::Buffer> planned = packed_.buffers();
  const auto begin_of = [&](size_t i) -> const std::byte* {
    return arena.Get(apart_, static_cast<int>(i)).raw();
  };
  for (const bool dropout : {true, false}) {
    dropout_.on = dropout && training();
    std::vector<const std::byte*> begins;
    for (size_t i = 0; i < planned.size(); ++i) begins.push_back(begin_of(i));
    std::ranges::sort(begins);
    begins.push_back(begins.front() + apart_.arena_bytes());
    BufferUses uses(begins);
    RunOn(uses, apart_, arena);
    const auto life_of = [&](size_t i) {
      return uses
          .lives()[static_cast<size_t>(std::ranges::find(begins, begin_of(i)) - begins.begin())];
    };
    for (size_t i = 0; i < planned.size(); ++i) {
      const Lifetime a = life_of(i);
      if (a.first < 0) {
        EXPECT_FALSE(dropout_.on) << planned[i].name << " is never used";
        continue;
      }
      for (size_t j = 0; j < planned.size(); ++j) {
        const Lifetime b = life_of(j);
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool overlap = planned[i].offset < planned[j].offset + planned[j].bytes &&
                             planned[j].offset < planned[i].offset + planned[i].bytes;
        if (i != j) {
          EXPECT_FALSE(together && overlap) << planned[i].name << " and " << planned[j].name;
        }
      }
    }
  }
}

TEST_P(PlannedPass, NobodyReadsABufferOutsideOfItsLife) {
  const Arena arena(apart_), poisoned(apart_);
  const auto reference = MakeReferenceBackend();
  const std::vector<double> losses = RunOn(*reference, apart_, arena);
  const std::vector<double> gradient = Values(grads_->flat());
  std::memset(grads_->flat().raw(), 0, grads_->flat().bytes());
  Poisoner poisoner(packed_, apart_, poisoned);
  EXPECT_EQ(RunOn(poisoner, apart_, poisoned), losses);
  EXPECT_EQ(Values(grads_->flat()), gradient);
}

TEST_P(PlannedPass, SharedMemoryAndStaleContentsChangeNothing) {
  const auto backend = MakeReferenceBackend();
  const Arena arena(apart_);
  for (const MemoryPlan::Buffer& buffer : apart_.buffers()) {
    const Tensor x = arena.Get(apart_, static_cast<int>(&buffer - apart_.buffers().data()));
    Poison(x);
  }
  const std::vector<double> losses = RunOn(*backend, apart_, arena);
  for (double loss : losses) ASSERT_TRUE(std::isfinite(loss));

  const std::unique_ptr<GptWeights> owned = Parameters(ParamPart::kTrained);
  const GptWeights& grads = *owned;
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

TEST(PassPlan, KnowsNoBatchSoLargeThatRecordingItTakesLong) {
  GptConfig config = TinyConfig();
  config.n_positions = 1 << 20;
  const auto begin = std::chrono::steady_clock::now();
  GptPass::Plan(config, 1 << 18, 1 << 20, PassKind::kTraining);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
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
    config.norm_position = *FromName<NormPosition>(norm);
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
    EXPECT_EQ(dtype_of(low, "h.1.norm_1"), config.sublayer_layout().pre_norm ? "BF16" : "F32");
    EXPECT_EQ(dtype_of(low, "h.1.norm_2"), config.sublayer_layout().pre_norm ? "BF16" : "F32");
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
  GptConfig config{.n_embd = 256, .n_head = 4};
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
  config.norm_position = NormPosition::kPost;
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
      {"sinusoidal", 27083328,
       [](GptConfig& c) { c.position_embedding = PositionKind::kSinusoidal; }},
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
  GptConfig config{.vocab_size = 1000, .n_positions = 128, .n_embd = 96, .n_layer = 6, .n_head = 4};
  c.edit(config);
  const bool decode = c.kind == PassKind::kDecode;
  const MemoryPlan plan = GptPass::Plan(config, decode ? 1 : 5, 128, c.kind, c.options);
  EXPECT_LE(plan.arena_bytes(), c.bound);
}

INSTANTIATE_TEST_SUITE_P(Configs, PlannedBytes, testing::ValuesIn(PlannedCases()),
                         [](const auto& planned) { return planned.param.name; });

}  // namespace
}  // namespace folio
