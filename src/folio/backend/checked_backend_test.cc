#include "folio/backend/checked_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>

#include "folio/backend/comparison.h"
#include "folio/backend/generic_backend.h"
#include "folio/backend/op_cases.h"
#include "folio/base/error.h"

namespace folio {
namespace {

enum class Fault { kResult, kWriteToInput };

// The reference, with one fault in attention.
class FaultyBackend final : public GenericBackend<FaultyBackend> {
 public:
  FaultyBackend(Fault fault, double by) : fault_(fault), by_(by) {}

  std::string name() const override { return "faulty"; }
  std::string description() const override { return "wrong on purpose"; }
  bool Supports(Dtype dtype) const override { return reference_->Supports(dtype); }

  template <class Op>
  void Apply(const Op& op) {
    reference_->Run(op);
    if constexpr (std::is_same_v<Op, AttentionForward>) {
      const SequenceView& x = fault_ == Fault::kResult ? op.out : op.k;
      float& victim = x.template row<float>(1, 2)[3];
      victim += static_cast<float>(by_);
    }
  }

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  Fault fault_;
  double by_;
};

AttentionForward Attention(OpMemory& m) {
  constexpr int64_t kB = 2, kT = 3, kC = 5;
  const Tensor qkv = m.Random({kB * kT, 3 * kC});
  AttentionForward op;
  op.q = SequenceView(qkv, kB, kT, 0, kC);
  op.k = SequenceView(qkv, kB, kT, kC, kC);
  op.v = SequenceView(qkv, kB, kT, 2 * kC, kC);
  op.out = SequenceView(m.Unset({kB * kT, kC}), kB, kT, 0, kC);
  op.lse = m.Unset({kB, 1, kT});
  return op;
}

// What the checked backend says about a faulty one; "" if nothing.
std::string Complaint(Fault fault, double by) {
  OpMemory memory(Dtype::kF32, false);
  const auto backend =
      MakeCheckedBackend(std::make_unique<FaultyBackend>(fault, by), MakeReferenceBackend());
  try {
    backend->Run(Attention(memory));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return std::string(error.what()) + ": " + error.cause();
  }
  return "";
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

// What is masked is -infinity on both sides, which is no difference; another infinity is one.
TEST(CheckedBackend, TellsInfinitiesApart) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  OpMemory memory(Dtype::kF32, false);
  const Tensor x = memory.Random({1, 1, 3, 5}), out = memory.Unset({1, 1, 3, 5});
  const Tensor mask = memory.Mask({1, 1, 3, 5});
  mask.data<uint8_t>()[7] = 0, mask.data<uint8_t>()[8] = 1;
  const MaskForward op{x, mask, out, -kInfinity};
  const auto reference = MakeReferenceBackend();
  const Comparison<MaskForward> comparison(op, *reference);
  reference->Run(op);
  EXPECT_FALSE(comparison.Check(op));
  for (const double other : {kInfinity, -1e30, std::nan("")}) {
    memory.Set(out, 7, other);
    const auto mismatch = comparison.Check(op);
    ASSERT_TRUE(mismatch) << other;
    EXPECT_EQ(mismatch->element, 7);
  }
  memory.Set(out, 7, -kInfinity), memory.Set(out, 8, -kInfinity);
  EXPECT_TRUE(comparison.Check(op));
}

// The copies must not make work in place look like work apart.
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

}  // namespace
}  // namespace folio
