#pragma once

#include <cstdint>

#include "folio/data/batch_sampler.h"
#include "folio/model/gpt.h"

namespace folio {

// Mean losses in nats per token, on training data and on held-out data.
struct Evaluation {
  double train_loss = 0;
  double val_loss = 0;
};

// Sum of the losses of a batch, and how many targets it had.
struct LossSum {
  double sum = 0;
  int64_t targets = 0;

  double mean() const { return sum / static_cast<double>(targets); }
  LossSum& operator+=(const LossSum& more) {
    sum += more.sum;
    targets += more.targets;
    return *this;
  }
};

// The loss, without dropout, of the batch that `sampler` gives for `step`. `batch` is scratch.
LossSum BatchLoss(GptPass& pass, const GptParams& params, BatchSampler& sampler, uint64_t step,
                  Batch& batch);

}  // namespace folio
