#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/dist/workers.h"
#include "folio/eval/windows.h"
#include "folio/model/gpt.h"

namespace folio {

// A model that is measured, owned by somebody else.
struct MeasuredModel {
  Backend* backend = nullptr;
  const GptWeights* weights = nullptr;
};

// Runs windows through one model, or through several for comparing what they predict, on all ranks
// of a group. The result of a window depends on it alone: on neither the windows that run beside it
// nor the number of threads or ranks.
class Predictor {
 public:
  // Logits of one prediction, (V), of each of the models.
  using Rows = std::span<const std::span<const float>>;
  // A Measure keeps some numbers of a prediction whose right token is `id`, equally many of each.
  // Called from several threads.
  using Measure = std::function<void(Rows rows, int32_t id, std::span<double> numbers)>;

  // Runs as many windows at once as have about `positions` tokens, one at least, on each rank;
  // where products of matrices depend on their number of rows, one at a time. `group` (null for one
  // rank alone) must outlive it; all its ranks make one with the same models and the same measure.
  // Throws a kInput Error for a model whose tokens see those behind them. REQUIRES: one vocab_size.
  Predictor(std::vector<MeasuredModel> models, int64_t positions, size_t numbers, Measure measure,
            Group* group = nullptr);

  bool first() const { return workers_.first(); }
  // Tokens that all ranks can run at once, about.
  int64_t positions() const { return positions_ * workers_.ranks(); }

  // Returns, on the first rank, the numbers of all targets, window by window. Each window has at
  // most n_positions tokens. Throws Stopped (term/signals.h) between passes if that was asked for,
  // and a kDiverged Error where logits are not finite.
  std::vector<double> Run(std::span<const TextWindow> windows);
  // Runs, on the other ranks, what the first one has for them, until that one's Predictor is gone.
  void Serve();

 private:
  // Windows that one rank runs, and where the numbers of each go.
  struct Share {
    std::vector<TextWindow> windows;
    std::vector<std::span<double>> numbers;
  };

  std::vector<std::vector<size_t>> Divide(std::span<const TextWindow> windows) const;
  void RunHere(const Share& share);
  void RunTogether(const Share& share, std::span<const size_t> chosen, int64_t T);
  // The length that a window of so many tokens is filled up to.
  int64_t Padded(int64_t tokens) const;

  std::vector<MeasuredModel> models_;
  int64_t positions_;  // of each rank
  size_t numbers_;     // of a target
  bool apart_ = true;  // windows may run beside each other without a change of any bit
  Measure measure_;
  Workers workers_;
  int64_t limit_;  // n_positions of the model that reads least
  std::vector<std::unique_ptr<GptPass>> passes_;
  MemoryPlan plan_;
  std::vector<MemoryPlan::Id> logits_;
  Arena arena_;
};

}  // namespace folio
