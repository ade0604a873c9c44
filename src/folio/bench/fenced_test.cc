// Training and operations are measured where the host cannot touch their memory.

#include <gtest/gtest.h>

#include <memory>

#include "folio/backend/test_fenced_orders.h"
#include "folio/bench/operations.h"
#include "folio/bench/training.h"
#include "folio/model/test_models.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

class FencedBench : public testing::TestWithParam<FencedOrder> {
 protected:
  const std::unique_ptr<Backend> fenced_ = MakeFencedBackend(GetParam());
};

TEST_P(FencedBench, TrainingHasTheLossOfTheCpu) {
  const auto loss = [](Backend& backend, Group* group) {
    BenchTrainOptions options;
    options.model = TinyConfig();
    options.T = 4;
    options.steps = 2;
    options.seconds = 0;
    options.group = group;
    options.train.batch_size = 2;
    options.train.grad_accumulation = 2;
    return BenchTrain(backend, options).last_loss;
  };
  const double expected = loss(*MakeCpuBackend(), nullptr);
  EXPECT_GT(expected, 0);
  EXPECT_EQ(loss(*fenced_, nullptr), expected);
  RunOnThreads(2,
               [&](Group& group) { EXPECT_GT(loss(*MakeFencedBackend(GetParam()), &group), 0); });
}

TEST_P(FencedBench, OperationsHaveRates) {
  const MatmulShape small[] = {{4, 8, 8}};
  const Dtype dtypes[] = {Dtype::kF32};
  for (const MatmulRate& rate : MeasureMatmuls(*fenced_, small, dtypes, 0)) {
    EXPECT_GT(rate.timing.rate(), 0) << rate.product;
  }
  EXPECT_GT(MeasureMatmulPeak(*fenced_, Dtype::kF32, 0), 0);
  const AttentionRate attention =
      MeasureAttention(*fenced_, {.B = 1, .T = 5, .H = 2, .D = 8}, /*seconds=*/0);
  EXPECT_GT(attention.backward.rate(), 0);
  for (const RowRate& rate : MeasureRows(*fenced_, {.N = 3, .C = 8, .D = 4, .F = 8}, 0)) {
    EXPECT_GT(rate.timing.rate(), 0) << rate.operation;
  }
  EXPECT_GT(MeasureOptimizer(*fenced_, 100, 0).adamw.rate(), 0);
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedBench, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
