#include "folio/train/plan_totals.h"

namespace folio {

PlanTotals::PlanTotals(const MemoryPlan& plan) : peak(plan.arena_bytes()) {
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name == "weights") {
      weights += buffer.bytes;
    } else if (buffer.name == "gradients") {
      gradients += buffer.bytes;
    } else if (buffer.name.starts_with("adamw.")) {
      optimizer += buffer.bytes;
    } else {
      activations_unshared += buffer.bytes;
      if (buffer.name == "logits" || buffer.name == "d_logits") logits += buffer.bytes;
    }
  }
  activations = peak - weights - gradients - optimizer;
}

}  // namespace folio
