#include "folio/eval/predictions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/term/signals.h"

namespace folio {

Predictor::Predictor(std::vector<MeasuredModel> models, int64_t positions)
    : models_(std::move(models)),
      positions_(positions),
      limit_(std::numeric_limits<int64_t>::max()),
      passes_(models_.size()) {
  FOLIO_CHECK(!models_.empty(), "no model to measure");
  const int64_t V = models_[0].weights->config().vocab_size;
  for (const MeasuredModel& model : models_) {
    const GptConfig& config = model.weights->config();
    FOLIO_CHECK(config.vocab_size == V, "models of different vocabularies");
    if (!config.causal) {
      throw InputError("the model attends both ways and predicts nothing",
                       "its tokens see those behind them (model.causal = false)");
    }
    limit_ = std::min(limit_, config.n_positions);
    logits_.push_back(plan_.Add("logits", Dtype::kF32, {LossChunkRows(limit_, V), V}));
  }
  plan_.Place();
  arena_ = Arena(plan_);
}

// A function of the window alone, so that its numbers are too.
int64_t Predictor::Padded(int64_t tokens) const {
  constexpr int64_t kStep = 64;
  return std::min(limit_, CeilDiv(tokens, kStep) * kStep);
}

void Predictor::Run(std::span<const TextWindow> windows, const OnPrediction& on_prediction) {
  std::map<int64_t, std::vector<size_t>> by_length;
  for (size_t w = 0; w < windows.size(); ++w) {
    by_length[Padded(std::ssize(windows[w].ids))].push_back(w);
  }
  for (const auto& [T, chosen] : by_length) {
    const auto most = static_cast<size_t>(std::max<int64_t>(positions_ / T, 1));
    for (size_t begin = 0; begin < chosen.size(); begin += most) {
      ThrowIfStopRequested();
      const size_t count = std::min(most, chosen.size() - begin);
      RunTogether(windows, std::span(chosen).subspan(begin, count), T, on_prediction);
    }
  }
}

void Predictor::RunTogether(std::span<const TextWindow> windows, std::span<const size_t> chosen,
                            int64_t T, const OnPrediction& on_prediction) {
  const auto B = static_cast<int64_t>(chosen.size());
  std::vector<int32_t> ids(static_cast<size_t>(B * T));  // what follows a window is not looked at
  for (size_t b = 0; b < chosen.size(); ++b) {
    std::ranges::copy(windows[chosen[b]].ids, ids.begin() + static_cast<int64_t>(b) * T);
  }
  for (size_t m = 0; m < models_.size(); ++m) {
    const auto& [backend, weights] = models_[m];
    if (!passes_[m] || passes_[m]->B() != B || passes_[m]->T() != T) {
      passes_[m].reset();
      passes_[m] = std::make_unique<GptPass>(*backend, weights->config(), B, T, PassKind::kForward);
    }
    passes_[m]->Forward(weights->params(), ids);
  }
  const Tensor first = arena_.Get(plan_, logits_[0]);
  const int64_t V = first.dim(1), chunk = arena_.Get(plan_, logits_.back()).dim(0);
  for (size_t b = 0; b < chosen.size(); ++b) {
    const TextWindow& window = windows[chosen[b]];
    const int64_t row = static_cast<int64_t>(b) * T + window.first;
    const int64_t count = std::ssize(window.targets);
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t rows = std::min(chunk, count - begin);
      for (size_t m = 0; m < models_.size(); ++m) {
        passes_[m]->Logits(models_[m].weights->params(), row + begin, row + begin + rows,
                           arena_.Get(plan_, logits_[m]).Slice(0, rows));
      }
      ParallelFor(rows, [&](int64_t i, int) {
        std::vector<std::span<const float>> logits(models_.size());
        for (size_t m = 0; m < models_.size(); ++m) {
          logits[m] = {arena_.Get(plan_, logits_[m]).data<float>() + i * V, static_cast<size_t>(V)};
        }
        on_prediction(chosen[b], static_cast<size_t>(begin + i), logits);
      });
    }
  }
}

}  // namespace folio
