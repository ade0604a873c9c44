// Numbers of measures and views are the same where a model lies in memory that the host cannot
// touch.

#include <gtest/gtest.h>

#include <vector>

#include "folio/backend/test_fenced_orders.h"
#include "folio/eval/test_measured_model.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/lens.h"
#include "folio/inspect/probabilities.h"
#include "folio/inspect/trace.h"

namespace folio {
namespace {

std::vector<double> Looked(const OpenedModel& model) {
  std::vector<double> all;
  const auto keep = [&](const auto& numbers) {
    all.insert(all.end(), std::begin(numbers), std::end(numbers));
  };
  const std::vector<int32_t> ids = RandomTokens(7, model.weights->config().vocab_size, 4);
  std::vector<float> mask(49);
  mask[21] = -3;
  const Trace trace(*model.backend, *model.weights, ids, Trace::AllPoints(), mask);
  for (const TracePoint point : Trace::AllPoints()) keep(Elements<float>(trace.At(point)));
  const HeadTrace head = trace.Head(1, 2);
  for (const auto* numbers :
       {&head.q, &head.k, &head.v, &head.scores, &head.weights, &head.context}) {
    keep(*numbers);
  }
  const std::vector<int64_t> positions = {0, 3, 6};
  for (const LensCell& cell : LogitLens(trace, positions, 3)) {
    keep(std::vector<double>{cell.entropy, cell.kl, double(cell.final_rank)});
  }
  for (const ActivationStats& stats : ActivationStatistics(trace)) {
    keep(std::vector<double>{stats.mean, stats.rms, stats.min, stats.max});
  }
  const EmbeddingsView view = InspectEmbeddings(model, 5, 4, 3, [] {});
  keep(view.norms);
  for (const Neighbour& near : view.token->nearest) keep(std::vector<double>{near.cosine});
  keep(view.projection.explained);
  return all;
}

class FencedLooking : public testing::TestWithParam<FencedOrder> {};

TEST_P(FencedLooking, HasTheNumbersOfTheCpu) {
  const OpenedModel source = ByteModel(3);
  const OpenedModel cpu = OnBackend(MakeCpuBackend(), source);
  const OpenedModel fenced = OnBackend(MakeFencedBackend(GetParam()), source);
  const std::vector<double> expected = Looked(cpu);
  EXPECT_GT(expected.size(), 1000u);
  EXPECT_EQ(Looked(fenced), expected);
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedLooking, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
