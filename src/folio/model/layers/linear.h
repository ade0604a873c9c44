#pragma once

#include <string_view>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

struct LinearParams {
  Tensor weight, bias;              // (in,out), (out)
  Tensor lora_a = {}, lora_b = {};  // (rank,in), (out,rank): of the adapter (lora.h)
};

struct LinearActivations {
  Tensor adapted;  // (N,rank), what the adapter gives before its second matrix, times its scale()
};

// The declaration of a linear layer of a block: y = x W + b, and what its adapter adds.
struct Linear {
  std::string_view name;         // "attn.c_attn", as targets of adapters have it
  std::string_view adapted;      // the name of LinearActivations::adapted in lists of buffers
  InitKind init;                 // of the weight
  ShardAxis axis;                // of the weight
  DropoutPlace adapter_dropout;  // of what the adapter reads

  // Shards that each have some of the inputs add up what they give, and those that each have some
  // of the outputs add up their gradients of what they read.
  bool shares_input() const { return axis == ShardAxis::kRows; }
};

// `shape` is that of the weight, (in,out).
template <class Visit, class Params>
void VisitParams(const ParamList<Visit>& list, const Linear& linear, Params& params,
                 const Shape& shape, bool has_bias) {
  using enum ParamKind;
  const ShardAxis bias_axis = linear.shares_input() ? ShardAxis::kNone : linear.axis;
  list.Add(linear.name, "weight", params.weight, shape, kLinear, linear.init, linear.axis);
  if (has_bias) {
    list.Add(linear.name, "bias", params.bias, {shape[1]}, kBias, InitKind::kZero, bias_axis);
  }
  if (!list.lora.Adapts(linear.name)) return;
  const int64_t rank = list.lora.rank;
  list.Add(linear.name, "lora_A.weight", params.lora_a, {rank, shape[0]}, kAdapter,
           InitKind::kFanIn);
  list.Add(linear.name, "lora_B.weight", params.lora_b, {shape[1], rank}, kAdapter,
           InitKind::kZero);
}

template <class Visit>
void VisitBuffers(const BufferList<Visit>& list, const Linear& linear, LinearActivations& acts) {
  const LoraConfig& lora = list.pass.lora();
  if (!lora.Adapts(linear.name)) return;
  list.Add(linear.adapted, acts.adapted, list.low(), {list.pass.N(), lora.rank});
}

// Runs `op`, whose weight and bias the layer gives, and adds what the adapter makes of op.x.
// `scratch` is BlockActivations::adapter_input.
void LinearLayerForward(const PassContext& pass, int64_t layer, const Linear& linear,
                        const LinearParams& params, const LinearActivations& acts,
                        const Tensor& scratch, LinearForward op);

// Runs `op`, whose weight the layer gives and whose gradients of parameters are d_params, and the
// adapter's backward. op.x may be anything where the layer trains nothing. REQUIRES: with dropout,
// and in a shard of a model where the layer shares its output, op.d_x is overwritten.
void LinearLayerBackward(const PassContext& pass, int64_t layer, const Linear& linear,
                         const LinearParams& params, const LinearActivations& acts,
                         const LinearParams& d_params, const GptGradients& grads,
                         LinearBackward op);

}  // namespace folio
