// Known values of the reference: gradient proofs cannot detect a wrong forward.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/reference/operations.h"
#include "folio/backend/test_op_cases.h"

namespace folio::reference {
namespace {

using Real = std::vector<double>;

TEST(Reference, EmbeddingAddsThePosition) {
  const std::vector<int32_t> ids = {1, 0, 0, 1};  // B = T = 2
  const Real wte = {1, 2}, wpe = {10, 20, 30};
  Real out(4);
  EmbeddingForward(ids.data(), wte.data(), wpe.data(), out.data(), 2, 2, 1, 2, nullptr);
  EXPECT_EQ(out, Real({12, 21, 11, 22}));
  const std::vector<int32_t> positions = {2, 0, 0, 1};
  EmbeddingForward(ids.data(), wte.data(), wpe.data(), out.data(), 2, 2, 1, 2, positions.data());
  EXPECT_EQ(out, Real({32, 11, 11, 22}));
}

TEST(Reference, LayerNormUsesThePopulationVariance) {
  const Real x = {1, 3, 8}, weight = {2, 1, 1}, bias = {0.5, 0, 0};
  Real out(3), mean(1), rstd(1);
  LayerNormForward(x.data(), weight.data(), bias.data(), out.data(), mean.data(), rstd.data(), 1, 3,
                   0.0);
  const double sigma = std::sqrt((9.0 + 1.0 + 16.0) / 3.0);
  EXPECT_DOUBLE_EQ(mean[0], 4);
  EXPECT_DOUBLE_EQ(rstd[0], 1 / sigma);
  EXPECT_DOUBLE_EQ(out[0], 2 * -3 / sigma + 0.5);
  EXPECT_DOUBLE_EQ(out[2], 4 / sigma);
}

// The root of the mean of the squares is 5, without subtracting the mean.
TEST(Reference, RmsNormDividesByTheRootOfTheMeanSquare) {
  const Real x = {1, 7, 5, 5}, weight = {2, 1, 0.5, 0};
  Real out(4), rstd(1);
  RmsNormForward<double>(x.data(), {}, out.data(), rstd.data(), 1, 4, 0.0);
  EXPECT_EQ(out, Real({0.2, 7 * 0.2, 1, 1}));
  EXPECT_DOUBLE_EQ(rstd[0], 0.2);
  RmsNormForward<double>(x.data(), {weight.data(), 1}, out.data(), rstd.data(), 1, 4, 75.0);
  EXPECT_DOUBLE_EQ(rstd[0], 0.1);
  EXPECT_DOUBLE_EQ(out[0], 0.1 * 3);
  EXPECT_DOUBLE_EQ(out[3], 0.5);
}

TEST(Reference, HeadNormTakesEachGroupByItself) {
  Real x = {3, 3, -8, 8}, raw(4), rstd(2);
  const HeadNormShape shape = {.B = 1, .T = 1, .C = 4, .group = 2};
  HeadNormForward<double>(shape, {x.data(), 4, 4}, {.scale = 1.25}, raw.data(), rstd.data(), 0);
  EXPECT_EQ(x, Real({1.25, 1.25, -1.25, 1.25}));
  EXPECT_EQ(raw, Real({3, 3, -8, 8}));
  EXPECT_EQ(rstd, Real({1.0 / 3, 1.0 / 8}));
}

// Channel i is rotated with channel i + r/2, those from r on are not rotated.
TEST(Reference, RotaryTurnsHalvesOfEachHead) {
  const std::vector<float> inv_freq = {static_cast<float>(std::numbers::pi / 2), 0};
  const std::vector<int32_t> positions = {1, 3};
  Real table(8);
  RotaryAngles(inv_freq.data(), 2, positions.data(), table.data(), 2, 1.0);
  Real x = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5};
  Rotary<double>({.B = 1, .T = 2, .H = 1, .D = 5}, {x.data(), 10, 5}, table.data(), false, 4,
                 false);
  const Real expected = {-3, 2, 1, 4, 5, 3, 2, -1, 4, 5};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], expected[i], 1e-6) << i;
}

// The angle is a product of two float32, as in the programs that train such models; it differs in
// double.
TEST(Reference, RotaryAnglesAreProductsInFloat32) {
  const std::vector<float> inv_freq = {0.8F};
  const std::vector<int32_t> positions = {100003};
  Real table(2);
  RotaryAngles(inv_freq.data(), 1, positions.data(), table.data(), 1, 2.0);
  EXPECT_EQ(table[0], 2 * std::cos(static_cast<double>(100003.0F * 0.8F)));
  EXPECT_GT(std::abs(table[1] - 2 * std::sin(100003.0 * static_cast<double>(0.8F))), 1e-4);
}

TEST(Reference, GateComesBeforeWhatItGates) {
  const Real x = {-2, 3, 10, 100};
  Real out(2);
  GatedForward(Activation::kRelu2, x.data(), out.data(), 1, 2);
  EXPECT_EQ(out, Real({0, 900}));
}

TEST(Reference, LogitCapKeepsSmallLogitsAndBoundsLargeOnes) {
  Real x = {1e-3, 30, -1e9};
  LogitCap(x.data(), 3, 30);
  EXPECT_NEAR(x[0], 1e-3, 1e-9);
  EXPECT_NEAR(x[1], 30 * 0.761594155955765, 1e-12);
  EXPECT_EQ(x[2], -30);
}

TEST(Reference, LinearBothWays) {
  const Real x = {1, 2}, weight = {1, 2, 3, 4, 5, 6}, bias = {100, 200, 300};
  Real out(3);
  LinearForward(x.data(), weight.data(), bias.data(), out.data(), 1, 2, 3, false);
  EXPECT_EQ(out, Real({109, 212, 315}));
  LinearForward<double>(x.data(), weight.data(), nullptr, out.data(), 1, 2, 3, true);
  EXPECT_EQ(out, Real({5, 11, 17}));
}

TEST(Reference, ActivationsAtKnownPoints) {
  const Real x = {-1, 0, 1};
  Real out(3);
  ActivationForward(Activation::kRelu, x.data(), out.data(), 3);
  EXPECT_EQ(out, Real({0, 0, 1}));
  // The normal distribution function at 1, from tables.
  ActivationForward(Activation::kGelu, x.data(), out.data(), 3);
  EXPECT_NEAR(out[2], 0.841344746068543, 1e-14);
  EXPECT_NEAR(out[0], -1 + 0.841344746068543, 1e-14);
  // The tanh form differs from it by less than 5e-4, but does differ.
  ActivationForward(Activation::kGeluNew, x.data(), out.data(), 3);
  EXPECT_NEAR(out[2], 0.841344746068543, 5e-4);
  EXPECT_GT(std::abs(out[2] - 0.841344746068543), 1e-5);
  EXPECT_EQ(out[1], 0);
  // logistic(1) and logistic(1.702), from tables.
  ActivationForward(Activation::kSilu, x.data(), out.data(), 3);
  EXPECT_NEAR(out[2], 0.731058578630005, 1e-14);
  EXPECT_NEAR(out[0], -1 + 0.731058578630005, 1e-14);
  ActivationForward(Activation::kQuickGelu, x.data(), out.data(), 3);
  EXPECT_NEAR(out[2], 0.845795765932821, 1e-12);
  ActivationForward(Activation::kTanh, x.data(), out.data(), 3);
  EXPECT_NEAR(out[0], -0.761594155955765, 1e-14);
  EXPECT_EQ(out[1], 0);
}

TEST(Reference, AttentionOfEqualScoresAveragesWhatIsVisible) {
  // Two queries, three keys, D = 1: query 0 sees keys 0 and 1, query 1 all three.
  const AttentionShape shape = {{.B = 1, .T = 2, .S = 3, .D = 1}};
  const Real q = {0, 0}, k = {1, 2, 3}, v = {6, 12, 30};
  Real out(2), lse(2), probs(6);
  AttentionForward<double>(shape, {q.data(), 2, 1}, {k.data(), 3, 1}, {v.data(), 3, 1},
                           {out.data(), 2, 1}, lse.data(), probs.data());
  EXPECT_DOUBLE_EQ(out[0], 9);
  EXPECT_DOUBLE_EQ(out[1], 16);
  EXPECT_DOUBLE_EQ(lse[0], std::log(2.0));
  EXPECT_EQ(probs[2], 0);
}

TEST(Reference, AttentionHasItsOwnKeyAndThoseBeforeInItsWindow) {
  // Queries at positions 3 and 4 of 5, each with two keys before it.
  AttentionShape shape = {{.B = 1, .T = 2, .S = 5, .D = 1}};
  shape.window = 3;
  const Real q = {0, 0}, k = {1, 2, 3, 4, 5}, v = {100, 3, 6, 12, 30};
  Real out(2), lse(2), probs(10);
  AttentionForward<double>(shape, {q.data(), 2, 1}, {k.data(), 5, 1}, {v.data(), 5, 1},
                           {out.data(), 2, 1}, lse.data(), probs.data());
  EXPECT_DOUBLE_EQ(out[0], 7);
  EXPECT_DOUBLE_EQ(out[1], 16);
  EXPECT_DOUBLE_EQ(lse[1], std::log(3.0));
  for (const size_t hidden : {0, 4, 5, 6}) EXPECT_EQ(probs[hidden], 0);
}

TEST(Reference, ACapBendsScoresBeforeTheMaskIsAdded) {
  AttentionShape shape = {{.B = 1, .T = 1, .S = 1, .D = 1}};
  shape.scale = 0.5;
  shape.cap = 2;
  shape.added = {10};
  const Real q = {1}, k = {4}, v = {7};
  Real out(1), lse(1);
  AttentionForward<double>(shape, {q.data(), 1, 1}, {k.data(), 1, 1}, {v.data(), 1, 1},
                           {out.data(), 1, 1}, lse.data(), nullptr);
  EXPECT_DOUBLE_EQ(lse[0], 2 * 0.7615941559557649 + 10);  // tanh(1), from a table
}

TEST(Reference, AttentionDividesScoresByTheRootOfD) {
  const AttentionShape shape = {{.B = 1, .T = 1, .S = 1, .D = 4}};
  const Real q = {1, 1, 1, 1}, k = {1, 2, 3, 4}, v = {1, 2, 3, 4};
  Real out(4), lse(1);
  AttentionForward<double>(shape, {q.data(), 4, 4}, {k.data(), 4, 4}, {v.data(), 4, 4},
                           {out.data(), 4, 4}, lse.data(), nullptr);
  EXPECT_DOUBLE_EQ(lse[0], 10.0 / 2.0);
  EXPECT_EQ(out, v);
}

TEST(Reference, AttentionToNothingGivesZeros) {
  const std::vector<uint8_t> mask = {0};
  const AttentionShape shape = {{.B = 1, .T = 1, .S = 1, .D = 1}, true, mask.data()};
  const Real one = {1};
  Real out = {7}, lse(1), probs = {7}, d_q = {7}, d_k = {7}, d_v = {7};
  const Rows<const double> x = {one.data(), 1, 1};
  AttentionForward<double>(shape, x, x, x, {out.data(), 1, 1}, lse.data(), probs.data());
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(probs[0], 0);
  EXPECT_EQ(lse[0], -std::numeric_limits<double>::infinity());
  AttentionBackward<double>(shape, x, x, x, lse.data(), x, {d_q.data(), 1, 1}, {d_k.data(), 1, 1},
                            {d_v.data(), 1, 1});
  EXPECT_EQ(d_q[0], 0);
  EXPECT_EQ(d_k[0], 0);
  EXPECT_EQ(d_v[0], 0);
}

TEST(Reference, AttentionSurvivesHugeScores) {
  const AttentionShape shape = {{.B = 1, .T = 1, .S = 2, .D = 1}};
  const Real q = {1}, k = {1e4, 1e4}, v = {1, 3};
  Real out(1), lse(1);
  AttentionForward<double>(shape, {q.data(), 1, 1}, {k.data(), 2, 1}, {v.data(), 2, 1},
                           {out.data(), 1, 1}, lse.data(), nullptr);
  EXPECT_DOUBLE_EQ(out[0], 2);
  EXPECT_DOUBLE_EQ(lse[0], 1e4 + std::log(2.0));
}

// The mask depends on the row in the whole batch: dividing the batch does not change it.
TEST(Reference, DropoutDependsOnThePlaceInTheWholeBatch) {
  constexpr int64_t kN = 50, kC = 70;
  const Real x(static_cast<size_t>(kN * kC), 1.0);
  Real whole(x.size()), parts(x.size());
  Dropout dropout = {.p = 0.25, .seed = 1, .stream = 2};
  ResidualForward<double>(nullptr, x.data(), whole.data(), kN, kC, dropout);
  ResidualForward<double>(nullptr, x.data(), parts.data(), 20, kC, dropout);
  dropout.first_row = 20;
  ResidualForward<double>(nullptr, x.data(), parts.data() + 20 * kC, 30, kC, dropout);
  EXPECT_EQ(parts, whole);
  double zeros = 0;
  for (double y : whole) {
    EXPECT_TRUE(y == 0 || y == 1 / 0.75);
    zeros += y == 0;
  }
  // 3500 draws: the share is within five standard deviations.
  EXPECT_NEAR(zeros / 3500, 0.25, 5 * std::sqrt(0.25 * 0.75 / 3500));
}

TEST(Reference, CrossEntropyOfEqualLogitsIsLogV) {
  const Real logits = {5, 5, 5, 1e4, 0, 0, 1, 2, 3};
  const std::vector<int32_t> targets = {1, 1, -1};
  Real losses(3), lse(3);
  CrossEntropy(logits.data(), targets.data(), losses.data(), lse.data(), 3, 3);
  EXPECT_DOUBLE_EQ(losses[0], std::log(3.0));
  EXPECT_DOUBLE_EQ(losses[1], 1e4);
  EXPECT_EQ(losses[2], 0);
}

// The results are computed by hand: with m = v = 0, step 1 moves by lr * sign(g), whatever the size
// of g.
TEST(Reference, AdamWFirstAndSecondStep) {
  AdamWUpdate op;
  op.lr = 0.1;
  op.beta2 = 0.99;
  op.eps = 0;
  op.weight_decay = 0.5;
  op.grad_scale = 0.5;
  Real param = {2}, m = {0}, v = {0};
  const Real grad = {8}, next = {-4};
  AdamW(op, param.data(), grad.data(), m.data(), v.data(), 1);
  EXPECT_DOUBLE_EQ(param[0], 2 * 0.95 - 0.1);
  EXPECT_DOUBLE_EQ(m[0], 0.1 * 4);
  EXPECT_NEAR(v[0], 0.01 * 16, 1e-15);
  op.step = 2;
  AdamW(op, param.data(), next.data(), m.data(), v.data(), 1);
  // m = 0.9 * 0.4 - 0.1 * 2 = 0.16, v = 0.99 * 0.16 + 0.01 * 4 = 0.1984.
  const double direction = (0.16 / 0.19) / std::sqrt(0.1984 / 0.0199);
  EXPECT_NEAR(param[0], 1.8 * 0.95 - 0.1 * direction, 1e-14);
}

// In float the small squares would vanish beside the large one.
TEST(Reference, FloatsAreSummedInDouble) {
  constexpr int64_t kCount = 10001;
  std::vector<float> x(kCount, 1e-2F);
  x[0] = 1e4F;
  const double expected = 1e8 + (kCount - 1) * std::pow(static_cast<double>(1e-2F), 2);
  EXPECT_NEAR(Dot(x.data(), x.data(), kCount), expected, kCount * std::ldexp(1e8, -53));
  Fill(x.data(), 3, -0.5);
  EXPECT_EQ(x[2], -0.5F);
  EXPECT_EQ(x[3], 1e-2F);
}

}  // namespace
}  // namespace folio::reference

namespace folio {
namespace {

class ReferenceInBfloat16 : public testing::Test {
 protected:
  Tensor AsFloats(const Tensor& x) { return Converted(m_, x, Dtype::kF32); }

  OpMemory m_{Dtype::kF32, Dtype::kBF16, true};
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_F(ReferenceInBfloat16, LinearRoundsItsWeightButNotTheCallers) {
  LinearForward op;
  op.x = m_.RandomLow({3, 7});
  op.weight = m_.Random({7, 5});
  op.bias = m_.Random({5});
  op.out = m_.Unset({3, 5});
  LinearForward plain = op;
  plain.x = AsFloats(op.x);
  plain.weight = AsFloats(Converted(m_, op.weight, Dtype::kBF16));
  plain.out = m_.Unset({3, 5});
  const float weight = op.weight.data<float>()[4];
  ASSERT_NE(plain.weight.data<float>()[4], weight);
  reference_->Run(op);
  reference_->Run(plain);
  ExpectTwin("out", plain.out, op.out);
  EXPECT_EQ(op.weight.data<float>()[4], weight);
  op.out = m_.UnsetLow({3, 5});
  reference_->Run(op);
  ExpectTwin("out", plain.out, op.out);
}

TEST_F(ReferenceInBfloat16, LinearBackwardAddsBeforeItRounds) {
  LinearBackward op;
  op.weight = m_.Random({7, 5});
  op.d_out = m_.RandomLow({3, 5});
  op.d_x = m_.RandomLow({3, 7});
  op.accumulate_d_x = true;
  LinearBackward plain = op;
  plain.d_out = AsFloats(op.d_out);
  plain.d_x = AsFloats(op.d_x);
  plain.weight = AsFloats(Converted(m_, op.weight, Dtype::kBF16));
  reference_->Run(op);
  reference_->Run(plain);
  ExpectTwin("d_x", plain.d_x, op.d_x);
}

// q, k and v are interleaved, and the result is between guards.
TEST_F(ReferenceInBfloat16, AttentionReadsAndWritesStridedRows) {
  const Tensor qkv = m_.RandomLow({2 * 5, 3 * 6}), floats = AsFloats(qkv);
  AttentionForward op;
  op.out = m_.WideLow(2, 5, 6, 3, 2);
  op.lse = m_.Unset({2, 2, 5});
  op.H = 2;
  AttentionForward plain = op;
  plain.out = SequenceView(m_.Unset({2 * 5, 6}), 2, 5, 0, 6);
  plain.lse = m_.Unset({2, 2, 5});
  const auto part = [](const Tensor& x, int64_t i) { return SequenceView(x, 2, 5, 6 * i, 6); };
  op.q = part(qkv, 0);
  op.k = part(qkv, 1);
  op.v = part(qkv, 2);
  plain.q = part(floats, 0);
  plain.k = part(floats, 1);
  plain.v = part(floats, 2);
  reference_->Run(op);
  reference_->Run(plain);
  ExpectTwin("lse", plain.lse, op.lse);
  ExpectTwin("out", plain.out, op.out);
  EXPECT_TRUE(m_.GuardsIntact());
}

TEST_F(ReferenceInBfloat16, WorkInPlaceAndWhatIsOnlyRead) {
  ActivationBackward op;
  op.x = m_.RandomLow({3, 7});
  op.d_out = op.d_x = m_.RandomLow({3, 7});
  op.x.data<BF16>()[20] = {0x7F81};  // a signalling NaN, which widening and rounding would make
                                     // quiet
  ActivationBackward plain = op;
  plain.x = AsFloats(op.x);
  plain.d_out = plain.d_x = AsFloats(op.d_out);
  reference_->Run(op);
  reference_->Run(plain);
  ExpectTwin("d_x", plain.d_x, op.d_x);
  EXPECT_EQ(op.x.data<BF16>()[20].bits, 0x7F81);
}

}  // namespace
}  // namespace folio
