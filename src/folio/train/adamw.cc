#include "folio/train/adamw.h"

namespace folio {

AdamWSettings AdamWSettingsOf(const TrainConfig& config) {
  return {.beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay};
}

AdamW::AdamW(Backend& backend, const ParamTable& table, Dtype dtype)
    : backend_(backend), decay_size_(table.decay_size()) {
  const MemoryPlan::Id m = plan_.Add("adamw.m", dtype, {table.trained_size()});
  const MemoryPlan::Id v = plan_.Add("adamw.v", dtype, {table.trained_size()});
  plan_.Place();
  arena_ = Arena(plan_);
  m_ = arena_.Get(plan_, m);
  v_ = arena_.Get(plan_, v);
}

void AdamW::Step(const AdamWSettings& settings, double lr, int64_t step, double grad_scale,
                 const Tensor& params, const Tensor& grads) {
  const auto update = [&](int64_t begin, int64_t end, double weight_decay) {
    if (begin == end) return;
    backend_.Run(AdamWUpdate{.param = params.Slice(begin, end),
                             .grad = grads.Slice(begin, end),
                             .m = m_.Slice(begin, end),
                             .v = v_.Slice(begin, end),
                             .lr = lr,
                             .beta1 = settings.beta1,
                             .beta2 = settings.beta2,
                             .eps = settings.eps,
                             .weight_decay = weight_decay,
                             .step = step,
                             .grad_scale = grad_scale});
  };
  update(0, decay_size_, settings.weight_decay);
  update(decay_size_, grads.count(), 0);
}

}  // namespace folio
