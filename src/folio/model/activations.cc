#include "folio/model/activations.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "folio/model/lifetimes.h"

namespace folio {

HeadLayout PassShape::heads() const {
  return config.head_layout().ShardOf(shard());
}

MemoryPlan PlanBuffers(const PassShape& pass) {
  MemoryPlan plan;
  PassBuffers none;
  std::vector<Beyond> beyond;
  VisitBuffers(pass, none, [&](const BufferRow& row, const Tensor&) {
    std::string name =
        row.layer < 0 ? std::string(row.name) : fmt::format("h.{}.{}", row.layer, row.name);
    plan.Add(std::move(name), row.dtype, row.shape);
    beyond.push_back(row.beyond);
  });
  const std::vector<Lifetime> lives = RecordLifetimes(pass, plan);
  for (size_t i = 0; i < lives.size(); ++i) {
    const bool input = beyond[i] == Beyond::kInput, stays = beyond[i] != Beyond::kNothing;
    plan.SetLife(static_cast<MemoryPlan::Id>(i), input ? 0 : lives[i].first,
                 stays ? MemoryPlan::kAlways : lives[i].last);
  }
  plan.Place();
  return plan;
}

void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers) {
  MemoryPlan::Id next = 0;
  BindBuffersTo(pass, buffers, [&](const BufferRow& row) {
    const Tensor planned = arena.Get(plan, next++);
    FOLIO_CHECK(planned.dtype() == row.dtype && row.shape.count() <= planned.count(),
                "the plan is another pass's");
    return Tensor(planned.raw(), row.dtype, row.shape);
  });
}

}  // namespace folio
