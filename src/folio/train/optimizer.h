#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/io/safetensors.h"
#include "folio/model/params.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/config.h"

namespace folio {

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of ParamGroup::kDecayed
};

OptimizerSettings OptimizerSettingsOf(const TrainConfig& config);

// Parameters that are updated alike, by their role. AdamW looks at single elements, so that
// BucketsOf cuts both groups flat; a group whose update needs whole matrices is cut between them.
enum class ParamGroup { kDecayed, kPlain };
inline ParamGroup GroupOf(const ParamInfo& info) {
  return info.decay ? ParamGroup::kDecayed : ParamGroup::kPlain;
}

// The numbers that change from step to step: the step is counted from 1, gradients are multiplied
// with grad_scale.
struct OptimizerStep {
  double lr = 0;
  int64_t step = 1;
  double grad_scale = 1;
};

// Gradient clipping by norm: R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.
// The factor of a gradient of this norm that makes its norm `max_norm` at most; 1 for max_norm 0.
double ClipScale(double norm, double max_norm);

// AdamW, with its two moments of the elements that a rank owns. Whatever saves, gathers, counts or
// plans its state goes through State() or kState, and knows neither how many arrays there are nor
// their names.
class Optimizer {
 public:
  // The arrays that it keeps from step to step, each with a number for every element.
  static constexpr std::array<std::string_view, 2> kState = {"m", "v"};
  // The arrays that a step reads or writes: parameters, gradients, and its state twice.
  static constexpr int64_t kPasses = 3 + 2 * std::ssize(kState);
  // The names of their buffers in a plan begin so.
  static constexpr std::string_view kBuffers = "adamw.";

  Optimizer(Backend& backend, Dtype dtype, int64_t size);
  // Adds the buffers of its state, for so many elements, to a plan.
  static void AddTo(MemoryPlan& plan, Dtype dtype, int64_t size);

  // Updates parameters of one group, whose state begins at `offset`.
  void Step(const OptimizerSettings& settings, const OptimizerStep& step, ParamGroup group,
            const Tensor& param, const Tensor& grad, int64_t offset);

  // The arrays of kState, in its order.
  std::span<const NamedTensor> State() const { return state_; }

 private:
  Backend& backend_;
  MemoryPlan plan_;
  Arena arena_;
  std::vector<NamedTensor> state_;
};

}  // namespace folio
