#include "folio/train/evaluate.h"

namespace folio {
namespace {

// Sum of the losses of batches, and how many targets they had.
struct LossSum {
  double sum = 0;
  int64_t targets = 0;

  double mean() const { return sum / static_cast<double>(targets); }
};

}  // namespace

std::optional<Evaluation> Evaluate(GptPass& pass, const GptParams& params,
                                   const EvaluationData& train, const EvaluationData& val,
                                   Batch& batch, const EvaluationHooks& hooks) {
  const int64_t total = train.batches + val.batches;
  int64_t done = 0;
  LossSum train_loss, val_loss;
  for (const auto& [data, loss] : {std::pair(&train, &train_loss), std::pair(&val, &val_loss)}) {
    for (int64_t b = 0; b < data->batches; ++b) {
      if (hooks.stop_requested && hooks.stop_requested()) return {};
      data->sampler.Fill(static_cast<uint64_t>(b), 0, batch);
      if (pass.packed()) pass.set_begins(batch.begins);
      pass.Forward(params, batch.inputs);
      loss->sum += pass.Loss(params, batch.targets);
      loss->targets += batch.CountTargets();
      if (hooks.on_progress) hooks.on_progress(++done, total);
    }
  }
  return Evaluation{.train_loss = train_loss.mean(), .val_loss = val_loss.mean()};
}

}  // namespace folio
