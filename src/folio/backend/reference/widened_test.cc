// The reference on bfloat16: the float32 operation on the same values, and one rounding.

#include "folio/backend/reference/widened.h"

#include <gtest/gtest.h>

#include <memory>

#include "folio/backend/backend.h"
#include "folio/backend/test_twins.h"

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

// q, k and v lie between each other, and what is written between guards.
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
  op.x.data<BF16>()[20] = {0x7F81};  // a signalling NaN, which widening there and back would quiet
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
