#include "folio/backend/finite_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "folio/backend/test_op_cases.h"
#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
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
  EXPECT_TRUE(Contains(error, "step 12: linear_forward gives", "element 11 of out (2, 7) is inf",
                       "h.3.weight", "what it read is finite"))
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
  EXPECT_TRUE(Contains(error, "element 8 of weight, which it read, is -inf already")) << error;
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
}  // namespace folio
