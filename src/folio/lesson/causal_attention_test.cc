#include <gtest/gtest.h>

#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention.h"

namespace folio {
namespace {

constexpr MaskOrder kOrders[] = {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax};

class CausalHead : public testing::TestWithParam<std::string> {
 protected:
  CausalHead() { Scatter(weights_, 1); }

  Array Input(int64_t rows, uint64_t seed = 2) const {
    return RandomArray({rows, sizes_.d_in}, seed, Dtype::kF32);
  }

  const AttentionSizes sizes_ = {.d_in = 5, .d_out = 3, .bias = true};
  const AttentionWeights weights_{sizes_};
  const std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

TEST_P(CausalHead, NoTokenSeesALaterOne) {
  constexpr int64_t B = 2, T = 7, kChanged = 4;
  for (const MaskOrder order : kOrders) {
    StepwiseAttention attention = CausalAttention(*backend_, sizes_, B, T, order);
    const Array x = Input(B * T);
    const std::vector<double> before = Values(attention.Forward(weights_.params(), x));
    const std::vector<double> weights = Values(attention.steps().weights);
    for (int64_t i = 0; i < B * T * T; ++i) {
      const int64_t t = i / T % T, s = i % T;
      EXPECT_EQ(weights[size_t(i)] > 0, s <= t) << t << " sees " << s;
    }
    static_cast<const Tensor&>(x).data<float>()[kChanged * sizes_.d_in] += 1;
    const std::vector<double> after = Values(attention.Forward(weights_.params(), x));
    for (int64_t i = 0; i < B * T * sizes_.d_out; ++i) {
      const int64_t row = i / sizes_.d_out;
      const double change = std::abs(before[size_t(i)] - after[size_t(i)]);
      // Renormalising takes off again, up to rounding, what later tokens added to a row's sum.
      EXPECT_EQ(change > (order == MaskOrder::kAfterSoftmax ? 2e-6 : 0), row >= kChanged && row < T)
          << row;
    }
  }
}

TEST_P(CausalHead, BothOrdersOfMaskingAgree) {
  for (const auto& [B, T] : {std::pair{1, 1}, std::pair{2, 5}, std::pair{1, 33}}) {
    StepwiseAttention before = CausalAttention(*backend_, sizes_, B, T);
    StepwiseAttention after = CausalAttention(*backend_, sizes_, B, T, kOrders[1]);
    const Array x = Input(B * T), d = RandomArray({B * T, sizes_.d_out}, 3, Dtype::kF32);
    const Array d_x_before({B * T, sizes_.d_in}, Dtype::kF32);
    const Array d_x_after({B * T, sizes_.d_in}, Dtype::kF32);
    const AttentionWeights d_before(sizes_), d_after(sizes_);
    const std::vector<double> context = Values(before.Forward(weights_.params(), x));
    before.Backward(weights_.params(), x, d, d_before.params(), d_x_before);
    EXPECT_LE(Difference(Values(after.Forward(weights_.params(), x)), context), 2e-6);
    after.Backward(weights_.params(), x, d, d_after.params(), d_x_after);
    EXPECT_LE(Difference(Values(after.steps().weights), Values(before.steps().weights)), 1e-6);
    // Unmasked softmax rows are another step of the way.
    if (T > 1) {
      EXPECT_GT(Difference(Values(after.steps().softmax), Values(before.steps().softmax)), 0.1);
    }
    EXPECT_LE(Difference(d_x_before.values(), d_x_after.values()),
              4e-6 * std::max(1.0, Largest(d_x_before.values())));
    const auto grads_before = Named(d_before.params()), grads_after = Named(d_after.params());
    for (size_t i = 0; i < grads_before.size(); ++i) {
      const std::vector<double> values = Values(grads_before[i].second);
      EXPECT_LE(Difference(values, Values(grads_after[i].second)),
                1e-5 * std::max(1.0, Largest(values)))
          << grads_before[i].first;
    }
  }
}

TEST_P(CausalHead, DropoutLeavesTheContextAloneOnAverage) {
  constexpr int64_t T = 4;
  constexpr double p = 0.25;
  constexpr int kDraws = 400;
  StepwiseAttention attention = CausalAttention(*backend_, sizes_, 1, T);
  const Array x = Input(T);
  const std::vector<double> plain = Values(attention.Forward(weights_.params(), x));
  const std::vector<double> weights = Values(attention.steps().weights);
  const double largest_v = Largest(Values(attention.v()));
  std::vector<double> mean(plain.size());
  int changed = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    attention.options().dropout = {.p = p, .seed = 1, .stream = static_cast<uint64_t>(draw)};
    const std::vector<double> context = Values(attention.Forward(weights_.params(), x));
    changed += context != plain;
    EXPECT_EQ(Values(attention.steps().weights), weights);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += context[i] / kDraws;
  }
  EXPECT_GT(changed, kDraws / 2);
  // Each of at most T terms, none larger than largest_v, has the variance p / (1 - p) of its
  // square; their weights add up to 1.
  EXPECT_LE(Difference(mean, plain), 5 * largest_v * std::sqrt(p / (1 - p) / kDraws));
  attention.options().dropout = {};
  EXPECT_EQ(Values(attention.Forward(weights_.params(), x)), plain);
}

INSTANTIATE_TEST_SUITE_P(Backends, CausalHead, testing::Values("reference", "cpu"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace folio
