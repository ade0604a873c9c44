#include "folio/train/evaluate.h"

namespace folio {

LossSum BatchLoss(GptPass& pass, const GptParams& params, BatchSampler& sampler, uint64_t step,
                  Batch& batch) {
  sampler.Fill(step, 0, batch);
  pass.Forward(params, batch.inputs);
  LossSum loss{.sum = pass.Loss(params, batch.targets)};
  for (int32_t target : batch.targets) loss.targets += target != Batch::kNoTarget;
  return loss;
}

}  // namespace folio
