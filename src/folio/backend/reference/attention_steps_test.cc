// Values of the steps of attention that are known without the reference.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "folio/backend/reference/attention.h"
#include "folio/backend/reference/attention_context.h"
#include "folio/backend/reference/attention_scores.h"
#include "folio/backend/reference/mask.h"
#include "folio/backend/reference/softmax.h"

namespace folio::reference {
namespace {

using Real = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Four heads of queries, two of keys: the first pair of heads sees key head 0, the second 1.
constexpr HeadSizes kGrouped = {.B = 1, .T = 1, .S = 2, .H = 4, .G = 2, .D = 1};

TEST(Reference, ConsecutiveHeadsShareAHeadOfKeysAndValues) {
  const Real q = {1, 2, 3, 4}, k = {1, 10, 2, 20};
  Real scores(8);
  AttentionScoresForward<double>(kGrouped, {q.data(), 4, 4}, {k.data(), 4, 2}, scores.data(), 0.5);
  EXPECT_EQ(scores, Real({0.5, 1, 1, 2, 15, 30, 20, 40}));

  const Real weights = {1, 0, 0, 1, 1, 0, 0.5, 0.5}, v = {3, 4, 5, 6};
  Real out(4);
  AttentionContextForward<double>(kGrouped, weights.data(), {v.data(), 4, 2}, {out.data(), 4, 4});
  EXPECT_EQ(out, Real({3, 5, 4, 5}));

  // With one key, the whole of attention gives each head its value.
  const AttentionShape one = {{.B = 1, .T = 1, .S = 1, .H = 4, .G = 2, .D = 1}};
  Real lse(4);
  AttentionForward<double>(one, {q.data(), 4, 4}, {k.data(), 2, 2}, {v.data(), 2, 2},
                           {out.data(), 4, 4}, lse.data(), nullptr);
  EXPECT_EQ(out, Real({3, 3, 4, 4}));
  EXPECT_EQ(lse, Real({1, 2, 30, 40}));
}

TEST(Reference, MaskOfOneHeadServesAll) {
  const Real x = {1, 2, 3, 4, 5, 6, 7, 8};         // B = H = 2, two scores each
  const std::vector<uint8_t> mask = {1, 0, 0, 7};  // of B = 2
  Real out(8);
  MaskForward(x.data(), mask.data(), out.data(), 2, 2, 2, 1, 2, -kInfinity);
  EXPECT_EQ(out, Real({1, -kInfinity, 3, -kInfinity, -kInfinity, 6, -kInfinity, 8}));
  MaskForward(x.data(), mask.data(), out.data(), 2, 2, 1, 2, 2, 0);  // of H = 2
  EXPECT_EQ(out, Real({1, 0, 0, 4, 5, 0, 0, 8}));
}

// softmax(log a) is a / sum of a.
TEST(Reference, SoftmaxOfLogarithms) {
  const Real x = {std::log(1.0), std::log(2.0), std::log(5.0)};
  for (const bool naive : {false, true}) {
    Real out(3);
    naive ? NaiveSoftmaxForward(x.data(), out.data(), 1, 3)
          : SoftmaxForward(x.data(), out.data(), 1, 3);
    EXPECT_NEAR(out[0], 0.125, 1e-15);
    EXPECT_NEAR(out[1], 0.25, 1e-15);
    EXPECT_NEAR(out[2], 0.625, 1e-15);
  }
}

TEST(Reference, RowsWithNothingGiveZeros) {
  const Real x(2, -kInfinity), zeros(2), ones(2, 1.0);
  Real out(2, 7.0), d_x(2, 7.0), sums(1, 7.0);
  SoftmaxForward(x.data(), out.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  SoftmaxBackward(out.data(), ones.data(), d_x.data(), 1, 2);
  EXPECT_EQ(d_x, zeros);
  out = {7, 7};
  NaiveSoftmaxForward(x.data(), out.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  out = d_x = {7, 7};
  NormalizeForward(zeros.data(), out.data(), sums.data(), 1, 2);
  EXPECT_EQ(out, zeros);
  EXPECT_EQ(sums[0], 0);
  NormalizeBackward(out.data(), sums.data(), ones.data(), d_x.data(), 1, 2);
  EXPECT_EQ(d_x, zeros);
}

TEST(Reference, NormalizeDividesByTheSum) {
  const Real x = {1, 3, 4, 2, 0, 0};
  Real out(6), sums(2);
  NormalizeForward(x.data(), out.data(), sums.data(), 2, 3);
  EXPECT_EQ(out, Real({0.125, 0.375, 0.5, 1, 0, 0}));
  EXPECT_EQ(sums, Real({8, 2}));
}

}  // namespace
}  // namespace folio::reference
