#include <gtest/gtest.h>

#include "folio/base/torch_rng.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention.h"

namespace folio {
namespace {

// "Your journey starts with one step", three numbers a word.
const std::vector<double> kJourney = {0.43, 0.15, 0.89, 0.55, 0.87, 0.66, 0.57, 0.85, 0.64,
                                      0.22, 0.58, 0.33, 0.77, 0.25, 0.10, 0.05, 0.80, 0.55};

std::vector<double> Row(const Tensor& x, int64_t row, int64_t width) {
  const std::vector<double> values = Values(x);
  return {values.begin() + row * width, values.begin() + (row + 1) * width};
}

// Half a unit of the fourth decimal place.
constexpr double kFourDigits = 0.5e-4 * (1 + 1e-3);

class SimpleAttentionNumbers : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
  Array x_{{6, 3}, Dtype::kF32, kJourney};
};

TEST_P(SimpleAttentionNumbers, OfTheSecondWord) {
  StepwiseAttention attention = SimpleAttention(*backend_, 1, 6, 3);
  attention.Forward({}, x_);
  const AttentionSteps& steps = attention.steps();
  EXPECT_LE(Difference(Row(steps.scores, 1, 6),
                       std::vector{0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865}),
            kFourDigits);
  EXPECT_LE(Difference(Row(steps.weights, 1, 6),
                       std::vector{0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581}),
            kFourDigits);
  EXPECT_LE(Difference(Row(steps.context, 1, 3), std::vector{0.4419, 0.6515, 0.5683}), kFourDigits);
}

TEST_P(SimpleAttentionNumbers, OfEachWeighting) {
  const auto weights_of = [&](Weighting weighting) {
    StepwiseAttention attention = SimpleAttention(*backend_, 1, 6, 3, weighting);
    attention.Forward({}, x_);
    return Values(attention.steps().weights);
  };
  // Nothing here is large enough for the naive formula to overflow.
  const std::vector<double> softmax = weights_of(Weighting::kSoftmax);
  EXPECT_LE(Difference(weights_of(Weighting::kNaiveSoftmax), softmax), 1e-6);
  const std::vector<double> scores = weights_of(Weighting::kNone);
  const std::vector<double> shares = weights_of(Weighting::kSum);
  for (size_t t = 0; t < 6; ++t) {
    double score_sum = 0, share_sum = 0, softmax_sum = 0;
    for (size_t s = 0; s < 6; ++s) {
      double score = 0;
      for (size_t d = 0; d < 3; ++d) score += kJourney[t * 3 + d] * kJourney[s * 3 + d];
      EXPECT_NEAR(scores[t * 6 + s], score, 1e-6);
      score_sum += score;
      share_sum += shares[t * 6 + s];
      softmax_sum += softmax[t * 6 + s];
    }
    EXPECT_NEAR(share_sum, 1, 1e-6);
    EXPECT_NEAR(softmax_sum, 1, 1e-6);
    EXPECT_NEAR(shares[t * 6 + t], scores[t * 6 + t] / score_sum, 1e-6);
  }
  EXPECT_GT(Difference(shares, softmax), 0.01);
}

TEST_P(SimpleAttentionNumbers, OfSequencesDoNotMix) {
  std::vector<double> twice = kJourney;
  const std::vector<double> other = RandomValues(18, 1);
  twice.insert(twice.end(), other.begin(), other.end());
  StepwiseAttention one = SimpleAttention(*backend_, 1, 6, 3);
  StepwiseAttention two = SimpleAttention(*backend_, 2, 6, 3);
  const std::vector<double> alone = Values(one.Forward({}, x_));
  std::vector<double> first = Values(two.Forward({}, Array({12, 3}, Dtype::kF32, twice)));
  first.resize(18);
  EXPECT_LE(Difference(first, alone), 1e-7);
}

// A lone token attends to itself alone.
TEST_P(SimpleAttentionNumbers, OfOneToken) {
  StepwiseAttention attention = SimpleAttention(*backend_, 1, 1, 5);
  const Array x = RandomArray({1, 5}, 3, Dtype::kF32), d = RandomArray({1, 5}, 4, Dtype::kF32);
  const Array d_x({1, 5}, Dtype::kF32);
  EXPECT_EQ(Values(attention.Forward({}, x)), x.values());
  EXPECT_EQ(Values(attention.steps().weights), std::vector{1.0});
  attention.Backward({}, x, d, {}, d_x);
  EXPECT_EQ(d_x.values(), d.values());
}

TEST_P(SimpleAttentionNumbers, OfTheSoftmaxOfTenTwentyThirty) {
  const Array out({1, 3}, Dtype::kF32);
  const auto softmax = [&](double scale) {
    const Array x({1, 3}, Dtype::kF32, std::vector{10 * scale, 20 * scale, 30 * scale});
    Softmax(x, out);
    return out.values();
  };
  const std::vector<double> plain = softmax(1);
  EXPECT_NEAR(plain[0], 2.0611e-09, 0.5e-13);
  EXPECT_NEAR(plain[1], 4.5398e-05, 0.5e-9);
  EXPECT_NEAR(plain[2], 9.9995e-01, 0.5e-5);
  EXPECT_LE(Difference(softmax(1 / std::sqrt(512.0)), std::vector{0.2010, 0.3126, 0.4864}),
            kFourDigits);
}

// A query that matches the first and the third of three entries.
TEST_P(SimpleAttentionNumbers, OfALookUp) {
  const Array q({1, 2}, Dtype::kF32, std::vector{1.0, 0.0});
  const Array k({3, 2}, Dtype::kF32, std::vector{1.0, 0.0, 0.0, 1.0, 1.0, 1.0});
  const Array v({3, 2}, Dtype::kF32, std::vector{0.1, 0.9, 0.2, 0.8, 0.3, 0.7});
  StepwiseAttention attention = DotProductAttention(*backend_, 1, 1, 2, 1, 1, 3, {.scale = 1.0});
  attention.Forward({}, q, k, v);
  EXPECT_EQ(Values(attention.steps().scores), (std::vector{1.0, 0.0, 1.0}));
  const double e = std::exp(1.0), sum = 2 * e + 1;
  EXPECT_LE(Difference(Values(attention.steps().weights), std::vector{e / sum, 1 / sum, e / sum}),
            1e-6);
  EXPECT_LE(Difference(Values(attention.steps().context), std::vector{0.2, 0.8}), 1e-6);
}

// Sums of 512 products of unit normal numbers have the variance 512; the fourth moment of such a
// product is 9, so the variance of n sums is off by sqrt((2 + 6/512) / n) of itself on average.
TEST_P(SimpleAttentionNumbers, OfLongKeysNeedTheirScale) {
  constexpr int64_t kPairs = 1000, D = 512;
  static const std::vector<float> normals = [] {
    std::vector<float> drawn(2 * kPairs * D);
    TorchRng(123).Normal(drawn, 0, 1);
    return drawn;
  }();
  const Tensor all(const_cast<float*>(normals.data()), {2 * kPairs, D});
  const Tensor queries = all.Slice(0, kPairs), keys = all.Slice(kPairs, 2 * kPairs);
  const double bound = 5 * std::sqrt((2 + 6.0 / D) / kPairs);
  for (const auto& [scale, expected] :
       {std::pair{std::optional(1.0), 512.0}, std::pair{std::optional<double>(), 1.0}}) {
    StepwiseAttention attention =
        DotProductAttention(*backend_, 1, 1, D, kPairs, 1, 1, {.scale = scale});
    attention.Forward({}, queries, keys, keys);
    const std::vector<double> scores = Values(attention.steps().scores);
    EXPECT_NEAR(Dot(scores, scores) / kPairs / expected, 1, bound) << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SimpleAttentionNumbers, testing::Values("reference", "cpu"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace folio
