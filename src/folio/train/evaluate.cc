#include "folio/train/evaluate.h"

#include <algorithm>

namespace folio {

double MeanLoss(const std::vector<double>& mine, const Communicator& communicator,
                int64_t in_a_row) {
  const std::vector<std::vector<double>> ranks = communicator.GatherNumbers(mine);
  const size_t turn = 2 * static_cast<size_t>(in_a_row);
  double sum = 0, targets = 0;
  for (size_t begin = 0; begin < mine.size(); begin += turn) {
    for (const std::vector<double>& rank : ranks) {
      for (size_t i = begin; i < begin + turn; i += 2) {
        sum += rank[i];
        targets += rank[i + 1];
      }
    }
  }
  return sum / targets;
}

std::optional<Evaluation> Evaluate(
    GptPass& pass, const GptParams& params, const EvaluationData& train, const EvaluationData& val,
    Batch& batch, const std::function<bool()>& stop_requested,
    const std::function<void(int64_t done, int64_t total)>& on_progress,
    const Communicator& communicator) {
  const int64_t ranks = communicator.size(), rank = communicator.rank();
  const int64_t total = train.batches + val.batches;
  int64_t done = 0;
  std::vector<double> losses;
  for (const EvaluationData& data : {train, val}) {
    std::vector<double> sums;
    for (int64_t first = 0; first < data.batches; first += ranks) {
      if (stop_requested()) return {};
      const int64_t b = first + rank;
      if (b >= data.batches) {
        sums.insert(sums.end(), {0, 0});  // as many as the others have
        continue;
      }
      data.sampler.Fill(static_cast<uint64_t>(b), 0, batch);
      if (pass.packed()) pass.set_begins(batch.begins);
      pass.Forward(params, batch.inputs);
      sums.push_back(pass.Loss(params, batch.targets));
      sums.push_back(static_cast<double>(batch.CountTargets()));
      done = std::min(total, done + ranks);
      if (on_progress) on_progress(done, total);
    }
    losses.push_back(MeanLoss(sums, communicator));
  }
  return Evaluation{.train_loss = losses[0], .val_loss = losses[1]};
}

}  // namespace folio
