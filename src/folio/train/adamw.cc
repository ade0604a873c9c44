#include "folio/train/adamw.h"

namespace folio {

AdamWSettings AdamWSettingsOf(const TrainConfig& config) {
  return {.beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay};
}

AdamW::AdamW(Backend& backend, Dtype dtype, int64_t size) : backend_(backend) {
  const MemoryPlan::Id m = plan_.Add("adamw.m", dtype, {size});
  const MemoryPlan::Id v = plan_.Add("adamw.v", dtype, {size});
  plan_.Place();
  arena_ = Arena(plan_);
  m_ = arena_.Get(plan_, m);
  v_ = arena_.Get(plan_, v);
}

void AdamW::Step(const AdamWSettings& settings, const AdamWStep& step, const Tensor& param,
                 const Tensor& grad, int64_t offset, bool decays) {
  const int64_t end = offset + param.count();
  backend_.Run(AdamWUpdate{.param = param,
                           .grad = grad,
                           .m = m_.Slice(offset, end),
                           .v = v_.Slice(offset, end),
                           .lr = step.lr,
                           .beta1 = settings.beta1,
                           .beta2 = settings.beta2,
                           .eps = settings.eps,
                           .weight_decay = decays ? settings.weight_decay : 0,
                           .step = step.step,
                           .grad_scale = step.grad_scale});
}

}  // namespace folio
