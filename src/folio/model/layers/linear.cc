#include "folio/model/layers/linear.h"

#include <utility>

namespace folio {
namespace {

// Returns x (N,in) as the adapter reads it: in `scratch`, if it is dropped from.
Tensor AdapterInput(const PassContext& pass, const Dropout& dropout, const Tensor& x,
                    const Tensor& scratch) {
  if (!dropout.active()) return x;
  const Tensor dropped(scratch.raw(), scratch.dtype(), x.shape());
  pass.backend.Run(ResidualForward{.x = x, .out = dropped, .dropout = dropout});
  return dropped;
}

}  // namespace

void LinearLayerForward(const PassContext& pass, int64_t layer, const Linear& linear,
                        const LinearParams& params, const LinearActivations& acts,
                        const Tensor& scratch, LinearForward op) {
  op.weight = params.weight;
  if (!linear.shares_input() || pass.shard.index == 0) op.bias = params.bias;
  op.transposed = IsStored(op.weight.dtype());
  if (!params.lora_a) {
    pass.backend.Run(op);
    if (linear.shares_input()) pass.Sum(op.out);
    return;
  }
  FOLIO_CHECK(pass.shard.whole(), "adapters are whole");
  const Dropout dropout = pass.BlockDropout(layer, linear.adapter_dropout);
  const Tensor act = std::exchange(op.act, Tensor());
  pass.backend.Run(op);
  pass.backend.Run(LinearForward{.x = AdapterInput(pass, dropout, op.x, scratch),
                                 .weight = params.lora_a,
                                 .out = acts.adapted,
                                 .transposed = true});
  pass.backend.Run(Scale{.x = acts.adapted, .factor = pass.lora.scale()});
  pass.backend.Run(LinearForward{.x = acts.adapted,
                                 .weight = params.lora_b,
                                 .out = op.out,
                                 .transposed = true,
                                 .accumulate = true});
  if (act) pass.backend.Run(ActivationForward{.kind = op.activation, .x = op.out, .out = act});
}

void LinearLayerBackward(const PassContext& pass, int64_t layer, const Linear& linear,
                         const LinearParams& params, const LinearActivations& acts,
                         const LinearParams& d_params, const GptGradients& grads,
                         LinearBackward op) {
  op.weight = params.weight;
  op.d_weight = d_params.weight;
  op.d_bias = d_params.bias;
  op.accumulate_d_weight = pass.accumulate;
  const Tensor x = op.x;
  if (!op.d_weight) op.x = {};
  if (!params.lora_a) {
    const bool sums = !linear.shares_input() && !pass.shard.whole();
    FOLIO_CHECK(!sums || !op.accumulate_d_x, "a sum would have what is there several times");
    pass.backend.Run(op);
    if (sums) pass.Sum(op.d_x);
    return;
  }
  // The adapter goes first: its gradient of x alone is dropped from.
  const Dropout dropout = pass.BlockDropout(layer, linear.adapter_dropout);
  FOLIO_CHECK(!dropout.active() || !op.accumulate_d_x, "dropout would meet other gradients");
  pass.backend.Run(LinearBackward{.x = acts.adapted,
                                  .weight = params.lora_b,
                                  .d_out = op.d_out,
                                  .d_x = grads.d_lora,
                                  .d_weight = d_params.lora_b,
                                  .transposed = true,
                                  .accumulate_d_weight = pass.accumulate});
  pass.backend.Run(Scale{.x = grads.d_lora, .factor = pass.lora.scale()});
  pass.backend.Run(LinearBackward{.x = AdapterInput(pass, dropout, x, grads.lora_input),
                                  .weight = params.lora_a,
                                  .d_out = grads.d_lora,
                                  .d_x = op.d_x,
                                  .d_weight = d_params.lora_a,
                                  .transposed = true,
                                  .accumulate_d_x = op.accumulate_d_x,
                                  .accumulate_d_weight = pass.accumulate});
  pass.Drop(op.d_x, dropout);
  op.accumulate_d_x = true;
  const Tensor pre = std::exchange(op.pre, Tensor());
  pass.backend.Run(op);
  if (!pre) return;
  pass.backend.Run(
      ActivationBackward{.kind = op.activation, .x = pre, .d_out = op.d_x, .d_x = op.d_x});
}

}  // namespace folio
