#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention.h"

namespace folio {
namespace {

// x (N,I) times a stored (I,O) weight, plus the bias if there is one.
std::vector<double> Project(const std::vector<double>& x, const LinearParams& layer) {
  const size_t I = static_cast<size_t>(layer.weight.dim(0));
  const size_t O = static_cast<size_t>(layer.weight.dim(1)), N = x.size() / I;
  const std::vector<double> weight = Values(layer.weight);
  std::vector<double> out(N * O);
  for (size_t n = 0; n < N; ++n) {
    for (size_t o = 0; o < O; ++o) {
      if (layer.bias) out[n * O + o] = Values(layer.bias)[o];
      for (size_t i = 0; i < I; ++i) out[n * O + o] += x[n * I + i] * weight[i * O + o];
    }
  }
  return out;
}

// softmax(q k^T / sqrt(D)) v in loops, each of B sequences of T tokens.
Results Plain(const std::vector<double>& x, const AttentionParams& params, size_t B, size_t T) {
  Results r = {
      {"q", Project(x, params.q)}, {"k", Project(x, params.k)}, {"v", Project(x, params.v)}};
  const size_t D = r["q"].size() / (B * T);
  r["weights"].resize(B * T * T), r["context"].resize(B * T * D);
  for (size_t row = 0; row < B * T; ++row) {
    const size_t first = row / T * T;
    double sum = 0;
    for (size_t s = 0; s < T; ++s) {
      double score = 0;
      for (size_t d = 0; d < D; ++d) score += r["q"][row * D + d] * r["k"][(first + s) * D + d];
      sum += r["weights"][row * T + s] = std::exp(score / std::sqrt(static_cast<double>(D)));
    }
    for (size_t s = 0; s < T; ++s) {
      const double weight = r["weights"][row * T + s] /= sum;
      for (size_t d = 0; d < D; ++d) {
        r["context"][row * D + d] += weight * r["v"][(first + s) * D + d];
      }
    }
  }
  return r;
}

TEST(SelfAttention, IsProjectionsScoresSoftmaxAndSum) {
  struct Sizes {
    int64_t B, T, d_in, d_out;
  };
  for (const auto& [B, T, d_in, d_out] :
       {Sizes{1, 1, 1, 1}, Sizes{1, 6, 3, 2}, Sizes{3, 5, 2, 7}, Sizes{2, 17, 13, 11}}) {
    for (const bool bias : {false, true}) {
      const AttentionSizes sizes = {.d_in = d_in, .d_out = d_out, .bias = bias};
      for (const auto& [name, dtype, bound] :
           {std::tuple{"reference", Dtype::kF64, 1e-13}, std::tuple{"reference", Dtype::kF32, 4e-6},
            std::tuple{"cpu", Dtype::kF32, 4e-6}}) {
        SCOPED_TRACE(testing::Message() << name << ", T " << T << ", bias " << bias);
        const auto backend = MakeBackend(name);
        const AttentionWeights weights(sizes, dtype);
        Scatter(weights, 1);
        const Array x = RandomArray({B * T, d_in}, 2, dtype);
        StepwiseAttention attention = SelfAttention(*backend, sizes, B, T, {}, dtype);
        const Tensor& context = attention.Forward(weights.params(), x);
        EXPECT_EQ(context.shape(), (Shape{B * T, d_out}));
        EXPECT_EQ(attention.steps().weights.shape(), (Shape{B, 1, T, T}));
        ExpectClose({{"q", Values(attention.q())},
                     {"k", Values(attention.k())},
                     {"v", Values(attention.v())},
                     {"weights", Values(attention.steps().weights)},
                     {"context", Values(context)}},
                    Plain(x.values(), weights.params(), size_t(B), size_t(T)), bound);
      }
    }
  }
}

TEST(SelfAttention, TakesOptions) {
  const auto backend = MakeBackend("cpu");
  const AttentionSizes sizes = {.d_in = 3, .d_out = 2};
  StepwiseAttention attention =
      SelfAttention(*backend, sizes, 1, 4, {.weighting = Weighting::kNone});
  const AttentionWeights weights(sizes);
  Scatter(weights, 1);
  const Array x = RandomArray({4, 3}, 2, Dtype::kF32);
  attention.Forward(weights.params(), x);
  EXPECT_EQ(attention.steps().weights.raw(), attention.steps().scores.raw());
  attention.options().weighting = Weighting::kSoftmax;
  attention.Forward(weights.params(), x);
  EXPECT_NE(attention.steps().weights.raw(), attention.steps().scores.raw());
}

TEST(SelfAttention, RefusesSizesOfNothing) {
  const auto backend = MakeBackend("cpu");
  EXPECT_THROW(SelfAttention(*backend, {.d_in = 3, .d_out = 0}, 1, 4), Error);
  EXPECT_THROW(SelfAttention(*backend, {.d_in = 0, .d_out = 2}, 1, 4), Error);
}

}  // namespace
}  // namespace folio
