#include "folio/model/activations.h"

#include <fmt/format.h>

namespace folio {

HeadLayout PassShape::heads() const {
  return config.head_layout().ShardOf(shard());
}

MemoryPlan PlanBuffers(const PassShape& pass) {
  MemoryPlan plan;
  PassBuffers none;
  VisitBuffers(pass, none, [&](const BufferRow& row, const Tensor&) {
    std::string name =
        row.layer < 0 ? std::string(row.name) : fmt::format("h.{}.{}", row.layer, row.name);
    plan.Add(std::move(name), row.dtype, row.shape, row.life.first, row.life.last);
  });
  plan.Place();
  return plan;
}

void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers) {
  MemoryPlan::Id next = 0;
  VisitBuffers(pass, buffers, [&](const BufferRow& row, Tensor& slot) {
    const Tensor planned = arena.Get(plan, next++);
    FOLIO_CHECK(planned.dtype() == row.dtype && row.shape.count() <= planned.count(),
                "the plan is another pass's");
    slot = Tensor(planned.raw(), row.dtype, row.shape);
  });
  if (pass.training() && !buffers.grads.d_logits) buffers.grads.d_logits = buffers.acts.logits;
}

}  // namespace folio
