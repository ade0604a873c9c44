#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// A linear layer of a block, with what its adapter keeps, if it has one (lora.h).
struct LinearLayer {
  const LinearParams& params;
  const Tensor& adapted;  // (N,rank), of AdapterActivations
  Dropout dropout;        // of what the adapter reads
  // The dimension that shards of a model divide. They add up what one that shares its input
  // gives, and the gradients of what one that shares its output reads.
  enum { kOutput, kInput } shares;
};

// Runs `op`, whose weight and bias the layer gives, and adds what the adapter makes of op.x.
// `scratch` is AdapterActivations::input.
void LinearLayerForward(const PassContext& pass, const LinearLayer& layer, const Tensor& scratch,
                        LinearForward op);

// Runs `op`, whose weight the layer gives and whose gradients of parameters are d_params, and the
// adapter's backward. op.x may be anything where the layer trains nothing. REQUIRES: with dropout,
// and in a shard of a model where the layer shares its output, op.d_x is overwritten.
void LinearLayerBackward(const PassContext& pass, const LinearLayer& layer,
                         const LinearParams& d_params, const GptGradients& grads,
                         LinearBackward op);

}  // namespace folio
