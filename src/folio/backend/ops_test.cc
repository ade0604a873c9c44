#include "folio/backend/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "folio/backend/operands.h"
#include "folio/backend/test_op_cases.h"

namespace folio {
namespace {

template <class Op>
bool HasBf16(const Op& op) {
  const std::vector<Operand> operands = Operands(op);
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& x) { return x.dtype() == Dtype::kBF16; });
}

TEST(Ops, EveryCasePassesItsOwnCheckAndCountsFlops) {
  for (const OpCase& c : OpCases()) {
    for (const Dtype half : {Dtype::kF32, Dtype::kBF16}) {
      if (half == Dtype::kBF16 ? !c.bf16 : !c.plain) continue;
      SCOPED_TRACE(c.op + " " + c.name + " " + std::string(DtypeName(half)));
      OpMemory memory(Dtype::kF32, half, false);
      std::visit(
          [&](const auto& op) {
            op.Check();
            EXPECT_GE(op.Flops(), 0);
            EXPECT_EQ(HasBf16(op), half == Dtype::kBF16);
          },
          c.make(memory));
    }
  }
}

TEST(Ops, FlopsOfMatrixProductsAndAttention) {
  OpMemory m(Dtype::kF32, false);
  LinearBackward linear;
  linear.x = m.Random({3, 5});
  linear.weight = m.Random({7, 5});
  linear.d_out = m.Random({3, 7});
  linear.d_weight = m.Random({7, 5});
  linear.transposed = true;
  linear.Check();
  EXPECT_EQ(linear.Flops(), 2 * 3 * 5 * 7);
  linear.d_x = m.Unset({3, 5});
  EXPECT_EQ(linear.Flops(), 2 * 2 * 3 * 5 * 7);
  linear.d_weight = linear.x = {};
  linear.d_bias = m.Random({7});
  linear.Check();
  EXPECT_EQ(linear.Flops(), 2 * 3 * 5 * 7 + 3 * 7);

  // 2 sequences, 2 heads of 3; queries see 4 and 5 of 5 keys.
  AttentionForward attention;
  attention.q = attention.out = m.Wide(2, 2, 6, 0, 0);
  attention.k = attention.v = m.Wide(2, 5, 6, 0, 0);
  attention.H = 2;
  EXPECT_EQ(attention.Flops(), 2 * 9 * (4 * 6 + 5 * 2));
  attention.window = 4;
  EXPECT_EQ(attention.Flops(), 2 * 8 * (4 * 6 + 5 * 2));
  attention.cap = 1;
  EXPECT_EQ(attention.Flops(), 2 * 8 * (4 * 6 + 8 * 2));
  attention.window = 0;
  attention.causal = false;
  EXPECT_EQ(attention.Flops(), 2 * 10 * (4 * 6 + 8 * 2));
}

class OpsDeathTest : public testing::Test {
 protected:
  OpMemory memory_{Dtype::kF32, false};
  LayerNormBackward op_{.x = memory_.Random({3, 5}),
                        .weight = memory_.Random({5}),
                        .mean = memory_.Unset({3}),
                        .rstd = memory_.Unset({3}),
                        .d_out = memory_.Random({3, 5}),
                        .d_x = memory_.Unset({3, 5}),
                        .d_weight = memory_.Random({5})};
};

TEST_F(OpsDeathTest, NameTheOperandOfTheWrongShape) {
  op_.Check();
  op_.d_weight = memory_.Random({4});
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_weight is \\(4\\), expected \\(5\\)");
}

TEST_F(OpsDeathTest, NameTheMissingOperand) {
  op_.rstd = {};
  EXPECT_DEATH(op_.Check(), "layernorm_backward: rstd is missing");
}

TEST_F(OpsDeathTest, NameTheOperandOfAnotherDtype) {
  op_.d_x = memory_.Unset(Dtype::kF64, {3, 5});
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_x is F64, expected F32");
}

TEST_F(OpsDeathTest, RefuseSharedMemoryThatIsNotAllowed) {
  op_.d_x = op_.d_out;
  op_.Check();
  op_.accumulate_d_x = true;
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_x and d_out share memory");
  op_.accumulate_d_x = false;
  op_.d_x = op_.x;
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_x and x share memory");
  // A Low operand over it is not in place.
  const Tensor both = memory_.Random({4, 5});
  op_.d_out = both.Slice(0, 3);
  op_.d_x = both.Slice(1, 4);
  EXPECT_DEATH(op_.Check(), "share memory");
}

TEST_F(OpsDeathTest, TakeBfloat16WhereOperandsAreMarkedLow) {
  op_.d_out = memory_.Random(Dtype::kBF16, {3, 5});
  op_.Check();
  op_.d_x = memory_.Unset(Dtype::kBF16, {3, 5});
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_x is BF16, expected F32");
  op_.d_x = op_.x = {};
  EXPECT_DEATH(op_.Check(), "layernorm_backward: x is missing");

  OpMemory wide(Dtype::kF64, false);
  const LayerNormForward forward{.x = wide.Random({3, 5}),
                                 .weight = wide.Random({5}),
                                 .out = wide.Unset(Dtype::kBF16, {3, 5}),
                                 .mean = wide.Unset({3}),
                                 .rstd = wide.Unset({3})};
  EXPECT_DEATH(forward.Check(), "layernorm_forward: out is BF16, expected F64");
}

TEST_F(OpsDeathTest, RefuseSomeHalvesWithoutTheOthers) {
  const Tensor plain = memory_.Random({3, 5}), half = memory_.Random(Dtype::kBF16, {3, 5});
  const Tensor other = memory_.Unset(Dtype::kBF16, {3, 5});
  ActivationForward{.x = half, .out = other}.Check();
  EXPECT_DEATH((ActivationForward{.x = half, .out = plain}.Check()), "out is F32, expected BF16");
  EXPECT_DEATH((ActivationForward{.x = plain, .out = half}.Check()), "out is BF16, expected F32");
  EXPECT_DEATH((ActivationBackward{.x = half, .d_out = other, .d_x = plain}.Check()),
               "activation_backward: d_x is F32, expected BF16");

  LinearBackward linear;
  linear.x = half;
  linear.weight = memory_.Random({5, 7});
  linear.d_weight = memory_.Random({5, 7});
  linear.d_out = memory_.Random(Dtype::kBF16, {3, 7});
  for (const Dtype own : {Dtype::kF32, Dtype::kBF16}) {
    linear.d_x = memory_.Unset(own, {3, 5});
    linear.Check();
    linear.pre = memory_.Random(own, {3, 5});
    linear.Check();
    linear.accumulate_d_x = true;
    EXPECT_DEATH(linear.Check(), "linear_backward: pre goes with a d_x that is overwritten");
    linear.accumulate_d_x = false;
    linear.pre = {};
  }
  EXPECT_DEATH(
      (LinearForward{
          .x = plain, .weight = memory_.Random({5, 7}), .out = memory_.Unset(Dtype::kBF16, {3, 7})}
           .Check()),
      "linear_forward: out is BF16, expected F32");
  linear.x = plain;
  EXPECT_DEATH(linear.Check(), "linear_backward: x is F32, expected BF16");
  linear.x = {};
  EXPECT_DEATH(linear.Check(), "linear_backward: x is missing");
  linear.d_weight = {};
  linear.Check();
  linear.weight = memory_.Random(Dtype::kBF16, {5, 7});
  linear.Check();
  linear.d_out = memory_.Random({3, 7});
  EXPECT_DEATH(linear.Check(), "linear_backward: weight is BF16, expected F32 or F64");

  AttentionForward attention;
  attention.q = attention.k = attention.out = memory_.Wide(Dtype::kBF16, 1, 2, 6, 0, 0);
  attention.v = memory_.Wide(1, 2, 6, 0, 0);
  attention.lse = memory_.Unset({1, 1, 2});
  EXPECT_DEATH(attention.Check(), "attention_forward: v is F32, expected BF16");
}

// An array that changes its dtype cannot be written in place.
TEST_F(OpsDeathTest, RefuseWorkInPlaceBetweenDtypes) {
  const Tensor plain = memory_.Random({3, 5});
  const Tensor half(plain.raw(), Dtype::kBF16, {3, 5});
  op_.d_x = plain;
  op_.d_out = half;
  EXPECT_DEATH(op_.Check(), "layernorm_backward: d_x and d_out share memory");
  EXPECT_DEATH((ResidualForward{.x = half, .out = plain}.Check()), "out and x share memory");
  EXPECT_DEATH((ResidualBackward{.d_out = plain, .d_x = half}.Check()), "d_x and d_out share");
  const Tensor targets = memory_.Integers({3}, 5), lse = memory_.Random({3});
  EXPECT_DEATH((CrossEntropyBackward{plain, targets, lse, half}.Check()),
               "d_logits and logits share memory");
}

TEST_F(OpsDeathTest, RefusePositionsBeyondTheTable) {
  EmbeddingForward op;
  op.ids = memory_.Integers({1, 3}, 4);
  op.wte = memory_.Random({4, 2});
  op.wpe = memory_.Random({3, 2});
  op.out = memory_.Unset({3, 2});
  op.Check();
  op.wpe = memory_.Random({2, 2});
  EXPECT_DEATH(op.Check(), "positions beyond wpe");
}

TEST_F(OpsDeathTest, RefuseRowsWithoutAPage) {
  CacheAttention op;
  op.pages = memory_.Random({3, 2, 2, 4, 5});
  op.q = op.out = memory_.Wide(1, 1, 10, 0, 0);
  op.tables = memory_.Integers({1, 2}, 1);
  op.positions = memory_.Integers({1}, 1);
  op.H = 2;
  op.positions.data<int32_t>()[0] = 7;
  op.Check();
  op.positions.data<int32_t>()[0] = 8;
  EXPECT_DEATH(op.Check(), "row 0 has no page");
  op.positions.data<int32_t>()[0] = 4;
  op.tables.data<int32_t>()[1] = 3;
  EXPECT_DEATH(op.Check(), "row 0 has no page");
  op.window = 2;
  EXPECT_DEATH(op.Check(), "row 0 has no page");
  op.positions.data<int32_t>()[0] = 3;
  op.Check();
  op.tables.data<int32_t>()[0] = -1;
  EXPECT_DEATH(op.Check(), "row 0 has no page");
  op.positions.data<int32_t>()[0] = 5;
  op.tables.data<int32_t>()[1] = 2;
  op.Check();
  op.window = 3;
  EXPECT_DEATH(op.Check(), "row 0 has no page");
}

TEST_F(OpsDeathTest, RefuseWindowsAndCapsThatAreNone) {
  AttentionForward op;
  op.q = op.k = op.v = op.out = memory_.Wide(1, 2, 5, 0, 0);
  op.lse = memory_.Unset({1, 1, 2});
  op.cap = -1;
  EXPECT_DEATH(op.Check(), "attention_forward: a cap of -1");
  op.cap = 0;
  op.window = -1;
  EXPECT_DEATH(op.Check(), "attention_forward: a window of -1");
  op.window = 1;
  op.Check();
  op.causal = false;
  EXPECT_DEATH(op.Check(), "a window of 1 in attention that is not causal");
}

TEST_F(OpsDeathTest, RefuseHeadsThatDoNotDivideTheChannels) {
  AttentionForward op;
  op.q = op.k = op.v = op.out = memory_.Wide(1, 2, 5, 0, 0);
  op.lse = memory_.Unset({1, 2, 2});
  op.H = 2;
  EXPECT_DEATH(op.Check(), "5 channels do not divide into 2 heads");
}

TEST_F(OpsDeathTest, RefuseHeadsThatNormsOrTurnsDoNotFit) {
  const SequenceView x = memory_.Wide(2, 3, 12, 0, 0);
  HeadNormBackward norm{
      .raw = memory_.Random({6, 12}), .rstd = memory_.Random({6, 3}), .d_x = x, .group = 4};
  norm.Check();
  norm.group = 5;
  EXPECT_DEATH(norm.Check(), "12 channels do not divide into groups of 5");
  norm.group = 6;
  EXPECT_DEATH(norm.Check(), "head_norm_backward: rstd is \\(6, 3\\), expected \\(6, 2\\)");
  norm.rstd = {};
  EXPECT_DEATH(norm.Check(), "rstd is missing");

  Rotary turn{.x = x, .table = memory_.Random({6, 4}), .D = 4};
  turn.Check();
  turn.table = memory_.Random({3, 4});  // for both sequences
  turn.Check();
  turn.D = 8;
  EXPECT_DEATH(turn.Check(), "12 channels do not divide into heads of 8");
  turn.D = 3;
  EXPECT_DEATH(turn.Check(), "4 channels of a head of 3 do not turn in pairs");
  turn.table = memory_.Random({2, 2});
  EXPECT_DEATH(turn.Check(), "rotary: table is \\(2, 2\\), expected \\(6, 2\\)");

  const std::vector<float> inv_freq(2);
  RotaryAngles angles{inv_freq, memory_.Integers({2, 3}, 9), memory_.Unset({6, 4})};
  angles.Check();
  angles.positions = memory_.Integers({5}, 9);
  EXPECT_DEATH(angles.Check(), "5 positions for 6 rows");
}

TEST_F(OpsDeathTest, RefuseHeadsOfKeysThatCannotBeSharedEvenly) {
  AttentionForward op;
  op.q = op.out = memory_.Wide(1, 2, 12, 0, 0);
  op.k = op.v = memory_.Wide(1, 2, 6, 0, 0);
  op.lse = memory_.Unset({1, 4, 2});
  op.H = 4;
  op.G = 2;
  op.Check();
  op.G = 3;
  EXPECT_DEATH(op.Check(), "4 heads of queries cannot share 3 heads of keys evenly");
  op.G = -2;
  EXPECT_DEATH(op.Check(), "cannot share");
  op.G = 1;
  EXPECT_DEATH(op.Check(), "attention_forward: k is \\(1, 2, 6\\), expected \\(1, 2, 3\\)");
  op.G = 0;
  EXPECT_DEATH(op.Check(), "attention_forward: k is \\(1, 2, 6\\), expected \\(1, 2, 12\\)");
}

}  // namespace
}  // namespace folio
