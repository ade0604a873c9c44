// The arithmetic of predicted steps, against cases small enough for a pencil.
#include "folio/bench/step_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "folio/base/error.h"
#include "folio/train/buckets.h"
#include "folio/train/train_cost.h"

namespace folio {
namespace {

constexpr double kSmall = 1e-9;
constexpr double kEndless = std::numeric_limits<double>::infinity();
// Everything but the arithmetic takes no time.
constexpr RankRates kOnlyFlops = {
    .flops_per_second = 1e9, .memory_bytes_per_second = kEndless, .sum_bytes_per_second = kEndless};

// Every layer has buckets of its own, none of them a multiple of a block.
GptConfig SmallModel() {
  GptConfig model;
  model.vocab_size = 300;
  model.n_positions = 32;
  model.n_embd = 32;
  model.n_layer = 5;
  model.n_head = 2;
  return model;
}

TrainShape ShapeOf(const GptConfig& model, int ranks, int64_t turns) {
  return {.model = model, .B = 2, .T = 16, .grad_accumulation = ranks * turns, .ranks = ranks};
}

double Elements(const GptConfig& model) {
  return static_cast<double>(ParamTable(model).trained_size());
}

TEST(SimulatedGroups, OneAllToAllIsTheSumOfItsParts) {
  SimulatedGroup group;
  const uint64_t ticket = group.Begin(5, {.prepare = 1, .wire = 2, .flight = 4, .finish = 8});
  EXPECT_DOUBLE_EQ(group.Wait(7, ticket), 20);
  EXPECT_DOUBLE_EQ(group.seconds(), 15);
  EXPECT_DOUBLE_EQ(group.seconds_waited(), 13);
  EXPECT_DOUBLE_EQ(group.Wait(30, ticket), 30);  // it is done
  EXPECT_DOUBLE_EQ(group.Wait(31, 0), 31);
}

TEST(SimulatedGroups, WiresFollowEachOtherAndFlightsOverlap) {
  SimulatedGroup group;
  group.Begin(0, {.wire = 10, .flight = 3});
  const uint64_t second = group.Begin(0, {.wire = 10, .flight = 3});
  EXPECT_DOUBLE_EQ(group.Wait(0, second), 23);
}

TEST(SimulatedGroups, TheThirdBeginsWhenTheFirstIsDone) {
  SimulatedGroup group;
  group.Begin(0, {.wire = 1, .flight = 100});
  group.Begin(0, {.wire = 1, .flight = 100});
  const uint64_t third = group.Begin(0, {.wire = 1, .flight = 100});
  EXPECT_DOUBLE_EQ(group.Wait(0, third), 101 + 1 + 100);
}

TEST(SimulatedGroups, OneThreadPreparesAndFinishes) {
  SimulatedGroup group;
  group.Begin(0, {.prepare = 10, .finish = 10});
  const uint64_t second = group.Begin(0, {.prepare = 10, .finish = 10});
  EXPECT_DOUBLE_EQ(group.Wait(0, second), 40);
}

TEST(SimulatedGroups, IdleTimeIsNotUnderWay) {
  SimulatedGroup group;
  group.Begin(0, {.wire = 1});
  const uint64_t second = group.Begin(10, {.wire = 2});
  EXPECT_DOUBLE_EQ(group.Wait(50, second), 50);
  EXPECT_DOUBLE_EQ(group.seconds(), 3);
  EXPECT_DOUBLE_EQ(group.seconds_waited(), 0);
}

TEST(StepModels, OneRankOnlyComputes) {
  const GptConfig model = SmallModel();
  RankRates rank = kOnlyFlops;
  rank.memory_bytes_per_second = 1e6;
  const StepPrediction step = PredictStep(ShapeOf(model, 1, 3), rank, {.bits_per_second = 1});
  const double flops = TrainFlops(model, 16).per_token() * 2 * 16 * 3;
  EXPECT_NEAR(step.forward + step.backward, flops / 1e9, kSmall);
  // The norm and AdamW, and two micro-batches that are added to the first.
  EXPECT_NEAR(step.optimizer, Elements(model) * (32 + 2 * 12) / 1e6, kSmall);
  EXPECT_DOUBLE_EQ(step.seconds, step.computing());
  EXPECT_EQ(step.bytes_sent, 0);
  EXPECT_EQ(step.hidden(), 1);
  EXPECT_EQ(step.bound, StepBound::kCompute);
  EXPECT_EQ(step.tokens, 96);
  EXPECT_NEAR(step.flops, flops, 1);
}

TEST(StepModels, ForwardIsAThirdWithoutTheHead) {
  const GptConfig model = SmallModel();
  const StepPrediction step = PredictStep(ShapeOf(model, 1, 1), kOnlyFlops, {});
  const double head = 6.0 * 300 * 32 * 32 / 1e9;  // 32 rows of it in `backward`
  EXPECT_NEAR(step.backward - head, 2 * step.forward, kSmall);
}

TEST(StepModels, WhereMessagesTakeNoTimeAStepIsIdeal) {
  const GptConfig model = SmallModel();
  const StepPrediction alone = PredictStep(ShapeOf(model, 1, 2), kOnlyFlops, {});
  for (const int ranks : {2, 3, 64}) {
    const StepPrediction step = PredictStep(ShapeOf(model, ranks, 2), kOnlyFlops, {});
    EXPECT_NEAR(step.seconds, alone.seconds, kSmall);
    EXPECT_NEAR(step.efficiency(), 1, kSmall);
    EXPECT_NEAR(step.tokens_per_second() / alone.tokens_per_second(), ranks, 1e-6);
    EXPECT_EQ(step.bound, StepBound::kCompute);
  }
}

TEST(StepModels, BytesAreThoseOfAReduceScatterAndAGather) {
  const GptConfig model = SmallModel();
  for (const int ranks : {2, 8}) {
    for (const Dtype reduce : {Dtype::kF32, Dtype::kBF16}) {
      TrainShape shape = ShapeOf(model, ranks, 3);
      shape.reduce = reduce;
      const StepPrediction step = PredictStep(shape, kOnlyFlops, {.bits_per_second = 1e9});
      const double share = (ranks - 1.0) / ranks, size = reduce == Dtype::kF32 ? 4 : 2;
      EXPECT_NEAR(step.reduce_bytes, share * Elements(model) * size, 1e-3);
      EXPECT_NEAR(step.gather_bytes, share * Elements(model) * 4, 1e-3);
      const double sums = share * Elements(model) / Shards::kBlock * 8;  // for the norm
      EXPECT_NEAR(step.bytes_sent, 3 * step.reduce_bytes + step.gather_bytes + sums, 1e-3);
      const double buckets = static_cast<double>(BucketsOf(ParamTable(model)).size());
      EXPECT_EQ(step.messages, (ranks - 1) * (3 * buckets + buckets + 4));
    }
  }
}

TEST(StepModels, GradientsThatAreAddedUpFirstAreSentOnce) {
  const GptConfig model = SmallModel();
  TrainShape shape = ShapeOf(model, 2, 6);
  const NetworkRates slow = {.bits_per_second = 1e5};
  const StepPrediction each = PredictStep(shape, kOnlyFlops, slow);
  shape.reduce_every = 3;
  const StepPrediction sums = PredictStep(shape, kOnlyFlops, slow);
  EXPECT_NEAR(3 * sums.reduce_bytes, each.reduce_bytes, 1e-3);
  EXPECT_NEAR(each.bytes_sent - sums.bytes_sent, 4 * each.reduce_bytes, 1e-3);
  EXPECT_LT(sums.seconds, 0.5 * each.seconds);
  EXPECT_GT(sums.memory, each.memory);
}

// A network so slow that computing does not count: the link is full all the time, but for a rank's
// pieces that are more than an even share.
TEST(StepModels, ASlowNetworkIsFullAllTheTime) {
  const GptConfig model = SmallModel();
  double bytes = 0;
  for (const ShardBucket& bucket : BucketsOf(ParamTable(model))) {
    const int64_t blocks = (bucket.size() + Shards::kBlock - 1) / Shards::kBlock;
    const int64_t most = std::min(bucket.size(), (blocks + 1) / 2 * Shards::kBlock);
    bytes += static_cast<double>(most) * 4;  // of two ranks: what the one gets is its own piece
  }
  const double sums = Elements(model) / 2 / Shards::kBlock * 8;
  const StepPrediction step =
      PredictStep(ShapeOf(model, 2, 3), kOnlyFlops, {.bits_per_second = 8});  // a byte a second
  EXPECT_NEAR(step.seconds / (4 * bytes + sums), 1, 1e-3);
  EXPECT_EQ(step.bound, StepBound::kNetwork);
  EXPECT_LT(step.hidden(), 0.01);
}

// Messages hide behind what is computed after them: a block's gradient behind the backward of those
// below it, its weights behind the forward of those before it.
TEST(StepModels, TheEmbeddingsAreWaitedForAndBlocksHide) {
  const GptConfig model = SmallModel();
  const double bits = 8e9;  // a byte a nanosecond
  RankRates rank = kOnlyFlops;
  rank.flops_per_second = 1e7;  // the backward of one block: far more than its bytes take
  const StepPrediction step = PredictStep(ShapeOf(model, 2, 1), rank, {.bits_per_second = bits});
  double waited = 0;
  for (const ShardBucket& bucket : BucketsOf(ParamTable(model))) {
    const int64_t blocks = (bucket.size() + Shards::kBlock - 1) / Shards::kBlock;
    const int64_t most = std::min(bucket.size(), (blocks + 1) / 2 * Shards::kBlock);
    if (bucket.layer == -1) waited += 2 * static_cast<double>(most) * 4e-9;  // sums and weights
    // Before the embeddings' sums, and after their weights, which alone nothing is computed with.
    if (bucket.layer == 0) waited += 2 * static_cast<double>(most) * 4e-9;
  }
  const double sums = Elements(model) / 2 / Shards::kBlock * 8e-9;
  EXPECT_NEAR(step.waited, waited + sums, 1e-9);
  EXPECT_NEAR(step.seconds, step.computing() + waited + sums, 1e-9);
}

TEST(StepModels, LatencyIsPaidBetweenSteps) {
  const GptConfig model = SmallModel();
  RankRates rank = kOnlyFlops;
  rank.flops_per_second = 1e3;  // whatever can hide does
  const double latency = 0.25;
  const StepPrediction step = PredictStep(ShapeOf(model, 2, 1), rank, {.latency = latency});
  // Embeddings are one bucket, and what does not decay another: with block 0's three, of which two
  // are under way at a time, for sums and for weights. The norm and three small gathers are alone.
  EXPECT_NEAR(step.seconds - step.computing(), latency * (2 + 4 + 2), 1e-3);
}

TEST(StepModels, TheThreadOfTheGroupTakesItsTimeFromThoseThatCompute) {
  const GptConfig model = SmallModel();
  RankRates rank = kOnlyFlops;
  rank.flops_per_second = 1e6;
  rank.sum_bytes_per_second = 1e6;
  const StepPrediction beside = PredictStep(ShapeOf(model, 2, 1), rank, {});
  rank.threads = 2;
  const StepPrediction shared = PredictStep(ShapeOf(model, 2, 1), rank, {});
  EXPECT_GT(beside.thread, 0);
  EXPECT_NEAR(shared.seconds - beside.seconds, beside.thread / 2, 0.02 * beside.thread);
}

TEST(StepModels, MoreOfANetworkIsNeverSlower) {
  const GptConfig model = SmallModel();
  for (const int ranks : {2, 5, 32}) {
    for (const int64_t turns : {1, 4}) {
      double before = kEndless;
      for (const double bits : {1e6, 1e7, 1e8, 1e9, 1e12}) {
        const NetworkRates network = {
            .bits_per_second = bits, .latency = 1e-5, .seconds_per_message = 1e-6};
        const StepPrediction step = PredictStep(ShapeOf(model, ranks, turns), kOnlyFlops, network);
        EXPECT_LE(step.seconds, before * (1 + 1e-12));
        EXPECT_GE(step.seconds, step.computing());
        EXPECT_LE(step.waited, step.communication * (1 + 1e-12));
        before = step.seconds;
      }
    }
  }
}

TEST(StepModels, WhatBoundsAStepIsNamed) {
  const GptConfig model = SmallModel();
  const auto bound = [&](const RankRates& rank, const NetworkRates& network) {
    return PredictStep(ShapeOf(model, 4, 1), rank, network).bound;
  };
  EXPECT_EQ(bound(kOnlyFlops, {.bits_per_second = 1e6}), StepBound::kNetwork);
  EXPECT_EQ(bound(kOnlyFlops, {.latency = 1}), StepBound::kMessages);
  EXPECT_EQ(bound(kOnlyFlops, {.seconds_per_message = 1}), StepBound::kMessages);
  RankRates adder = kOnlyFlops;
  adder.sum_bytes_per_second = 1e3;
  EXPECT_EQ(bound(adder, {}), StepBound::kSums);
}

TEST(StepModels, MemoryIsThePlans) {
  const GptConfig model = SmallModel();
  const TrainShape shape = ShapeOf(model, 4, 2);
  EXPECT_EQ(PredictStep(shape, kOnlyFlops, {}).memory, PlanOf(shape).arena_bytes());
}

TEST(StepModels, SpeedsAndTimesAreRead) {
  EXPECT_EQ(ParseBitsPerSecond("10Gbit", "--network"), 1e10);
  EXPECT_EQ(ParseBitsPerSecond("2.5Gbit/s", "--network"), 2.5e9);
  EXPECT_EQ(ParseBitsPerSecond("800Mbit", "--network"), 8e8);
  for (const char* wrong : {"", "10", "0Gbit", "-1Gbit", "Gbit", "10GB", "10Gbit ", "1e999Gbit",
                            "nanGbit", "infGbit"}) {
    EXPECT_THROW(ParseBitsPerSecond(wrong, "--network"), Error) << wrong;
  }
  EXPECT_DOUBLE_EQ(ParseShortTime("20us", "--latency"), 20e-6);
  EXPECT_DOUBLE_EQ(ParseShortTime("1.5ms", "--latency"), 1.5e-3);
  EXPECT_EQ(ParseShortTime("0", "--latency"), 0);
  for (const char* wrong : {"", "20", "us", "-1us", "20 us", "infs", "1h"}) {
    EXPECT_THROW(ParseShortTime(wrong, "--latency"), Error) << wrong;
  }
  EXPECT_EQ(HumanBits(4e11), "400 Gbit/s");
  EXPECT_EQ(HumanBits(2.5e9), "2.5 Gbit/s");
}

TEST(StepModels, RatesAreMeasuredHere) {
  const std::unique_ptr<Backend> backend = MakeBackend("cpu");
  BenchTrainOptions options{.model = SmallModel(), .train = {}, .T = 16};
  const RankRates rates = MeasureRankRates(*backend, options);
  EXPECT_GT(rates.flops_per_second, 1e6);
  EXPECT_GT(rates.memory_bytes_per_second, 1e7);
  EXPECT_GT(rates.sum_bytes_per_second, 1e7);
  EXPECT_GE(rates.threads, 1);
}

}  // namespace
}  // namespace folio
