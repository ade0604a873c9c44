#include "folio/backend/timed_backend.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/backend/test_op_cases.h"
#include "tests/kit/expect.h"

namespace folio {
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
