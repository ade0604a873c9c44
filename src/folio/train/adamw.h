#pragma once

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/train/config.h"

namespace folio {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of parameters of two or more dimensions
};

AdamWSettings AdamWSettingsOf(const TrainConfig& config);

// AdamW over what is trained of the flat array of a model's parameters, with its two moments.
class AdamW {
 public:
  AdamW(Backend& backend, const ParamTable& table, Dtype dtype);

  // Step number `step`, counted from 1, with gradients multiplied by grad_scale. `params` is the
  // whole array, grads the trained part.
  void Step(const AdamWSettings& settings, double lr, int64_t step, double grad_scale,
            const Tensor& params, const Tensor& grads);

  // First and second moments, laid out as the gradients.
  const Tensor& m() const { return m_; }
  const Tensor& v() const { return v_; }

 private:
  Backend& backend_;
  int64_t decay_size_;
  MemoryPlan plan_;
  Arena arena_;
  Tensor m_, v_;
};

}  // namespace folio
