#include "folio/train/optimizer.h"

#include <string>

namespace folio {

OptimizerSettings OptimizerSettingsOf(const TrainConfig& config) {
  return {.beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay};
}

double ClipScale(double norm, double max_norm) {
  constexpr double kTiny = 1e-6;  // keeps the quotient below 1 when norm is just above max_norm
  return max_norm > 0 && norm > max_norm ? max_norm / (norm + kTiny) : 1.0;
}

Optimizer::Optimizer(Backend& backend, Dtype dtype, int64_t size) : backend_(backend) {
  AddTo(plan_, dtype, size);
  plan_.Place();
  arena_ = Arena(plan_);
  for (const std::string_view name : kState) {
    const auto id = static_cast<MemoryPlan::Id>(state_.size());
    state_.push_back({std::string(name), arena_.Get(plan_, id)});
  }
}

void Optimizer::AddTo(MemoryPlan& plan, Dtype dtype, int64_t size) {
  for (const std::string_view name : kState) {
    plan.Add(std::string(kBuffers) + std::string(name), dtype, {size});
  }
}

void Optimizer::Step(const OptimizerSettings& settings, const OptimizerStep& step, ParamGroup group,
                     const Tensor& param, const Tensor& grad, int64_t offset) {
  const int64_t end = offset + param.count();
  backend_.Run(
      AdamWUpdate{.param = param,
                  .grad = grad,
                  .m = state_[0].tensor.Slice(offset, end),
                  .v = state_[1].tensor.Slice(offset, end),
                  .lr = step.lr,
                  .beta1 = settings.beta1,
                  .beta2 = settings.beta2,
                  .eps = settings.eps,
                  .weight_decay = group == ParamGroup::kDecayed ? settings.weight_decay : 0,
                  .step = step.step,
                  .grad_scale = step.grad_scale});
}

}  // namespace folio
