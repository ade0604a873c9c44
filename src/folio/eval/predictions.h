#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "folio/eval/windows.h"
#include "folio/model/gpt.h"

namespace folio {

// A model that is measured, owned by somebody else.
struct MeasuredModel {
  Backend* backend = nullptr;
  const GptWeights* weights = nullptr;
};

// Runs windows through one model, or through several for comparing what they predict. What comes of
// a window depends on it alone: on neither the windows that run beside it nor the number of
// threads.
class Predictor {
 public:
  // Logits of one prediction, (V), of each of the models.
  using Rows = std::span<const std::span<const float>>;
  // Prediction `target` of window `window`. Called from several threads, once for each.
  using OnPrediction = std::function<void(size_t window, size_t target, Rows rows)>;

  // Runs as many windows at once as have about `positions` tokens, one at least. Throws a kInput
  // Error for a model whose tokens see those behind them. REQUIRES: one vocab_size.
  Predictor(std::vector<MeasuredModel> models, int64_t positions);

  // Each window has at most n_positions tokens. Throws Stopped (term/signals.h) between passes if
  // that was asked for.
  void Run(std::span<const TextWindow> windows, const OnPrediction& on_prediction);

 private:
  void RunTogether(std::span<const TextWindow> windows, std::span<const size_t> chosen, int64_t T,
                   const OnPrediction& on_prediction);
  // The length that a window of so many tokens is filled up to.
  int64_t Padded(int64_t tokens) const;

  std::vector<MeasuredModel> models_;
  int64_t positions_;
  int64_t limit_;  // n_positions of the model that reads least
  std::vector<std::unique_ptr<GptPass>> passes_;
  MemoryPlan plan_;
  std::vector<MemoryPlan::Id> logits_;
  Arena arena_;
};

}  // namespace folio
