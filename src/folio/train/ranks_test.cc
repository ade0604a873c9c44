// Steps of several ranks: whoever computes, the bytes are the same.
#include "folio/train/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "folio/base/error.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "folio/train/test_rank_steps.h"
#include "folio/train/train_step.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

struct RanksCase {
  std::string name;
  Dtype reduce = Dtype::kF32;
  Dtype dtype = Dtype::kF32;
  bool tied = true, lora = false;
  int64_t every = 1;
};

// The traces of three steps.
struct RanksLeft {
  std::vector<double> losses, norms;
  std::vector<float> weights, gradient;

  bool operator==(const RanksLeft&) const = default;
};

class Ranks : public testing::TestWithParam<RanksCase> {
 protected:
  static constexpr int64_t B = 2, T = 7, kMicroBatches = 12;

  static RanksLeft Train(Group* group) {
    GptConfig config = TinyConfig();
    config.n_embd = 48;
    config.n_layer = 5;
    config.vocab_size = 301;
    config.n_positions = T;
    config.tie_word_embeddings = GetParam().tied;
    LoraConfig lora;
    if (GetParam().lora) lora = {.rank = 3, .targets = "c_attn,c_fc"};
    for (double GptConfig::*rate : GptConfig::DropoutRates()) config.*rate = 0.1;
    const auto backend = MakeBackend("cpu");
    GptWeights weights(ParamTable(config, lora));
    Scatter(weights, 1);
    const int64_t ranks = group == nullptr ? 1 : group->size();
    TrainStep train_step(*backend, weights, B, T, {.dtype = GetParam().dtype},
                         {.group = group,
                          .micro_batches = kMicroBatches / ranks,
                          .reduce_every = GetParam().every,
                          .reduce = GetParam().reduce});
    RanksLeft left;
    for (int64_t step = 1; step <= 3; ++step) {
      for (const double loss :
           AccumulateShare(train_step, config.vocab_size, step, kMicroBatches)) {
        left.losses.push_back(loss);
      }
      left.norms.push_back(train_step.Norm());
      const std::span<const float> gradient = Elements<float>(train_step.Gradient());
      left.gradient.assign(gradient.begin(), gradient.end());
      train_step.Update({}, 1e-2, 1, step, left.norms.back());
    }
    train_step.WaitForWeights();
    const std::span<const float> flat = Elements<float>(weights.flat());
    left.weights.assign(flat.begin(), flat.end());
    return left;
  }
};

TEST_P(Ranks, LeaveTheSameBytesHoweverManyTheyAre) {
  const RanksLeft one = Train(nullptr);
  EXPECT_GT(one.norms.back(), 0);
  for (const int ranks : {2, 3, 4, 6}) {
    if (kMicroBatches / GetParam().every % ranks != 0) continue;
    RunOnThreads(ranks, [&](Group& group) {
      RanksLeft left = Train(&group);
      const Parallelism steps{.group = &group, .reduce_every = GetParam().every};
      for (size_t i = 0; i < left.losses.size(); ++i) {
        const auto micro = static_cast<size_t>(steps.MicroBatch(static_cast<int64_t>(i)));
        EXPECT_EQ(left.losses[i], one.losses[micro]) << i;
      }
      left.losses = one.losses;
      EXPECT_TRUE(left == one) << ranks << " ranks: norm " << left.norms.back() << ", alone "
                               << one.norms.back();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Ranks,
    testing::Values(
        RanksCase{.name = "fp32"}, RanksCase{.name = "bf16_sent", .reduce = Dtype::kBF16},
        RanksCase{.name = "bf16", .dtype = Dtype::kBF16},
        RanksCase{.name = "untied", .tied = false}, RanksCase{.name = "pairs", .every = 2},
        RanksCase{.name = "pairs_bf16_sent", .reduce = Dtype::kBF16, .tied = false, .every = 2},
        RanksCase{.name = "threes_lora", .lora = true, .every = 3},
        RanksCase{.name = "lora", .lora = true}),
    [](const auto& tested) { return tested.param.name; });

// Micro-batches that are added up before they are sent: the same gradient but for rounding, and as
// many messages fewer.
TEST(ReduceEvery, SendsOnceForSoManyMicroBatches) {
  constexpr int64_t kEach = 4;
  GptConfig config = TinyConfig();
  config.n_embd = 48;
  config.n_layer = 3;
  config.vocab_size = 301;
  config.n_positions = 7;
  RunOnThreads(2, [&](Group& group) {
    const auto backend = MakeBackend("cpu");
    std::vector<uint64_t> sent;
    std::vector<std::vector<float>> gradients;
    for (const int64_t every : {int64_t{1}, kEach}) {
      GptWeights weights(config);
      Scatter(weights, 1);
      TrainStep train_step(*backend, weights, 2, 7, {},
                           {.group = &group, .micro_batches = kEach, .reduce_every = every});
      const uint64_t before = group.traffic().bytes_sent;
      // As the same micro-batches of whoever has them.
      train_step.Begin();
      for (int64_t turn = 0; turn < kEach; ++turn) {
        const auto seed = static_cast<uint64_t>(train_step.parallelism().MicroBatch(turn));
        train_step.Accumulate(RandomTokens(14, config.vocab_size, seed),
                              RandomTokens(14, config.vocab_size, seed + 50),
                              1.0 / (14 * 2 * kEach), {});
      }
      train_step.Norm();
      sent.push_back(group.traffic().bytes_sent - before);
      const std::span<const float> gradient = Elements<float>(train_step.Gradient());
      gradients.emplace_back(gradient.begin(), gradient.end());
    }
    EXPECT_NEAR(static_cast<double>(sent[0]) / static_cast<double>(sent[1]), kEach, 0.1);
    ASSERT_EQ(gradients[0].size(), gradients[1].size());
    float largest = 0, difference = 0;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      largest = std::max(largest, std::abs(gradients[0][i]));
      difference = std::max(difference, std::abs(gradients[0][i] - gradients[1][i]));
    }
    EXPECT_GT(largest, 0);
    // Each of eight terms is added once, to no more than eight of the largest.
    EXPECT_LE(difference, 64 * std::ldexp(largest, -24));
  });
}

TEST(RankMemory, OptimizerAndSumAreShared) {
  const GptConfig gpt2;
  const auto bytes = [&](int ranks, const std::string& prefix) {
    const MemoryPlan plan = TrainStep::Plan(gpt2, 1, 64, {}, {.ranks = ranks, .micro_batches = 1});
    size_t sum = 0;
    for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
      if (buffer.name.starts_with(prefix)) sum += buffer.bytes;
    }
    return static_cast<double>(sum);
  };
  EXPECT_NEAR(bytes(8, "adamw") / bytes(1, "adamw"), 1.0 / 8, 0.001);
  EXPECT_LT(bytes(8, "gradients"), 0.65 * bytes(1, "gradients"));
}

// Were a flag left out of RankFlags::kAll, some ranks would stop and the others wait for them.
TEST(RankControls, AFlagOfOneIsAFlagOfAll) {
  for (const auto flag : RankFlags::kAll) {
    RunOnThreads(3, [&](Group& group) {
      RankFlags mine;
      mine.*flag = group.rank() == 2;
      const RankFlags all = RankControl(&group).Poll(mine);
      for (const auto other : RankFlags::kAll) EXPECT_EQ(all.*other, other == flag);
    });
    RankFlags mine;
    mine.*flag = true;
    EXPECT_TRUE(RankControl(nullptr).Poll(mine).*flag);
  }
  static_assert(sizeof(RankFlags) == RankFlags::kAll.size() * sizeof(bool), "flags are missing");
}

TEST(RankControls, ARankThatDiffersIsNamedWithTheCheckpoint) {
  std::vector<float> same = {1, 2}, other = {1, 3};
  RunOnThreads(4, [&](Group& group) {
    const RankControl control(&group);
    const auto require = [&](std::vector<float>& weights, int parts) {
      control.RequireSameBytes(Tensor(weights.data(), {2}), parts, 7, "there is none");
    };
    require(same, 1);
    std::vector<float>& mine = group.rank() % 2 == 0 ? same : other;
    require(mine, 2);  // of two parts, ranks 0 and 2 have one, 1 and 3 the other
    const std::string error = ErrorOf([&] { require(mine, 1); }, ErrorKind::kRuntime);
    EXPECT_TRUE(Contains(error, group.NameOf(1), "at step 7"));
  });
}

TEST(Stragglers, WhoIsSlowForLongIsNamedOnce) {
  Stragglers stragglers;
  for (int64_t step = 1; step <= 3 * Stragglers::kSteps; ++step) {
    const std::vector<int> found = stragglers.Add({1, 1.1, 1.3, 1});
    EXPECT_EQ(found, step == Stragglers::kSteps ? std::vector<int>{2} : std::vector<int>{});
  }
  EXPECT_TRUE(stragglers.Add({1, 1, 1, 1}).empty());
}

TEST(Stragglers, ASlowStepNowAndThenIsNone) {
  Stragglers stragglers;
  for (int64_t step = 0; step < 100; ++step) {
    EXPECT_TRUE(stragglers.Add({1, step % Stragglers::kSteps == 0 ? 1.0 : 9.0, 1}).empty());
  }
}

}  // namespace
}  // namespace folio
