// Steps of ranks that share the layers of a model, and its data too.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include "folio/model/shard.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "folio/train/test_rank_steps.h"
#include "folio/train/train_step.h"
#include "tests/kit/near.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

struct TensorCase {
  std::string name;
  bool tied = true;
  std::string norm = "pre";
};

// The traces of the steps.
struct TensorLeft {
  std::vector<double> losses, norms;
  std::unique_ptr<GptWeights> weights, gradient;
};

class TensorRanks : public testing::TestWithParam<TensorCase> {
 protected:
  static constexpr int64_t B = 2, T = 7, kMicroBatches = 4, kSteps = 10;

  TensorRanks() {
    config_.n_embd = 48;
    config_.n_head = 4;
    config_.n_layer = 3;
    config_.n_positions = 9;
    config_.vocab_size = 301;
    config_.tie_word_embeddings = GetParam().tied;
    config_.norm_position = GetParam().norm;
    config_.lm_head_bias = !GetParam().tied;
    for (double GptConfig::*rate : GptConfig::DropoutRates()) config_.*rate = 0.1;
  }

  TensorLeft Train(Group* group, int tensor) const {
    const Parallelism whole{.group = group, .tensor = tensor};
    const int64_t D = whole.data().size();
    const auto backend = MakeBackend("cpu");
    const ParamTable table(config_, {}, {TensorCommunicator(group, tensor).rank(), tensor});
    TensorLeft left;
    left.weights = std::make_unique<GptWeights>(table);
    InitWeights(*left.weights, 3);
    TrainStep train_step(*backend, *left.weights, B, T, {},
                         {.group = group, .tensor = tensor, .micro_batches = kMicroBatches / D});
    for (int64_t step = 1; step <= kSteps; ++step) {
      for (const double loss :
           AccumulateShare(train_step, config_.vocab_size, step, kMicroBatches)) {
        left.losses.push_back(loss);
      }
      left.norms.push_back(train_step.Norm());
      if (step == 1) {
        left.gradient = std::make_unique<GptWeights>(table);
        std::ranges::copy(Elements<float>(train_step.Gradient()),
                          left.gradient->flat().data<float>());
      }
      // So large an eps that rounding is not blown up where a gradient is nothing else.
      train_step.Update({.eps = 1e-2}, 1e-2, 0.5, step, left.norms.back());
    }
    train_step.WaitForWeights();
    return left;
  }

  // The whole model's numbers, of shards that ranks of one team have.
  std::vector<float> Assembled(std::span<const TensorLeft> ranks,
                               std::unique_ptr<GptWeights> TensorLeft::*which) const {
    const GptWeights whole(config_);
    for (const TensorLeft& rank : ranks) {
      PutShard(whole, *(rank.*which));
    }
    const std::span<const float> flat = Elements<float>(whole.flat());
    return {flat.begin(), flat.end()};
  }

  GptConfig config_ = TinyConfig();
};

TEST_P(TensorRanks, MakeTheStepsOfOneProcess) {
  const TensorLeft one = Train(nullptr, 1);
  EXPECT_GT(one.norms.front(), 0.5);  // it is clipped
  struct Grid {
    int data, tensor;
  };
  for (const auto& [data, tensor] : {Grid{1, 2}, {2, 2}, {2, 1}, {1, 4}, {4, 2}}) {
    const std::string grid = std::to_string(data) + " x " + std::to_string(tensor);
    std::vector<TensorLeft> ranks(static_cast<size_t>(data * tensor));
    RunOnThreads(data * tensor, [&, tensor = tensor](Group& group) {
      ranks[static_cast<size_t>(group.rank())] = Train(&group, tensor);
    });
    const double tolerance = kSteps * kFloat32Model;
    const auto D = static_cast<size_t>(data), N = static_cast<size_t>(tensor);
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(ranks[r].norms, ranks[0].norms) << grid;
      EXPECT_EQ(ranks[r].losses, ranks[r / N * N].losses) << grid;
      // Ranks of one shard have the same weights, to the last bit.
      const auto mine = Elements<float>(ranks[r].weights->flat());
      EXPECT_TRUE(std::ranges::equal(mine, Elements<float>(ranks[r % N].weights->flat()))) << grid;
      for (size_t i = 0; i < ranks[r].losses.size(); ++i) {
        const double expected = one.losses[i * D + r / N];
        EXPECT_NEAR(ranks[r].losses[i], expected, tolerance * expected) << grid;
      }
      // And all ranks of what all have.
      const ParamTable& table = ranks[r].weights->table();
      for (size_t p = 0; p < table.params().size(); ++p) {
        if (!table.params()[p].shared) continue;
        EXPECT_TRUE(std::ranges::equal(Elements<float>(ranks[r].weights->tensors()[p]),
                                       Elements<float>(ranks[0].weights->tensors()[p])))
            << grid << table.params()[p].name;
      }
    }
    ExpectClose(ranks[0].norms, one.norms, tolerance);
    const std::span<const TensorLeft> first(ranks.data(), N);
    ExpectClose(Assembled(first, &TensorLeft::gradient),
                Assembled({&one, 1}, &TensorLeft::gradient), kFloat32Model);
    ExpectClose(Assembled(first, &TensorLeft::weights), Assembled({&one, 1}, &TensorLeft::weights),
                tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TensorRanks,
                         testing::Values(TensorCase{.name = "tied"},
                                         TensorCase{.name = "untied", .tied = false},
                                         TensorCase{.name = "post_norm", .norm = "post"}),
                         [](const auto& tested) { return tested.param.name; });

TEST(TensorRankMemory, WeightsAndActivationsOfLayersAreShared) {
  const GptConfig gpt2;
  const auto bytes = [&](int64_t shards, const std::string& prefix) {
    const MemoryPlan plan = TrainStep::Plan(gpt2, 4, 256, {.shard = {0, shards}});
    size_t sum = 0;
    for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
      if (buffer.name.starts_with(prefix)) sum += buffer.bytes;
    }
    return static_cast<double>(sum);
  };
  for (const char* name : {"weights", "gradients", "adamw", "h.0.qkv", "h.0.fc"}) {
    EXPECT_NEAR(bytes(4, name) / bytes(1, name), 0.25, 0.01) << name;
  }
}

}  // namespace
}  // namespace folio
