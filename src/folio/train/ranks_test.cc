// Steps of several ranks: whoever computes, the bytes are the same.

#include "folio/train/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/model/config.h"
#include "folio/model/shard_weights.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "folio/train/buckets.h"
#include "folio/train/train_step.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/thread_ranks.h"

namespace folio {

namespace {

// A rank's share of the micro-batches of a step, of random tokens that depend on step and number
// alone; returns their losses.
std::vector<double> AccumulateShare(TrainStep& train_step, int64_t vocab_size, int64_t step,
                                    int64_t micro_batches) {
  const int64_t B = train_step.pass().B(), T = train_step.pass().T();
  train_step.Begin();
  for (int64_t turn = 0; turn < train_step.parallelism().micro_batches; ++turn) {
    const int64_t micro = train_step.parallelism().MicroBatch(turn);
    const auto seed = static_cast<uint64_t>(100 * step + micro);
    const std::vector<int32_t> inputs = RandomTokens(B * T, vocab_size, seed);
    const std::vector<int32_t> targets = RandomTokens(B * T, vocab_size, seed + 50);
    train_step.Accumulate(
        inputs, targets, 1.0 / static_cast<double>(B * T * micro_batches),
        {.on = true, .seed = 4, .step = static_cast<uint64_t>(step), .first_sequence = B * micro});
  }
  const std::span<const double> losses = train_step.Losses();
  return {losses.begin(), losses.end()};
}

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
      left.gradient = Copied<float>(train_step.Gradient());
      train_step.Update(1e-2, 1, step, left.norms.back());
    }
    train_step.WaitForWeights();
    left.weights = Copied<float>(weights.flat());
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
      gradients.push_back(Copied<float>(train_step.Gradient()));
    }
    EXPECT_NEAR(static_cast<double>(sent[0]) / static_cast<double>(sent[1]), kEach, 0.1);
    EXPECT_GT(Largest(gradients[0]), 0);
    // Each of eight terms is added once, to no more than eight of the largest.
    ExpectClose(gradients[1], gradients[0], Float32Error(64));
  });
}

// Bytes of the buffers of a plan whose names begin so.
double BytesOf(const MemoryPlan& plan, const std::string& prefix) {
  size_t sum = 0;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name.starts_with(prefix)) sum += buffer.bytes;
  }
  return static_cast<double>(sum);
}

TEST(RankMemory, OptimizerAndSumAreShared) {
  const auto plan = [](int ranks) {
    return TrainStep::Plan({}, 1, 64, {}, {.ranks = ranks, .micro_batches = 1});
  };
  const MemoryPlan one = plan(1), eight = plan(8);
  EXPECT_NEAR(BytesOf(eight, "adamw") / BytesOf(one, "adamw"), 1.0 / 8, 0.001);
  EXPECT_LT(BytesOf(eight, "gradients"), 0.65 * BytesOf(one, "gradients"));
}

TEST(RankMemory, WeightsAndActivationsOfLayersAreSharedByTensorRanks) {
  const auto plan = [](int64_t shards) {
    return TrainStep::Plan({}, 4, 256, {.shard = {0, shards}});
  };
  const MemoryPlan one = plan(1), four = plan(4);
  for (const char* name : {"weights", "gradients", "adamw", "h.0.qkv", "h.0.fc"}) {
    EXPECT_NEAR(BytesOf(four, name) / BytesOf(one, name), 0.25, 0.01) << name;
  }
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
    config_.norm_position = *FromName<NormPosition>(GetParam().norm);
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
    // So large an eps that rounding is not blown up where a gradient is nothing else.
    TrainStep train_step(*backend, *left.weights, B, T, {},
                         {.group = group, .tensor = tensor, .micro_batches = kMicroBatches / D},
                         AdamW{.eps = 1e-2});
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
      train_step.Update(1e-2, 0.5, step, left.norms.back());
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
    return Copied<float>(whole.flat());
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

}  // namespace

namespace {

TEST(Shards, EveryElementHasOneOwnerAndEachKeepsItsPiecesInOrder) {
  const std::vector<ShardBucket> buckets = {{0, 5 * Shards::kBlock + 7, -1},
                                            {5 * Shards::kBlock + 7, 6 * Shards::kBlock, 0},
                                            {6 * Shards::kBlock, 6 * Shards::kBlock + 1, 1}};
  for (const int ranks : {1, 2, 3, 7}) {
    const Shards shards(buckets, ranks);
    std::vector<int64_t> kept(static_cast<size_t>(ranks)), blocks(kept);
    for (size_t b = 0; b < buckets.size(); ++b) {
      int64_t at = buckets[b].begin;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shards::Piece piece = shards.PieceOf(b, rank);
        int64_t& mine = kept[static_cast<size_t>(rank)];
        EXPECT_EQ(piece.begin, at);
        EXPECT_EQ(piece.offset, mine);
        if (piece.size() > 0) {
          EXPECT_EQ((piece.begin - buckets[b].begin) % Shards::kBlock, 0);
        }
        EXPECT_LE(piece.size(), shards.longest());
        mine += piece.size();
        blocks[static_cast<size_t>(rank)] += (piece.size() + Shards::kBlock - 1) / Shards::kBlock;
        at = piece.end;
      }
      EXPECT_EQ(at, buckets[b].end);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(shards.SizeOf(rank), kept[static_cast<size_t>(rank)]);
      EXPECT_EQ(shards.BlocksOf(rank), blocks[static_cast<size_t>(rank)]);
    }
  }
}

}  // namespace

}  // namespace folio
