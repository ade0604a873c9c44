#include "folio/inspect/lens.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/base/parallel.h"

namespace folio {
namespace {

std::span<const float> Row(const Tensor& x, int64_t row) {
  return {x.data<float>() + row * x.dim(1), static_cast<size_t>(x.dim(1))};
}

// A row of the last layer's logits, which the others are compared with.
struct FinalPrediction {
  std::span<const float> logits;
  double log_sum = 0;
  int32_t first = 0;
};

FinalPrediction Predict(std::span<const float> logits) {
  const double log_sum = Summarize(logits).log_sum;
  return {logits, log_sum, TopTokens(logits, 1, log_sum).front().id};
}

// Sum of p (ln p - ln q).
double Divergence(const FinalPrediction& final, std::span<const float> logits, double log_sum) {
  double sum = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double log_p = final.logits[v] - final.log_sum;
    const double p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - (logits[v] - log_sum));
  }
  return sum;
}

// What the positions of one chunk are computed in.
class LensChunk {
 public:
  LensChunk(const Trace& trace, int64_t rows) : trace_(trace) {
    const int64_t C = trace.config().n_embd, V = trace.config().vocab_size;
    const MemoryPlan::Id stream = plan_.Add("stream", Dtype::kF32, {rows, C});
    const MemoryPlan::Id logits = plan_.Add("logits", Dtype::kF32, {rows, V});
    const MemoryPlan::Id final = plan_.Add("final", Dtype::kF32, {rows, V});
    plan_.Place();
    arena_ = Arena(plan_);
    stream_ = arena_.Get(plan_, stream);
    logits_ = arena_.Get(plan_, logits);
    final_ = arena_.Get(plan_, final);
  }

  // Fills `cells`, L+1 for each position.
  void Compute(std::span<const int64_t> positions, int64_t top, LensCell* cells) {
    const int64_t L = trace_.config().n_layer;
    const int64_t rows = static_cast<int64_t>(positions.size());
    const Tensor final = Logits(L, positions, final_);
    std::vector<FinalPrediction> predictions(positions.size());
    ParallelFor(rows, [&](int64_t row, int) {
      predictions[static_cast<size_t>(row)] = Predict(Row(final, row));
    });
    for (int64_t layer = 0; layer <= L; ++layer) {
      const Tensor here = layer == L ? final : Logits(layer, positions, logits_);
      ParallelFor(rows, [&](int64_t row, int) {
        const std::span<const float> logits = Row(here, row);
        const FinalPrediction& prediction = predictions[static_cast<size_t>(row)];
        const LogitSummary summary = Summarize(logits);
        cells[row * (L + 1) + layer] = {.layer = layer,
                                        .position = positions[static_cast<size_t>(row)],
                                        .top = TopTokens(logits, top, summary.log_sum),
                                        .entropy = summary.entropy,
                                        .kl = Divergence(prediction, logits, summary.log_sum),
                                        .final_rank = RankOf(logits, prediction.first)};
      });
    }
  }

 private:
  Tensor Logits(int64_t layer, std::span<const int64_t> positions, const Tensor& to) {
    const Tensor stream = trace_.Stream(layer);
    for (size_t row = 0; row < positions.size(); ++row) {
      const std::span<const float> from = Row(stream, positions[row]);
      std::memcpy(stream_.data<float>() + row * from.size(), from.data(), from.size_bytes());
    }
    const int64_t rows = static_cast<int64_t>(positions.size());
    trace_.Logits(stream_, 0, rows, to.Slice(0, rows));
    return to.Slice(0, rows);
  }

  const Trace& trace_;
  MemoryPlan plan_;
  Arena arena_;
  Tensor stream_, logits_, final_;
};

}  // namespace

std::vector<LensCell> LogitLens(const Trace& trace, std::span<const int64_t> positions,
                                int64_t top) {
  for (const int64_t position : positions) {
    FOLIO_CHECK(0 <= position && position < trace.T(), "no such position");
  }
  if (positions.empty()) return {};
  const size_t layers = static_cast<size_t>(trace.config().n_layer) + 1;
  std::vector<LensCell> cells(positions.size() * layers);
  const size_t rows = static_cast<size_t>(
      LossChunkRows(static_cast<int64_t>(positions.size()), trace.config().vocab_size));
  LensChunk chunk(trace, static_cast<int64_t>(rows));
  for (size_t begin = 0; begin < positions.size(); begin += rows) {
    const size_t count = std::min(rows, positions.size() - begin);
    chunk.Compute(positions.subspan(begin, count), top, &cells[begin * layers]);
  }
  return cells;
}

}  // namespace folio
