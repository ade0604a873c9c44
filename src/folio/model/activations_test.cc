// The plan of a pass: nothing may lie on memory that somebody still reads.

#include "folio/model/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "folio/backend/generic_backend.h"
#include "folio/backend/operands.h"
#include "folio/model/block.h"
#include "folio/model/gpt.h"
#include "folio/model/head.h"
#include "folio/model/norm.h"
#include "folio/model/test_models.h"

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

// Runs on the reference backend and notes when each buffer of an arena is used.
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
  bool Supports(Dtype dtype) const override { return reference_->Supports(dtype); }
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
    reference_->Run(op);
  }

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  std::map<const std::byte*, size_t> begins_;  // of the buffers
  const std::byte* end_ = nullptr;             // of the arena
  std::vector<Life> lives_;
  int64_t operations_ = 0;
};

struct Case {
  std::string norm;
  int64_t layers;
  int64_t inner;  // narrow and wide change which buffers are packed first
  PassKind kind;
};

std::string Name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.norm + "_L" + std::to_string(c.layers) + "_F" + std::to_string(c.inner) +
         (c.kind == PassKind::kTraining ? "_training" : "_forward");
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* norm : {"pre", "post"}) {
    for (int64_t layers : {1, 2, 3, 4}) {
      for (int64_t inner : {1, 8, 41}) {
        for (PassKind kind : {PassKind::kForward, PassKind::kTraining}) {
          cases.push_back({norm, layers, inner, kind});
        }
      }
    }
  }
  return cases;
}

class PlannedPass : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t B = 2, T = 3, N = B * T;

  PlannedPass() {
    config_.norm_position = GetParam().norm;
    config_.n_layer = GetParam().layers;
    config_.n_inner = GetParam().inner;
    if (training()) config_.embd_pdrop = config_.attn_pdrop = config_.resid_pdrop = 0.3;
    weights_ = std::make_unique<GptWeights>(config_, Dtype::kF64);
    grads_ = std::make_unique<GptWeights>(config_, Dtype::kF64);
    Scatter(*weights_, 1);
    ids_ = RandomTokens(N, config_.vocab_size, 2);
    targets_ = RandomTokens(N, config_.vocab_size, 3);
    activations_ =
        std::make_unique<ActivationPlan>(config_, B, T, GetParam().kind, Dtype::kF64, packed_);
    packed_.Place();
    apart_ = Apart(packed_);
  }
  bool training() const { return GetParam().kind == PassKind::kTraining; }

  // The operations of a pass on memory of the test's own. Returns the losses.
  std::vector<double> RunOn(Backend& backend, const MemoryPlan& memory, const Arena& arena) {
    PassContext pass{.backend = backend, .config = config_, .B = B, .T = T};
    pass.dropout = dropout_;
    const GptParams& p = weights_->params();
    const GptActivations acts = activations_->Activations(memory, arena);
    const Tensor ids(ids_.data(), {B, T}), targets(targets_.data(), {N});
    const auto input = [&](size_t l) {
      return l == 0 ? acts.embedded : BlockOutput(config_, acts.h[l - 1]);
    };
    backend.Run(EmbeddingForward{.ids = ids, .wte = p.wte, .wpe = p.wpe, .out = acts.embedded});
    const Dropout drop = pass.EmbeddingDropout();
    if (drop.active()) {
      backend.Run(ResidualForward{.x = acts.embedded, .out = acts.embedded, .dropout = drop});
    }
    const size_t L = acts.h.size();
    for (size_t l = 0; l < L; ++l) {
      BlockForward(pass, static_cast<int64_t>(l), p.h[l], acts.h[l], input(l), acts.branch);
    }
    NormForward(pass, p.ln_f, input(L), acts.norm_f);
    if (!training()) {
      HeadForward(pass, p, acts, targets);
    } else {
      const GptGradients grads = activations_->Gradients(memory, arena);
      const GptParams& d = grads_->params();
      HeadForwardBackward(pass, p, acts, targets, kScale, d, grads.d_branch);
      NormBackward(pass, p.ln_f, input(L), acts.norm_f, grads.d_branch, d.ln_f, grads.d_stream,
                   false);
      for (size_t l = L; l-- > 0;) {
        BlockBackward(pass, static_cast<int64_t>(l), p.h[l], acts.h[l], input(l), d.h[l], grads);
      }
      if (drop.active()) {
        backend.Run(
            ResidualBackward{.d_out = grads.d_stream, .d_x = grads.d_stream, .dropout = drop});
      }
      backend.Run(
          EmbeddingBackward{.ids = ids, .d_out = grads.d_stream, .d_wte = d.wte, .d_wpe = d.wpe});
    }
    const auto losses = Elements<double>(acts.losses);
    return {losses.begin(), losses.end()};
  }

  static constexpr double kScale = 0.3;
  GptConfig config_ = TinyConfig();
  DropoutContext dropout_{.on = training(), .seed = 4, .step = 5, .first_sequence = 6};
  std::unique_ptr<GptWeights> weights_, grads_;
  std::vector<int32_t> ids_, targets_;
  MemoryPlan packed_, apart_;
  std::unique_ptr<ActivationPlan> activations_;
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
    for (double& value : Elements<double>(x)) value = std::numeric_limits<double>::quiet_NaN();
  }
  const std::vector<double> losses = RunOn(*backend, apart_, arena);
  for (double loss : losses) ASSERT_TRUE(std::isfinite(loss));

  GptWeights grads(config_, Dtype::kF64);
  GptPass pass(*backend, config_, B, T, GetParam().kind, Dtype::kF64);
  for (const bool first : {true, false}) {  // other tokens first, so that something stale is there
    const std::vector<int32_t> ids = first ? RandomTokens(N, config_.vocab_size, 7) : ids_;
    const auto gradient = Elements<double>(grads.flat());
    std::fill(gradient.begin(), gradient.end(), 0.0);
    pass.Forward(weights_->params(), ids, dropout_);
    if (training()) {
      pass.LossAndBackward(weights_->params(), targets_, kScale, grads.params());
    } else {
      pass.Loss(weights_->params(), targets_);
    }
  }
  const auto found = Elements<double>(pass.losses());
  EXPECT_EQ(std::vector<double>(found.begin(), found.end()), losses);
  const auto expected = Elements<double>(grads_->flat());
  const auto gradient = Elements<double>(grads.flat());
  for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient[i], expected[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Configs, PlannedPass, testing::ValuesIn(Cases()), Name);

TEST(ActivationPlan, AForwardPassNeedsLessThanATrainingStep) {
  GptConfig config = TinyConfig();
  config.n_layer = 8;
  const auto bytes = [&](PassKind kind) {
    return GptPass::Plan(config, 2, 5, kind, Dtype::kF32).arena_bytes();
  };
  EXPECT_LT(bytes(PassKind::kForward) * 2, bytes(PassKind::kTraining));
  // Without a backward, depth costs nothing.
  const size_t eight = bytes(PassKind::kForward);
  config.n_layer = 3;
  EXPECT_EQ(bytes(PassKind::kForward), eight);
}

TEST(ActivationPlan, NoLayerHoldsAnArrayOfAllPairsOfPositions) {
  GptConfig config;
  config.n_layer = 1;
  const int64_t B = 2, T = 1024;
  const MemoryPlan plan = GptPass::Plan(config, B, T, PassKind::kTraining, Dtype::kF32);
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name == "logits") continue;
    EXPECT_LT(buffer.shape.count(), B * config.n_head * T * T) << buffer.name;
  }
}

TEST(ActivationPlan, RefusesWhatNoMachineHolds) {
  GptConfig config = TinyConfig();
  config.n_embd = 1 << 30;
  config.n_inner = 1 << 30;
  MemoryPlan memory;
  EXPECT_THROW(ActivationPlan(config, int64_t{1} << 24, int64_t{1} << 24, PassKind::kTraining,
                              Dtype::kF32, memory),
               std::exception);
}

}  // namespace
}  // namespace folio
