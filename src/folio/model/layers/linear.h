#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

struct LinearParams {
  Tensor weight, bias;  // (in,out), (out)
  // The matrices of its adapter (lora.h), (rank,in) and (out,rank); with p adapters (p rank,in),
  // one below the other, and (width of their columns,rank).
  Tensor lora_a = {}, lora_b = {};
};

struct LinearActivations {
  // (N,p rank), what p adapters give before their second matrices, times their scale().
  Tensor adapted;
  Tensor spread;  // (out,p rank), adapters of parts: the second matrices as one
};

// The declaration of a linear layer of a block: y = x W + b, and what its adapter adds.
struct Linear {
  std::string_view name;         // "attn.c_attn", as targets of adapters have it
  std::string_view adapted;      // the name of LinearActivations::adapted in lists of buffers
  InitKind init;                 // of the weight
  ShardAxis axis;                // of the weight
  DropoutPlace adapter_dropout;  // of what the adapter reads
  // Parts of its result that some families have as layers of their own: names as `name`. Adapters
  // of these read the same, dropped from once.
  std::array<std::string_view, 3> parts = {};
  std::string_view spread = {};  // the name of LinearActivations::spread in lists of buffers

  // Shards that each have some of the inputs add up what they give, and those that each have some
  // of the outputs add up their gradients of what they read.
  bool shares_input() const { return axis == ShardAxis::kRows; }
};

// Columns of a layer's result that are one of its parts.
ColumnRange PartColumns(const GptConfig& config, const Linear& linear, size_t part);

// The columns of a layer's result that adapters add to: one to all of it, or one to each of some
// parts.
struct AdaptedColumns {
  std::array<ColumnRange, 3> ranges = {};
  int64_t count = 0;
  bool parts = false;

  int64_t width() const { return ranges[0].width + ranges[1].width + ranges[2].width; }
};
// `width` is that of the result. Allocates nothing.
AdaptedColumns AdaptedColumnsOf(const GptConfig& config, const LoraConfig& lora,
                                const Linear& linear, int64_t width);

// Returns true if the weights that the layer multiplies with, or those of its adapters, are
// trained.
bool IsTrained(const LoraConfig& lora, const Linear& linear);

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
  const AdaptedColumns adapted = AdaptedColumnsOf(list.config, list.lora, linear, shape[1]);
  if (adapted.count == 0) return;
  const int64_t rank = list.lora.rank;
  list.Add(linear.name, "lora_A.weight", params.lora_a, {adapted.count * rank, shape[0]}, kAdapter,
           InitKind::kFanIn);
  list.Add(linear.name, "lora_B.weight", params.lora_b, {adapted.width(), rank}, kAdapter,
           InitKind::kZero);
}

// `width` is that of the result.
template <class Visit>
void VisitBuffers(const BufferList<Visit>& list, const Linear& linear, int64_t width,
                  LinearActivations& acts) {
  const LoraConfig& lora = list.pass.lora();
  const AdaptedColumns adapted = AdaptedColumnsOf(list.pass.config, lora, linear, width);
  if (adapted.count == 0) return;
  const int64_t ranks = adapted.count * lora.rank;
  list.Add(linear.adapted, acts.adapted, list.low(), {list.pass.N(), ranks});
  if (adapted.parts) list.Add(linear.spread, acts.spread, list.number(), {width, ranks});
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
