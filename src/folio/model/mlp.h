#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// The feed-forward sublayer: out = c_proj(dropout(activation(c_fc(x)))). x and out are (N,C); out
// is before its own dropout.
void MlpSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                        const BlockActivations& acts, const Tensor& x, const Tensor& out);

// d_out (N,C) is the gradient of out. d_x (N,C) gets that of x, added to what is there if
// accumulate. Scratch: grads.d_wide, grads.act.
void MlpSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                         const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                         const BlockParams& d_params, const GptGradients& grads, const Tensor& d_x,
                         bool accumulate);

}  // namespace folio
