// Values of the steps of attention that are known without them, and operands that they refuse.

#include "folio/lesson/attention_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "folio/backend/reference/operations.h"
#include "folio/lesson/attention_step_templates.h"
#include "folio/lesson/test_attention.h"

namespace folio::steps {
namespace {

using Real = std::vector<double>;

// Four heads of queries, two of keys: the first pair of heads sees key head 0, the second 1.
constexpr HeadSizes kGrouped = {.B = 1, .T = 1, .S = 2, .H = 4, .G = 2, .D = 1};

TEST(AttentionStep, ConsecutiveHeadsShareAHeadOfKeysAndValues) {
  const Real q = {1, 2, 3, 4}, k = {1, 10, 2, 20};
  Real scores(8);
  Products(kGrouped, q.data(), k.data(), 0.5, scores.data());
  EXPECT_EQ(scores, Real({0.5, 1, 1, 2, 15, 30, 20, 40}));

  const Real weights = {1, 0, 0, 1, 1, 0, 0.5, 0.5}, v = {3, 4, 5, 6};
  Real out(4);
  SumOverKeys(kGrouped, weights.data(), v.data(), 1, out.data());
  EXPECT_EQ(out, Real({3, 5, 4, 5}));

  // With one key, the whole of attention gives each head its value.
  const reference::AttentionShape one = {{.B = 1, .T = 1, .S = 1, .H = 4, .G = 2, .D = 1}};
  Real lse(4);
  reference::AttentionForward<double>(one, {q.data(), 4, 4}, {k.data(), 2, 2}, {v.data(), 2, 2},
                                      {out.data(), 4, 4}, lse.data(), nullptr);
  EXPECT_EQ(out, Real({3, 3, 4, 4}));
  EXPECT_EQ(lse, Real({1, 2, 30, 40}));
}

TEST(AttentionStep, MaskOfOneHeadServesAll) {
  const Real x = {1, 2, 3, 4, 5, 6, 7, 8};         // B = H = 2, two scores each
  const std::vector<uint8_t> mask = {1, 0, 0, 7};  // of B = 2
  Real out(8);
  Mask(x.data(), mask.data(), out.data(), 2, 2, 2, 1, 2, -INFINITY);
  EXPECT_EQ(out, Real({1, -INFINITY, 3, -INFINITY, -INFINITY, 6, -INFINITY, 8}));
  Mask(x.data(), mask.data(), out.data(), 2, 2, 1, 2, 2, 0);  // of H = 2
  EXPECT_EQ(out, Real({1, 0, 0, 4, 5, 0, 0, 8}));
}

// softmax(log a) is a / sum of a.
TEST(AttentionStep, SoftmaxOfLogarithms) {
  const Real x = {std::log(1.0), std::log(2.0), std::log(5.0)};
  for (const bool naive : {false, true}) {
    Real out(3);
    naive ? NaiveSoftmax(x.data(), out.data(), 1, 3) : Softmax(x.data(), out.data(), 1, 3);
    EXPECT_NEAR(out[0], 0.125, 1e-15);
    EXPECT_NEAR(out[1], 0.25, 1e-15);
    EXPECT_NEAR(out[2], 0.625, 1e-15);
  }
}

TEST(AttentionStep, RowsWithNothingGiveZeros) {
  const Real x(2, -INFINITY), zeros(2), ones(2, 1.0);
  Real out(2, 7.0), d_x(2, 7.0), sums(1, 7.0);
  Softmax(x.data(), out.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  SoftmaxBackward(out.data(), ones.data(), d_x.data(), 1, 2);
  EXPECT_EQ(d_x, zeros);
  out = {7, 7};
  NaiveSoftmax(x.data(), out.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  out = d_x = {7, 7};
  Normalize(zeros.data(), out.data(), sums.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  EXPECT_EQ(sums[0], 0);
  NormalizeBackward(out.data(), sums.data(), ones.data(), d_x.data(), 1, 2);
  EXPECT_EQ(d_x, zeros);
}

TEST(AttentionStep, NormalizeDividesByTheSum) {
  const Real x = {1, 3, 4, 2, 0, 0};
  Real out(6), sums(2);
  Normalize(x.data(), out.data(), sums.data(), 2, 3);
  EXPECT_EQ(out, Real({0.125, 0.375, 0.5, 1, 0, 0}));
  EXPECT_EQ(sums, Real({8, 2}));
}

// In float32 exp(89) is too large.
TEST(AttentionStep, NaiveSoftmaxOverflowsAndTheOtherDoesNot) {
  using Single = std::vector<float>;
  Single out(3);
  NaiveSoftmax(Single({88, 88, 80}).data(), out.data(), 1, 3);
  EXPECT_NEAR(out[0], 0.49992, 1e-4);
  NaiveSoftmax(Single({89, 89, 1}).data(), out.data(), 1, 3);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_EQ(out[2], 0);  // something by infinity
  Softmax(Single({89, 89, -std::numeric_limits<float>::infinity()}).data(), out.data(), 1, 3);
  EXPECT_EQ(out, Single({0.5, 0.5, 0}));
}

// A broken model must look broken.
TEST(AttentionStep, SoftmaxKeepsNaN) {
  constexpr double kNaN = NAN;
  for (const double rest : {kNaN, -HUGE_VAL, 3.0}) {
    for (const bool naive : {false, true}) {
      const Real x = {rest, kNaN, rest};
      Real out(3);
      naive ? NaiveSoftmax(x.data(), out.data(), 1, 3) : Softmax(x.data(), out.data(), 1, 3);
      for (const double y : out) EXPECT_TRUE(std::isnan(y)) << rest;
    }
  }
}

// ---- Operands -----------------------------------------------------------------------------------

Array Of(const Shape& shape, Dtype dtype = Dtype::kF32) {
  return Array(shape, dtype, RandomValues(shape.count(), 1));
}

TEST(AttentionStepDeathTest, RefuseScoresOfOtherSizes) {
  const Array q = Of({6, 4}), k = Of({10, 2}), scores = Of({2, 2, 3, 5});
  const Array d_q = Of({6, 4}), d_k = Of({10, 2});
  AttentionScores(q, k, 1, scores);
  AttentionScoresBackward(q, k, 1, scores, d_q, d_k);
  EXPECT_DEATH(AttentionScoresBackward(q, k, 1, scores, d_q, Of({10, 4})),
               "attention scores backward: d_k is \\(10, 4\\), expected \\(10, 2\\)");
  EXPECT_DEATH(AttentionScores(q, k, 1, Of({2, 2, 5, 3})), "q is \\(6, 4\\), expected \\(10, 4\\)");
  EXPECT_DEATH(AttentionScores(q, k, 1, Tensor()), "attention scores: scores is missing");
  EXPECT_DEATH(AttentionScores(Of({6, 12}), Of({10, 9}), 1, Of({2, 4, 3, 5})), "do not fit");
}

TEST(AttentionStepDeathTest, RefuseContextOfOtherSizes) {
  const Array weights = Of({2, 2, 3, 5}), v = Of({10, 4}), context = Of({6, 4});
  AttentionContext(weights, v, context);
  EXPECT_DEATH(AttentionContext(weights, Of({5, 4}), context),
               "attention context: v is \\(5, 4\\), expected \\(10, 4\\)");
  EXPECT_DEATH(AttentionContextBackward(weights, v, context, Of({2, 2, 3, 4}), v), "d_weights is");
}

TEST(AttentionStepDeathTest, RefuseMasksThatDoNotBroadcast) {
  const Array x = Of({2, 3, 4, 5});
  std::vector<uint8_t> memory(120, 1);
  const auto mask = [&](const Shape& shape) { return Tensor(memory.data(), shape); };
  for (const Shape& shape : {Shape{1, 1, 4, 5}, {2, 1, 4, 5}, {1, 3, 4, 5}, {2, 3, 4, 5}}) {
    ApplyMask(x, mask(shape), 0, x);
  }
  EXPECT_DEATH(ApplyMask(x, mask({2, 2, 4, 5}), 0, x),
               "mask is \\(2, 2, 4, 5\\), expected \\(2, 3, 4, 5\\)");
  EXPECT_DEATH(ApplyMask(x, mask({1, 1, 1, 5}), 0, x),
               "mask is \\(1, 1, 1, 5\\), expected \\(1, 1, 4, 5\\)");
  EXPECT_DEATH(ApplyMask(x, Of({1, 1, 4, 5}), 0, x), "mask: mask is F32, expected U8");
}

TEST(AttentionStepDeathTest, RefuseRowsThatWouldBeReadAfterTheyAreWritten) {
  const Array x = Of({3, 5}), out = Of({3, 5}), sums = Of({3});
  folio::Softmax(x, x);
  SoftmaxBackward(out, x, x);
  EXPECT_DEATH(SoftmaxBackward(out, x, out), "softmax backward: d_x and out share memory");
  folio::Normalize(x, x, sums);
  NormalizeBackward(out, sums, x, x);
  EXPECT_DEATH(NormalizeBackward(out, sums, x, out), "d_x and out share memory");
  EXPECT_DEATH(folio::Normalize(x, out, Of({5})), "normalize: sums is \\(5\\), expected \\(3\\)");
}

}  // namespace
}  // namespace folio::steps
