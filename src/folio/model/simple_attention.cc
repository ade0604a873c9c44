#include "folio/model/simple_attention.h"

namespace folio {

SimpleAttention::SimpleAttention(Backend& backend, int64_t B, int64_t T, int64_t C,
                                 Weighting weighting, Dtype dtype)
    : backend_(backend),
      B_(B),
      T_(T),
      C_(C),
      attention_(backend, B, T, T, C, C, {.scale = 1.0, .weighting = weighting}, dtype) {
  MemoryPlan plan;
  const MemoryPlan::Id d_key = plan.Add("d_key", dtype, {B * T, C});
  const MemoryPlan::Id d_value = plan.Add("d_value", dtype, {B * T, C});
  plan.Place();
  arena_ = Arena(plan);
  d_key_ = arena_.Get(plan, d_key);
  d_value_ = arena_.Get(plan, d_value);
}

const AttentionSteps& SimpleAttention::Forward(const Tensor& x) {
  const SequenceView rows = View(x);
  attention_.Forward(rows, rows, rows);
  return attention_.steps();
}

void SimpleAttention::Backward(const Tensor& x, const Tensor& d_context, const Tensor& d_x) {
  const SequenceView rows = View(x);
  attention_.Backward(rows, rows, rows, d_context, View(d_x), View(d_key_), View(d_value_));
  for (const Tensor& part : {d_key_, d_value_}) {
    backend_.Run(ResidualForward{.residual = d_x, .x = part, .out = d_x});
  }
}

}  // namespace folio
