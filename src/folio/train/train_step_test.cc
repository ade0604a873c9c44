#include "folio/train/train_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "folio/backend/test_op_cases.h"
#include "folio/data/padded_batch.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "folio/train/buckets.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

struct TrainStepCase {
  std::string backend;
  Dtype dtype;
  double dropout = 0;
};

std::string Name(const testing::TestParamInfo<TrainStepCase>& info) {
  return info.param.backend + "_" + std::string(DtypeName(info.param.dtype)) +
         (info.param.dropout > 0 ? "_dropout" : "");
}

class Overfitting : public testing::TestWithParam<TrainStepCase> {};

// The losses of 200 steps on one batch.
std::vector<double> LearnByHeart(const std::string& backend_name, const PassOptions& options) {
  const auto backend = MakeBackend(backend_name);
  GptConfig config = TinyConfig();
  config.n_embd = 16;
  GptWeights weights(config);
  InitWeights(weights, 1);
  constexpr int64_t B = 3, T = 5;
  const double scale = 1.0 / (B * T);
  TrainStep train_step(*backend, weights, B, T, options);
  std::vector<int32_t> inputs = RandomTokens(B * T, config.vocab_size, 2);
  for (int32_t b = 0; b < B; ++b) inputs[static_cast<size_t>(b) * T] = b;  // no equal prefixes
  const std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
  std::vector<double> losses;
  for (int64_t step = 1; step <= 200; ++step) {
    train_step.Begin();
    train_step.Accumulate(inputs, targets, scale, {});
    train_step.Finish(1e-2, 1, step);
    losses.push_back(scale * train_step.Losses()[0]);
  }
  return losses;
}

TEST_P(Overfitting, OneBatchIsLearntByHeart) {
  const std::vector<double> losses = LearnByHeart(GetParam().backend, {.dtype = GetParam().dtype});
  EXPECT_NEAR(losses.front(), std::log(11.0), 0.1);
  EXPECT_LT(losses.back(), 0.01);
}

TEST_P(Overfitting, AsFastAsTheReferenceInFloat32) {
  if (Name({GetParam(), 0}) == "reference_F32") GTEST_SKIP() << "is the reference";
  const std::vector<double> losses = LearnByHeart(GetParam().backend, {.dtype = GetParam().dtype});
  const std::vector<double> expected = LearnByHeart("reference", {});
  for (size_t i = 0; i < losses.size(); ++i) {
    ASSERT_NEAR(losses[i], expected[i], 0.02 + 0.05 * expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Overfitting,
                         testing::Values(TrainStepCase{"cpu", Dtype::kF32},
                                         TrainStepCase{"cpu", Dtype::kBF16},
                                         TrainStepCase{"reference", Dtype::kF32},
                                         TrainStepCase{"reference", Dtype::kBF16}),
                         Name);

class Padding : public testing::TestWithParam<std::tuple<TrainStepCase, /*causal*/ bool>> {
 protected:
  struct Result {
    double loss = 0;
    std::vector<double> losses, gradient;  // of each row, of each parameter
  };

  Padding() { Scatter(weights_, 1); }

  static const TrainStepCase& Case() { return std::get<0>(GetParam()); }

  Result Learn(const PaddedBatch& batch) {
    TrainStep train_step(*backend_, weights_, batch.B, batch.T, {.dtype = Case().dtype});
    train_step.pass().set_key_mask(batch.key_mask());
    train_step.Begin();
    Result result;
    train_step.Accumulate(batch.inputs, batch.targets, 0.25, {});
    result.loss = train_step.Losses()[0];
    result.losses = Values(train_step.pass().losses());
    result.gradient = Values(train_step.grads());
    return result;
  }

  std::unique_ptr<Backend> backend_ = MakeBackend(Case().backend);
  GptConfig config_ = [] {
    GptConfig config = TinyConfig();
    config.causal = std::get<1>(GetParam());
    return config;
  }();
  GptWeights weights_{config_, Case().dtype};
  std::vector<std::vector<int32_t>> sequences_ = {RandomTokens(6, 11, 2), RandomTokens(2, 11, 3),
                                                  RandomTokens(4, 11, 4)};
};

TEST_P(Padding, ABatchIsItsSequencesEachByItself) {
  const PaddedBatch padded = PadSequences(sequences_);
  ASSERT_EQ(padded.T, 5);
  EXPECT_EQ(padded.CountTargets(), 5 + 1 + 3);
  const Result all = Learn(padded);
  const bool wide = Case().dtype == Dtype::kF64;
  const double unit = wide ? std::numeric_limits<double>::epsilon()
                           : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double largest = Largest(all.gradient);
  ASSERT_GT(largest, 0.01);
  double loss = 0;
  std::vector<double> gradient(all.gradient.size());
  for (size_t b = 0; b < sequences_.size(); ++b) {
    const Result alone = Learn(PadSequences(std::span(sequences_).subspan(b, 1)));
    loss += alone.loss;
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += alone.gradient[i];
    for (size_t t = 0; t < 5; ++t) {
      const double row = all.losses[b * 5 + t];
      if (t < alone.losses.size()) {
        EXPECT_NEAR(row, alone.losses[t], 16 * unit * (1 + row)) << b << ", " << t;
      } else {
        EXPECT_EQ(row, 0) << b << ", " << t;
      }
    }
  }
  EXPECT_NEAR(all.loss, loss, 16 * unit * loss);
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(all.gradient[i], gradient[i], 32 * unit * largest) << i;
  }
}

TEST_P(Padding, WhatIsThereInsteadOfTokensChangesNoBit) {
  PaddedBatch padded = PadSequences(sequences_, 5);
  const Result zeros = Learn(padded);
  for (size_t i = 0; i < padded.keys.size(); ++i) {
    if (padded.keys[i] == 0) padded.inputs[i] = 7;
  }
  const Result others = Learn(padded);
  EXPECT_EQ(others.losses, zeros.losses);
  EXPECT_EQ(others.gradient, zeros.gradient);
  // It is the mask that hides them from a model that reads both ways.
  std::ranges::fill(padded.keys, uint8_t{1});
  EXPECT_EQ(Learn(padded).loss == zeros.loss, config_.causal);
}

std::string PaddingName(const testing::TestParamInfo<Padding::ParamType>& info) {
  const auto& [train_step, causal] = info.param;
  return Name({train_step, 0}) + (causal ? "" : "_both_ways");
}

INSTANTIATE_TEST_SUITE_P(Backends, Padding,
                         testing::Combine(testing::Values(TrainStepCase{"cpu", Dtype::kF32},
                                                          TrainStepCase{"reference", Dtype::kF64}),
                                          testing::Bool()),
                         PaddingName);

class Accumulation : public testing::TestWithParam<TrainStepCase> {
 protected:
  static constexpr int64_t B = 6, T = 5;

  // Loss, then the gradient, of the whole batch in micro-batches of `part` sequences.
  std::vector<double> Run(int64_t part) {
    const auto backend = MakeBackend(GetParam().backend);
    GptConfig config = TinyConfig();
    for (double GptConfig::*rate : GptConfig::DropoutRates()) {
      config.*rate = GetParam().dropout;
    }
    GptWeights weights(config, GetParam().dtype);
    Scatter(weights, 1);
    const std::vector<int32_t> inputs = RandomTokens(B * T, config.vocab_size, 2);
    const std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
    TrainStep train_step(*backend, weights, part, T, {.dtype = GetParam().dtype},
                         {.micro_batches = B / part});
    train_step.Begin();
    std::vector<double> result(1);
    for (int64_t first = 0; first < B; first += part) {
      const auto piece = [&](const std::vector<int32_t>& x) {
        return std::span(x).subspan(static_cast<size_t>(first * T), static_cast<size_t>(part * T));
      };
      train_step.Accumulate(piece(inputs), piece(targets), 1.0 / (B * T),
                            {.on = true, .seed = 4, .step = 5, .first_sequence = first});
    }
    for (const double loss : train_step.Losses()) result[0] += loss;
    const std::vector<double> gradient = Values(train_step.grads());
    result.insert(result.end(), gradient.begin(), gradient.end());
    return result;
  }
};

TEST_P(Accumulation, HasTheLossAndGradientOfTheOneBigBatch) {
  const std::vector<double> whole = Run(B);
  const double unit = GetParam().dtype == Dtype::kF64 ? std::numeric_limits<double>::epsilon()
                                                      : std::numeric_limits<float>::epsilon();
  const double largest = Largest(std::span(whole).subspan(1));
  ASSERT_GT(largest, 0.01);
  for (const int64_t part : {1, 2, 3}) {
    const std::vector<double> parts = Run(part);
    EXPECT_NEAR(parts[0], whole[0], 8 * unit * whole[0]) << part;
    for (size_t i = 1; i < whole.size(); ++i) {
      // Sums of up to B*T terms, added up in another order.
      ASSERT_NEAR(parts[i], whole[i], unit * (B * T) * largest) << part << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Accumulation,
                         testing::Values(TrainStepCase{"reference", Dtype::kF64, 0},
                                         TrainStepCase{"reference", Dtype::kF64, 0.3},
                                         TrainStepCase{"cpu", Dtype::kF32, 0},
                                         TrainStepCase{"cpu", Dtype::kF32, 0.3}),
                         Name);

TEST(TrainStep, OnlyMatricesDecayAndGapsStayZero) {
  const auto backend = MakeReferenceBackend();
  GptWeights weights(TinyConfig());
  Scatter(weights, 1);
  const std::vector<float> before(Elements<float>(weights.flat()).begin(),
                                  Elements<float>(weights.flat()).end());
  TrainStep train_step(*backend, weights, 1, 1, {}, {}, AdamW{.weight_decay = 0.5});
  train_step.Begin();  // no gradient at all: what changes, decays
  EXPECT_EQ(train_step.Finish(0.1, 1, 1), 0);
  std::vector<bool> covered(before.size());
  for (const ParamInfo& info : weights.table().params()) {
    const float* x = weights.table().View(info, weights.flat()).data<float>();
    for (int64_t i = 0; i < info.shape.count(); ++i) {
      const size_t at = static_cast<size_t>(info.offset + i);
      covered[at] = true;
      ASSERT_FLOAT_EQ(x[i], info.shape.rank() >= 2 ? before[at] * 0.95f : before[at]) << info.name;
    }
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    if (!covered[i]) {
      ASSERT_EQ(weights.flat().data<float>()[i], 0);
    }
  }
}

TEST(TrainStep, FinishTellsTheLengthBeforeClipping) {
  const auto backend = MakeReferenceBackend();
  GptWeights weights(TinyConfig());
  Scatter(weights, 1);
  TrainStep train_step(*backend, weights, 1, 5);
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  train_step.Begin();
  train_step.Accumulate(ids, ids, 1, {});
  double sum = 0;
  for (float g : Elements<float>(train_step.grads())) sum += static_cast<double>(g) * g;
  const double norm = train_step.Finish(0.1, 1e-3, 1);
  EXPECT_NEAR(norm, std::sqrt(sum), 1e-9 * norm);
  double clipped = 0;  // m is (1 - beta1) times the clipped gradient
  for (float m : Elements<float>(train_step.optimizer().State()[0].tensor))
    clipped += 100.0 * m * m;
  EXPECT_NEAR(std::sqrt(clipped), 1e-3, 1e-6);
}

TEST(TrainStep, ThePlanIsWhatIsAllocated) {
  GptConfig config = TinyConfig();
  const MemoryPlan plan = TrainStep::Plan(config, 3, 4);
  const MemoryPlan pass = GptPass::Plan(config, 3, 4, PassKind::kTraining);
  EXPECT_GE(plan.arena_bytes(),
            pass.arena_bytes() + 16 * static_cast<size_t>(ParamTable(config).flat_size()));
  EXPECT_EQ(plan.buffers().size(), pass.buffers().size() + 4);
}

TEST(TrainStep, Bf16AndRecomputationTakeLessMemory) {
  const GptConfig gpt2;
  constexpr int64_t B = 4, T = 1024;
  const double layers = 12, N = 4096, C = 768;
  const RecomputeBytes wide = CompareRecompute(gpt2, B, T, {});
  const RecomputeBytes half = CompareRecompute(gpt2, B, T, {.dtype = Dtype::kBF16});
  const MemoryPlan plan = TrainStep::Plan(gpt2, B, T, {.dtype = Dtype::kBF16});
  EXPECT_EQ(half.without, plan.arena_bytes());
  for (const MemoryPlan::Buffer& buffer : plan.buffers().first(4)) {  // of the parameters
    EXPECT_EQ(buffer.dtype, Dtype::kF32) << buffer.name;
  }
  EXPECT_LT(half.without, 3.7e9);
  EXPECT_LT(half.without, wide.without - 0.8e9);
  // Two norms and act of each layer, but for what the backward holds of one.
  for (const auto& [bytes, size] : {std::pair{wide, 4.0}, std::pair{half, 2.0}}) {
    EXPECT_GT(static_cast<double>(bytes.saved()), (layers - 1) * N * 6 * C * size * 0.98);
    EXPECT_LT(static_cast<double>(bytes.saved()), layers * N * 6 * C * size * 1.02);
  }
}

TEST(TrainStep, RefusesWeightsOfAnotherDtype) {
  const auto backend = MakeReferenceBackend();
  GptWeights weights(TinyConfig());
  EXPECT_DEATH(TrainStep(*backend, weights, 1, 1, {.dtype = Dtype::kF64}), "another dtype");
}

// An update is of one group: were a bucket of two, biases would decay, or matrices would not.
TEST(ParamGroups, NoBucketIsOfTwo) {
  GptConfig config = TinyConfig();
  config.tie_word_embeddings = false;
  const ParamTable table(config);
  std::set<ParamGroup> seen;
  for (const ShardBucket& bucket : BucketsOf(table)) {
    std::set<ParamGroup> groups;
    for (const ParamInfo& info : table.params()) {
      if (bucket.begin <= info.offset && info.offset < bucket.end) groups.insert(info.group);
    }
    EXPECT_EQ(groups.size(), 1u) << bucket.begin;
    seen.merge(groups);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(ClipScale, ShortensOnlyWhatIsTooLong) {
  EXPECT_EQ(ClipScale(0.5, 1), 1);
  EXPECT_EQ(ClipScale(1, 1), 1);
  EXPECT_EQ(ClipScale(100, 0), 1);
  EXPECT_EQ(ClipScale(0, 1), 1);
  EXPECT_NEAR(ClipScale(4, 1), 0.25, 1e-6);
  for (const double norm : {1 + 1e-15, 1.1, 3.0, 1e9}) {
    EXPECT_LE(ClipScale(norm, 1) * norm, 1) << norm;
    EXPECT_GT(ClipScale(norm, 1) * norm, 1 - 2e-6) << norm;
  }
}

}  // namespace
}  // namespace folio
