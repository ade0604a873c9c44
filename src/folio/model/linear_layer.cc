#include "folio/model/linear_layer.h"

#include <utility>

namespace folio {
namespace {

// What the adapter reads of x (N,in): in `scratch`, if it is dropped from.
Tensor AdapterInput(const PassContext& pass, const LinearLayer& layer, const Tensor& x,
                    const Tensor& scratch) {
  if (!layer.dropout.active()) return x;
  const Tensor dropped(scratch.raw(), scratch.dtype(), x.shape());
  pass.backend.Run(ResidualForward{.x = x, .out = dropped, .dropout = layer.dropout});
  return dropped;
}

}  // namespace

void LinearLayerForward(const PassContext& pass, const LinearLayer& layer, const Tensor& scratch,
                        LinearForward op) {
  const LinearParams& params = layer.params;
  op.weight = params.weight;
  const bool sums = layer.shares == LinearLayer::kInput;
  if (!sums || pass.shard.index == 0) op.bias = params.bias;
  op.transposed = IsStored(op.weight.dtype());
  if (!params.lora_a) {
    pass.backend.Run(op);
    if (sums) pass.Sum(op.out);
    return;
  }
  FOLIO_CHECK(pass.shard.whole(), "adapters are whole");
  const Tensor act = std::exchange(op.act, Tensor());
  pass.backend.Run(op);
  pass.backend.Run(LinearForward{.x = AdapterInput(pass, layer, op.x, scratch),
                                 .weight = params.lora_a,
                                 .out = layer.adapted,
                                 .transposed = true});
  pass.backend.Run(Scale{.x = layer.adapted, .factor = pass.lora.scale()});
  pass.backend.Run(LinearForward{.x = layer.adapted,
                                 .weight = params.lora_b,
                                 .out = op.out,
                                 .transposed = true,
                                 .accumulate = true});
  if (act) pass.backend.Run(ActivationForward{.kind = op.activation, .x = op.out, .out = act});
}

void LinearLayerBackward(const PassContext& pass, const LinearLayer& layer,
                         const LinearParams& d_params, const GptGradients& grads,
                         LinearBackward op) {
  const LinearParams& params = layer.params;
  op.weight = params.weight;
  op.d_weight = d_params.weight;
  op.d_bias = d_params.bias;
  op.accumulate_d_weight = pass.accumulate;
  const Tensor x = op.x;
  if (!op.d_weight) op.x = {};
  if (!params.lora_a) {
    const bool sums = layer.shares == LinearLayer::kOutput && !pass.shard.whole();
    FOLIO_CHECK(!sums || !op.accumulate_d_x, "a sum would have what is there several times");
    pass.backend.Run(op);
    if (sums) pass.Sum(op.d_x);
    return;
  }
  // The adapter goes first: its gradient of x alone is dropped from.
  FOLIO_CHECK(!layer.dropout.active() || !op.accumulate_d_x, "dropout would meet other gradients");
  pass.backend.Run(LinearBackward{.x = layer.adapted,
                                  .weight = params.lora_b,
                                  .d_out = op.d_out,
                                  .d_x = grads.d_lora,
                                  .d_weight = d_params.lora_b,
                                  .transposed = true,
                                  .accumulate_d_weight = pass.accumulate});
  pass.backend.Run(Scale{.x = grads.d_lora, .factor = pass.lora.scale()});
  pass.backend.Run(LinearBackward{.x = AdapterInput(pass, layer, x, grads.lora_input),
                                  .weight = params.lora_a,
                                  .d_out = grads.d_lora,
                                  .d_x = op.d_x,
                                  .d_weight = d_params.lora_a,
                                  .transposed = true,
                                  .accumulate_d_x = op.accumulate_d_x,
                                  .accumulate_d_weight = pass.accumulate});
  pass.Drop(op.d_x, layer.dropout);
  op.accumulate_d_x = true;
  const Tensor pre = std::exchange(op.pre, Tensor());
  pass.backend.Run(op);
  if (!pre) return;
  pass.backend.Run(
      ActivationBackward{.kind = op.activation, .x = pre, .d_out = op.d_x, .d_x = op.d_x});
}

}  // namespace folio
