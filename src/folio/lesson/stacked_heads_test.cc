#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention.h"

namespace folio {
namespace {

struct Stack {
  Stack(const AttentionSizes& sizes, int64_t heads, Dtype dtype) {
    for (int64_t h = 0; h < heads; ++h) {
      weights.emplace_back(sizes, dtype);
      gradients.emplace_back(sizes, dtype);
      Scatter(weights.back(), static_cast<uint64_t>(h));
    }
  }
  std::vector<AttentionWeights> weights, gradients;
};

TEST(JoinHeads, PutsColumnsSideBySide) {
  const AttentionSizes sizes = {.d_in = 2, .d_out = 2, .bias = true};
  std::vector<AttentionWeights> heads;
  for (const double h : {1, 2, 3}) {
    heads.emplace_back(sizes);
    const AttentionParams& p = heads.back().params();
    Assign(p.q.weight, std::vector{h, h + 0.1, h + 0.2, h + 0.3});
    Assign(p.v.bias, std::vector{10 * h, 10 * h + 1});
  }
  const AttentionWeights joined = JoinHeads(heads);
  EXPECT_EQ(joined.sizes().H, 3);
  EXPECT_EQ(joined.sizes().d_out, 6);
  EXPECT_EQ(joined.sizes().head_size(), 2);
  EXPECT_FALSE(joined.sizes().out_proj);
  const std::vector<double> expected = {1, 1.1, 2, 2.1, 3, 3.1, 1.2, 1.3, 2.2, 2.3, 3.2, 3.3};
  EXPECT_LE(Difference(Values(joined.params().q.weight), expected), 1e-6);
  EXPECT_EQ(Values(joined.params().v.bias), (std::vector<double>{10, 11, 20, 21, 30, 31}));
}

class StackedHeadsAre : public testing::TestWithParam<std::string> {};

// One layer split into heads, of the joined weights: results, gradients, and every head's weights.
TEST_P(StackedHeadsAre, OneSplitLayer) {
  const auto backend = MakeBackend(GetParam());
  struct Case {
    AttentionSizes sizes;
    int64_t heads, B, T;
  };
  for (const auto& [sizes, heads, B, T] : {Case{{.d_in = 3, .d_out = 2}, 2, 2, 6},
                                           Case{{.d_in = 5, .d_out = 7, .bias = true}, 3, 1, 5},
                                           Case{{.d_in = 1, .d_out = 1}, 1, 1, 1},
                                           Case{{.d_in = 7, .d_out = 1, .bias = true}, 5, 3, 2}}) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
      if (!backend->Supports(dtype)) continue;
      SCOPED_TRACE(testing::Message() << heads << " heads of " << sizes.d_out);
      const Stack stack(sizes, heads, dtype);
      const AttentionWeights joined = JoinHeads(stack.weights);
      const AttentionWeights d_joined(joined.sizes(), dtype);
      const Shape in = {B * T, sizes.d_in}, out = {B * T, heads * sizes.d_out};
      const Array x = RandomArray(in, 50, dtype), d_out = RandomArray(out, 51, dtype);
      const Array d_x(in, dtype), d_x_split(in, dtype);

      std::vector<StepwiseAttention> stacked = StackedHeads(*backend, sizes, heads, B, T, dtype);
      EXPECT_EQ(std::ssize(stacked), heads);
      StepwiseAttention split = MultiHeadAttention(*backend, joined.sizes(), B, T, T,
                                                   {.mask = AttentionMask::Causal(T, T)}, dtype);
      std::vector<double> d_x_sum(static_cast<size_t>(B * T * sizes.d_in));
      for (int64_t h = 0; h < heads; ++h) {
        const auto at = static_cast<size_t>(h);
        const Array d_head({B * T, sizes.d_out}, dtype);
        CopyColumns(d_out, h * sizes.d_out, d_head, 0, sizes.d_out);
        stacked[at].Forward(stack.weights[at].params(), x);
        stacked[at].Backward(stack.weights[at].params(), x, d_head, stack.gradients[at].params(),
                             d_x);
        const std::vector<double> part = d_x.values();
        for (size_t i = 0; i < part.size(); ++i) d_x_sum[i] += part[i];
      }
      const StepTensor side_by_side = SideBySide(stacked);
      EXPECT_EQ(side_by_side.tensor().shape(), out);
      Results found = {{"out", Values(side_by_side.tensor())}, {"d_x", d_x_sum}};
      Results expected = {{"out", Values(split.Forward(joined.params(), x))}};
      split.Backward(joined.params(), x, d_out, d_joined.params(), d_x_split);
      expected["d_x"] = d_x_split.values();
      const AttentionWeights d_stacked = JoinHeads(stack.gradients);
      for (const auto& [name, d] : Named(d_stacked.params())) found[name] = Values(d);
      for (const auto& [name, d] : Named(d_joined.params())) expected[name] = Values(d);
      // Gradients of biases of keys are sums that cancel.
      found.erase("k.bias");
      expected.erase("k.bias");
      if (T == 1) {  // where no score has a gradient
        for (const char* name : {"q.weight", "q.bias", "k.weight"}) {
          found.erase(name);
          expected.erase(name);
        }
      }
      ExpectClose(found, expected, dtype == Dtype::kF64 ? 1e-13 : 4e-6);

      const std::vector<double> weights = Values(split.steps().weights);
      for (int64_t h = 0; h < heads; ++h) {
        const std::vector<double> own = Values(stacked[static_cast<size_t>(h)].steps().weights);
        for (int64_t i = 0; i < B * T * T; ++i) {
          const int64_t b = i / (T * T);
          EXPECT_NEAR(own[size_t(i)], weights[size_t((b * heads + h) * T * T + i % (T * T))], 1e-6);
        }
      }
    }
  }
}

TEST_P(StackedHeadsAre, AtLeastOne) {
  const auto backend = MakeBackend(GetParam());
  EXPECT_THROW(StackedHeads(*backend, {.d_in = 3, .d_out = 2}, 0, 1, 1), Error);
  EXPECT_THROW(StackedHeads(*backend, {.d_in = 3, .d_out = 2}, -1, 1, 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Backends, StackedHeadsAre, testing::Values("reference", "cpu"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace folio
