#include "folio/backend/decorated_backends.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {

namespace {

enum class Fault { kResult, kWriteToInput, kLse, kWeightAsItIs };

void Add(const SequenceView& x, double by) {
  if (x.dtype == Dtype::kBF16) {
    BF16& victim = x.row<BF16>(1, 2)[3];
    victim = ToBF16(ToFloat(victim) + static_cast<float>(by));
  } else {
    x.row<float>(1, 2)[3] += static_cast<float>(by);
  }
}

// The reference, with one fault in attention or in Linear.
class FaultyBackend final : public GenericBackend<FaultyBackend> {
 public:
  FaultyBackend(Fault fault, double by) : fault_(fault), by_(by) {}

  std::string name() const override { return "faulty"; }
  std::string description() const override { return "wrong on purpose"; }
  bool Supports(Dtype dtype) const override { return reference_->Supports(dtype); }
  Dtype PreferredDtype() const override { return reference_->PreferredDtype(); }

  template <class Op>
  void Apply(const Op& op) {
    if constexpr (std::is_same_v<Op, LinearForward>) {
      if (fault_ == Fault::kWeightAsItIs) return RunOnFloats(op);
    }
    reference_->Run(op);
    if constexpr (std::is_same_v<Op, AttentionForward>) {
      if (fault_ == Fault::kResult) Add(op.out, by_);
      if (fault_ == Fault::kWriteToInput) Add(op.k, by_);
      if (fault_ == Fault::kLse) op.lse.template data<float>()[3] += static_cast<float>(by_);
    }
  }

 private:
  void RunOnFloats(LinearForward op) {
    std::vector<float> x;
    for (int64_t i = 0; i < op.x.count(); ++i) x.push_back(ToFloat(op.x.data<BF16>()[i]));
    op.x = Tensor(x.data(), op.x.shape());
    reference_->Run(op);
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  Fault fault_;
  double by_;
};

AttentionForward Attention(OpMemory& m) {
  constexpr int64_t kB = 2, kT = 3, kC = 5;
  const Tensor qkv = m.RandomLow({kB * kT, 3 * kC});
  AttentionForward op;
  op.q = SequenceView(qkv, kB, kT, 0, kC);
  op.k = SequenceView(qkv, kB, kT, kC, kC);
  op.v = SequenceView(qkv, kB, kT, 2 * kC, kC);
  op.out = SequenceView(m.UnsetLow({kB * kT, kC}), kB, kT, 0, kC);
  op.lse = m.Unset({kB, 1, kT});
  return op;
}

// The error of the checked backend for a faulty one running `op`; "" if there is none.
template <class Op>
std::string ComplaintAbout(const Op& op, Fault fault, double by) {
  const auto backend =
      MakeCheckedBackend(std::make_unique<FaultyBackend>(fault, by), MakeReferenceBackend());
  try {
    backend->Run(op);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return std::string(error.what()) + ": " + error.cause();
  }
  return "";
}

std::string Complaint(Fault fault, double by, Dtype half = Dtype::kF32) {
  OpMemory memory(Dtype::kF32, half, false);
  return ComplaintAbout(Attention(memory), fault, by);
}

TEST(CheckedBackend, NamesOperationOperandAndElement) {
  const std::string complaint = Complaint(Fault::kResult, 1e-3);
  EXPECT_NE(complaint.find("attention_forward of backend faulty"), std::string::npos) << complaint;
  // Row 2 of sequence 1 is row 5 of 5 elements each.
  EXPECT_NE(complaint.find("out[28] is "), std::string::npos) << complaint;
}

TEST(CheckedBackend, SeesAnErrorOfAFewHundredRoundings) {
  EXPECT_NE(Complaint(Fault::kResult, 1e-5), "");
}

TEST(CheckedBackend, SeesAWriteToAnInput) {
  const std::string complaint = Complaint(Fault::kWriteToInput, 1e-6);
  EXPECT_NE(complaint.find("k[28] is "), std::string::npos) << complaint;
}

TEST(CheckedBackend, AllowsRounding) {
  EXPECT_EQ(Complaint(Fault::kResult, 0), "");
  EXPECT_EQ(Complaint(Fault::kResult, 6e-8), "");
}

TEST(CheckedBackend, AllowsRoundingInsideAttentionOnBfloat16) {
  EXPECT_EQ(Complaint(Fault::kResult, 0, Dtype::kBF16), "");
  EXPECT_EQ(Complaint(Fault::kResult, 0x1p-9, Dtype::kBF16), "");
  EXPECT_NE(Complaint(Fault::kResult, 0.1, Dtype::kBF16), "");
  EXPECT_NE(Complaint(Fault::kWriteToInput, 0x1p-7, Dtype::kBF16), "");
  EXPECT_NE(Complaint(Fault::kLse, 1e-4, Dtype::kBF16), "") << "lse is float32";
}

// Half a unit in an element's own last place, whatever the size of the others.
TEST(CheckedBackend, SeesBfloat16ThatIsNotTheNearest) {
  OpMemory memory(Dtype::kF32, Dtype::kBF16, false);
  const std::vector<double> values = {1 + 0x1p-9, -300, 1 + 0x1p-8, 2 - 0x1p-9, -0.375};
  const Tensor d_out = memory.Random({1, 5}), d_x = memory.UnsetLow({1, 5});
  for (int64_t i = 0; i < 5; ++i) memory.Set(d_out, i, values[static_cast<size_t>(i)]);
  const ResidualBackward op{.d_out = d_out, .d_x = d_x};
  const auto reference = MakeReferenceBackend();
  const Comparison<ResidualBackward> comparison(op, *reference);
  reference->Run(op);
  EXPECT_FALSE(comparison.Check(op));
  for (int64_t i = 0; i < 5; ++i) {
    BF16& element = d_x.data<BF16>()[i];
    const BF16 nearest = element;
    for (const int by : {-1, 1}) {
      element.bits = static_cast<uint16_t>(nearest.bits + by);
      const bool tie = i == 2 && by == 1;  // between 1 and the next
      EXPECT_EQ(comparison.Check(op).has_value(), !tie) << i << " " << by;
    }
    element = nearest;
  }
}

TEST(CheckedBackend, SeesAWeightThatWasNotRounded) {
  OpMemory memory(Dtype::kF32, Dtype::kBF16, false);
  LinearForward op;
  op.x = memory.RandomLow({70, 65});
  op.weight = memory.Random({65, 33});
  op.out = memory.Unset({70, 33});
  EXPECT_EQ(ComplaintAbout(op, Fault::kResult, 0), "");
  EXPECT_NE(ComplaintAbout(op, Fault::kWeightAsItIs, 0).find("linear_forward of backend faulty"),
            std::string::npos);
}

// The log-sum of a query that attends to nothing is -infinity on both sides, which is no
// difference; another infinity is one.
TEST(CheckedBackend, TellsInfinitiesApart) {
  OpMemory memory(Dtype::kF32, false);
  AttentionForward op = Attention(memory);
  op.key_mask = memory.Mask({2, 3});
  for (int64_t i = 0; i < 6; ++i) op.key_mask.data<uint8_t>()[i] = i > 0;
  const auto reference = MakeReferenceBackend();
  const Comparison<AttentionForward> comparison(op, *reference);
  reference->Run(op);
  EXPECT_FALSE(comparison.Check(op));
  EXPECT_EQ(op.lse.data<float>()[0], -INFINITY);
  for (const double other : {HUGE_VAL, -1e30, std::nan("")}) {
    memory.Set(op.lse, 0, other);
    const auto mismatch = comparison.Check(op);
    ASSERT_TRUE(mismatch) << other;
    EXPECT_EQ(mismatch->operand, "lse");
    EXPECT_EQ(mismatch->element, 0);
  }
  memory.Set(op.lse, 0, -INFINITY);
  memory.Set(op.lse, 1, -INFINITY);
  EXPECT_TRUE(comparison.Check(op));
}

// The copies must keep in-place work in place.
TEST(CheckedBackend, ChecksWorkInPlace) {
  OpMemory memory(Dtype::kF32, true);
  ResidualForward op;
  op.residual = memory.Random({3, 7});
  op.x = memory.Random({3, 7});
  op.out = op.residual;
  const float expected = op.residual.data<float>()[4] + op.x.data<float>()[4];
  MakeCheckedBackend(MakeReferenceBackend(), MakeReferenceBackend())->Run(op);
  EXPECT_EQ(op.out.data<float>()[4], expected);
}

TEST(CheckedBackend, ChecksBfloat16InPlace) {
  OpMemory memory(Dtype::kF32, Dtype::kBF16, true);
  ActivationBackward op;
  op.kind = Activation::kRelu;
  op.x = memory.RandomLow({3, 7});
  op.d_out = op.d_x = memory.RandomLow({3, 7});
  memory.Set(op.x, 4, 2);
  memory.Set(op.x, 5, -2);
  const BF16 expected = op.d_out.data<BF16>()[4];
  MakeCheckedBackend(MakeReferenceBackend(), MakeReferenceBackend())->Run(op);
  EXPECT_EQ(op.d_x.data<BF16>()[4], expected);
  EXPECT_EQ(op.d_x.data<BF16>()[5], BF16{});
}

}  // namespace

namespace {

class Finite : public testing::Test {
 protected:
  Finite() {
    backend_.Watch(
        {.when = [] { return "step 12"; },
         .name_of =
             [this](const std::byte* at) { return at == weight_.raw() ? "h.3.weight" : ""; }});
  }
  LinearForward Linear() {
    LinearForward op;
    op.x = memory_.Random({2, 5});
    op.weight = weight_;
    op.out = memory_.Unset({2, 7});
    return op;
  }

  OpMemory memory_{Dtype::kF32, false};
  Tensor weight_ = memory_.Random({5, 7});
  FiniteBackend backend_{MakeReferenceBackend()};
};

TEST_F(Finite, ResultsAreThoseOfTheBackend) {
  const LinearForward op = Linear();
  LinearForward plain = op;
  plain.out = memory_.Unset({2, 7});
  backend_.Run(op);
  MakeReferenceBackend()->Run(plain);
  for (int i = 0; i < 14; ++i) EXPECT_EQ(op.out.data<float>()[i], plain.out.data<float>()[i]);
  EXPECT_EQ(backend_.name(), "reference");
}

TEST_F(Finite, NamesTheOperationThatOverflows) {
  const LinearForward op = Linear();
  for (int i = 0; i < 5; ++i) {
    op.x.data<float>()[5 + i] = 3e38F;
    weight_.data<float>()[7 * i + 4] = 10;
  }
  for (int i = 0; i < 35; ++i) {
    if (i % 7 != 4) weight_.data<float>()[i] = 0;
  }
  const std::string error = ErrorOf([&] { backend_.Run(op); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "step 12: linear_forward produced", "element 11 of out (2, 7) is inf",
                       "h.3.weight", "its inputs are finite"))
      << error;
}

TEST_F(Finite, LooksAtNothingBeforeItWatches) {
  FiniteBackend backend(MakeReferenceBackend());
  const LinearForward op = Linear();
  weight_.data<float>()[8] = INFINITY;
  backend.Run(op);
  EXPECT_FALSE(std::isfinite(op.out.data<float>()[1]));
}

TEST_F(Finite, SaysWhetherWhatItReadWasBroken) {
  const LinearForward op = Linear();
  weight_.data<float>()[8] = -INFINITY;
  const std::string error = ErrorOf([&] { backend_.Run(op); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "element 8 of weight, an input, is already -inf")) << error;
}

TEST_F(Finite, RemembersTheParameterBefore) {
  backend_.Run(Linear());
  Scale op;
  op.x = memory_.Random({2, 3});
  op.factor = 1e39;
  const std::string error = ErrorOf([&] { backend_.Run(op); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "scale", "of x (2, 3)", "at or after h.3.weight")) << error;
}

TEST(FindNonFinite, LooksAtEachKindOfOperand) {
  std::vector<BF16> halves(24, ToBF16(1));
  const Tensor fused(halves.data(), {4, 6});
  const SequenceView view(fused, 2, 2, 3, 3);  // columns 3 to 5
  const Operand operand{"x", Access::kWrite, view};
  EXPECT_FALSE(FindNonFinite(operand));
  halves[7] = ToBF16(INFINITY);  // not one of its columns
  EXPECT_FALSE(FindNonFinite(operand));
  halves[22] = ToBF16(-INFINITY);
  const auto found = FindNonFinite(operand);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element, 10);
  EXPECT_EQ(found->value, -INFINITY);
  std::vector<double> doubles = {1, 2, std::nan("")};
  EXPECT_EQ(FindNonFinite({"y", Access::kRead, Tensor(doubles.data(), {3})})->element, 2);
  std::vector<int32_t> ids = {1};
  EXPECT_FALSE(FindNonFinite({"ids", Access::kRead, Tensor(ids.data(), {1})}));
}

}  // namespace

namespace {

LinearForward Linear(OpMemory& m, int64_t N) {
  LinearForward op;
  op.x = m.Random({N, 5});
  op.weight = m.Random({5, 7});
  op.out = m.Unset({N, 7});
  return op;
}

TEST(TimedBackend, AddsUpCallsFlopsAndBytesOfEachOperation) {
  OpMemory memory(Dtype::kF32, false);
  TimedBackend backend(MakeReferenceBackend());
  Fill fill;
  fill.out = memory.Unset({3});
  backend.Run(Linear(memory, 2));
  backend.Run(fill);
  backend.Run(Linear(memory, 3));

  const std::vector<OpTime> times = backend.Times();
  ASSERT_EQ(times.size(), 2U);
  EXPECT_GE(times[0].seconds, times[1].seconds);
  const OpTime& linear = times[times[0].name == "linear_forward" ? 0 : 1];
  EXPECT_EQ(linear.name, "linear_forward");
  EXPECT_EQ(linear.calls, 2);
  EXPECT_EQ(linear.flops, 2 * 5 * 5 * 7);  // 2 N I O with N = 2 + 3
  EXPECT_EQ(linear.bytes, 4 * (5 * 5 + 2 * 5 * 7 + 5 * 7));
  EXPECT_GT(linear.seconds, 0);
  EXPECT_EQ(fill.out.data<float>()[2], 0);
}

TEST(TimedBackend, CountsEachOperandOfAFusedArrayOnce) {
  OpMemory memory(Dtype::kF32, false);
  TimedBackend backend(MakeReferenceBackend());
  const Tensor qkv = memory.Random({4, 3 * 8});
  AttentionForward op;
  op.q = SequenceView(qkv, 2, 2, 0, 8);
  op.k = SequenceView(qkv, 2, 2, 8, 8);
  op.v = SequenceView(qkv, 2, 2, 16, 8);
  op.out = SequenceView(memory.Unset({4, 8}), 2, 2, 0, 8);
  op.lse = memory.Unset({2, 1, 2});
  backend.Run(op);
  EXPECT_EQ(backend.Times()[0].bytes, 4 * (4 * 4 * 8 + 4));
}

TEST(TimedBackend, ResetForgets) {
  OpMemory memory(Dtype::kF32, false);
  TimedBackend backend(MakeReferenceBackend());
  backend.Run(Linear(memory, 2));
  backend.Reset();
  EXPECT_TRUE(backend.Times().empty());
}

TEST(TimesTable, HasRatesAndATotal) {
  const std::string table =
      TimesTable({{"linear_forward", 4, 0.003, 6e9, 3e8}, {"fill", 1, 0.001, 0, 0}});
  EXPECT_TRUE(Contains(
      table, "linear_forward                      4       3.000   75.0%    2000.0    100.0",
      "total                               5       4.000  100.0%    1500.0     75.0"));
}

}  // namespace

}  // namespace folio
