#pragma once

#include "folio/backend/backend.h"
#include "folio/tensor/plan.h"
#include "folio/train/config.h"

namespace folio {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of parameters of two or more dimensions
};

AdamWSettings AdamWSettingsOf(const TrainConfig& config);

// What changes from step to step: the step is counted from 1, gradients are multiplied with
// grad_scale.
struct AdamWStep {
  double lr = 0;
  int64_t step = 1;
  double grad_scale = 1;
};

// AdamW with the two moments of so many parameters.
class AdamW {
 public:
  AdamW(Backend& backend, Dtype dtype, int64_t size);

  // Updates parameters whose moments begin at `offset`; with weight decay, if they decay.
  void Step(const AdamWSettings& settings, const AdamWStep& step, const Tensor& param,
            const Tensor& grad, int64_t offset, bool decays);

  // First and second moments.
  const Tensor& m() const { return m_; }
  const Tensor& v() const { return v_; }

 private:
  Backend& backend_;
  MemoryPlan plan_;
  Arena arena_;
  Tensor m_, v_;
};

}  // namespace folio
