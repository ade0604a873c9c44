#include "folio/train/learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/model/init.h"
#include "folio/model/test_models.h"

namespace folio {
namespace {

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

class Overfitting : public testing::TestWithParam<std::string> {};

TEST_P(Overfitting, OneBatchIsLearntByHeart) {
  const auto backend = MakeBackend(GetParam());
  GptConfig config = TinyConfig();
  config.n_embd = 16;
  GptWeights weights(config);
  InitWeights(weights, 1);
  constexpr int64_t B = 3, T = 5;
  const double scale = 1.0 / (B * T);
  Learner learner(*backend, weights, B, T);
  std::vector<int32_t> inputs = RandomTokens(B * T, config.vocab_size, 2);
  for (int32_t b = 0; b < B; ++b) inputs[static_cast<size_t>(b) * T] = b;  // no equal prefixes
  const std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
  double loss = 0;
  for (int64_t step = 1; step <= 200; ++step) {
    learner.Begin();
    loss = scale * learner.Accumulate(inputs, targets, scale, {});
    if (step == 1) {
      EXPECT_NEAR(loss, std::log(11.0), 0.1);
    }
    learner.Finish({}, 1e-2, 1, step);
  }
  EXPECT_LT(loss, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Backends, Overfitting, testing::Values("cpu", "reference"));

struct Case {
  std::string backend;
  Dtype dtype;
  double dropout;
};

std::string Name(const testing::TestParamInfo<Case>& info) {
  return info.param.backend + (info.param.dtype == Dtype::kF64 ? "_f64" : "_f32") +
         (info.param.dropout > 0 ? "_dropout" : "");
}

class Accumulation : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t B = 6, T = 5;

  // Loss, then the gradient, of the whole batch in micro-batches of `part` sequences.
  std::vector<double> Run(int64_t part) {
    const auto backend = MakeBackend(GetParam().backend);
    GptConfig config = TinyConfig();
    config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = GetParam().dropout;
    GptWeights weights(config, GetParam().dtype);
    Scatter(weights, 1);
    const std::vector<int32_t> inputs = RandomTokens(B * T, config.vocab_size, 2);
    const std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
    Learner learner(*backend, weights, part, T);
    learner.Begin();
    std::vector<double> result(1);
    for (int64_t first = 0; first < B; first += part) {
      const auto piece = [&](const std::vector<int32_t>& x) {
        return std::span(x).subspan(static_cast<size_t>(first * T), static_cast<size_t>(part * T));
      };
      result[0] += learner.Accumulate(piece(inputs), piece(targets), 1.0 / (B * T),
                                      {.on = true, .seed = 4, .step = 5, .first_sequence = first});
    }
    for (int64_t i = 0; i < learner.grads().count(); ++i) {
      result.push_back(GetParam().dtype == Dtype::kF64 ? learner.grads().data<double>()[i]
                                                       : learner.grads().data<float>()[i]);
    }
    return result;
  }
};

TEST_P(Accumulation, HasTheLossAndGradientOfTheOneBigBatch) {
  const std::vector<double> whole = Run(B);
  const double unit = GetParam().dtype == Dtype::kF64 ? std::numeric_limits<double>::epsilon()
                                                      : std::numeric_limits<float>::epsilon();
  double largest = 0;
  for (size_t i = 1; i < whole.size(); ++i) largest = std::max(largest, std::abs(whole[i]));
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
                         testing::Values(Case{"reference", Dtype::kF64, 0},
                                         Case{"reference", Dtype::kF64, 0.3},
                                         Case{"cpu", Dtype::kF32, 0},
                                         Case{"cpu", Dtype::kF32, 0.3}),
                         Name);

TEST(Learner, OnlyMatricesDecayAndGapsStayZero) {
  const auto backend = MakeReferenceBackend();
  GptWeights weights(TinyConfig());
  Scatter(weights, 1);
  const std::vector<float> before(Elements<float>(weights.flat()).begin(),
                                  Elements<float>(weights.flat()).end());
  Learner learner(*backend, weights, 1, 1);
  learner.Begin();  // no gradient at all: what changes, decays
  EXPECT_EQ(learner.Finish({.weight_decay = 0.5}, 0.1, 1, 1), 0);
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

TEST(Learner, FinishTellsTheLengthBeforeClipping) {
  const auto backend = MakeReferenceBackend();
  GptWeights weights(TinyConfig());
  Scatter(weights, 1);
  Learner learner(*backend, weights, 1, 5);
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  learner.Begin();
  learner.Accumulate(ids, ids, 1, {});
  double sum = 0;
  for (float g : Elements<float>(learner.grads())) sum += static_cast<double>(g) * g;
  const double norm = learner.Finish({}, 0.1, 1e-3, 1);
  EXPECT_NEAR(norm, std::sqrt(sum), 1e-9 * norm);
  double clipped = 0;  // m is (1 - beta1) times the clipped gradient
  for (float m : Elements<float>(learner.optimizer().m())) clipped += 100.0 * m * m;
  EXPECT_NEAR(std::sqrt(clipped), 1e-3, 1e-6);
}

TEST(Learner, ThePlanIsWhatIsAllocated) {
  GptConfig config = TinyConfig();
  const MemoryPlan plan = Learner::Plan(config, 3, 4, Dtype::kF32);
  const MemoryPlan pass = GptPass::Plan(config, 3, 4, PassKind::kTraining, Dtype::kF32);
  EXPECT_GE(plan.arena_bytes(),
            pass.arena_bytes() + 16 * static_cast<size_t>(ParamTable(config).flat_size()));
  EXPECT_EQ(plan.buffers().size(), pass.buffers().size() + 4);
}

}  // namespace
}  // namespace folio
