#include "folio/inspect/lens.h"

#include <algorithm>

#include "folio/base/thread_pool.h"
#include "folio/model/layers/head.h"

namespace folio {
namespace {

// The last layer's prediction at a position, with which the others are compared.
struct FinalPrediction {
  double log_sum = 0;
  int32_t likeliest = 0;
};

}  // namespace

std::vector<LensCell> LogitLens(const Trace& trace, std::span<const int64_t> positions, int64_t top,
                                const std::function<void(int64_t done)>& on_progress) {
  for (const int64_t position : positions) {
    FOLIO_CHECK(0 <= position && position < trace.T(), "no such position");
  }
  // Positions whose logits are in memory at a time, here and at the end: 77 MB for 150,000 tokens.
  constexpr int64_t kMostRows = 64;
  const int64_t L = trace.config().n_layer, V = trace.config().vocab_size;
  const int64_t count = std::ssize(positions), most = std::min(count, kMostRows);
  std::vector<LensCell> cells(static_cast<size_t>(count * (L + 1)));
  if (count == 0) return cells;
  MemoryPlan plan;
  const MemoryPlan::Id streams = plan.Add("stream", Dtype::kF32, {most, trace.config().n_embd});
  const MemoryPlan::Id logits = plan.Add("logits", Dtype::kF32, {most, V});
  const MemoryPlan::Id final_logits = plan.Add("final", Dtype::kF32, {most, V});
  plan.Place();
  const Arena arena(plan);
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t rows = std::min(most, count - begin);
    const auto position = [&](int64_t row) { return positions[static_cast<size_t>(begin + row)]; };
    // The logits of these positions after this many blocks.
    const auto after = [&](int64_t layer, MemoryPlan::Id to) {
      const Tensor stream = trace.Stream(layer), picked = arena.Get(plan, streams);
      for (int64_t row = 0; row < rows; ++row) {
        std::ranges::copy(Row(stream, position(row)), picked.host<float>() + row * picked.dim(1));
      }
      const Tensor out = arena.Get(plan, to).Slice(0, rows);
      trace.Logits(picked, 0, rows, out);
      return out;
    };
    const Tensor final = after(L, final_logits);
    std::vector<FinalPrediction> predictions(static_cast<size_t>(rows));
    ParallelFor(rows, [&](int64_t row, int) {
      predictions[static_cast<size_t>(row)] = {LogSum(Row(final, row)),
                                               LikeliestToken(Row(final, row))};
    });
    for (int64_t layer = 0; layer <= L; ++layer) {
      const Tensor here = layer == L ? final : after(layer, logits);
      ParallelFor(rows, [&](int64_t row, int) {
        const std::span<const float> found = Row(here, row);
        const FinalPrediction& prediction = predictions[static_cast<size_t>(row)];
        const LogitSummary summary = Summarize(found);
        cells[static_cast<size_t>((begin + row) * (L + 1) + layer)] = {
            .layer = layer,
            .position = position(row),
            .top = TopTokens(found, top, summary.log_sum),
            .entropy = summary.entropy,
            .kl = Divergence(Row(final, row), prediction.log_sum, found, summary.log_sum),
            .final_rank = RankOf(found, prediction.likeliest)};
      });
    }
    if (on_progress) on_progress(begin + rows);
  }
  return cells;
}

}  // namespace folio
