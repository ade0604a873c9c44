#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// The stream after the block: (N,C), inside `acts`.
Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts);

// One transformer block. x (N,C) is the stream before it; `branch` (N,C) is scratch. What a
// sublayer reads and what it gives is dropped from, where the configuration says so.
//   pre:  sum_1 = x + attention(ln_1(x));   sum_2 = sum_1 + mlp(ln_2(sum_1));  result sum_2
//   post: sum_1 = x + attention(x);  norm_1 = ln_1(sum_1);
//         sum_2 = norm_1 + mlp(norm_1);  result ln_2(sum_2)
void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch);

// grads.d_stream holds the gradient of the result and gets that of x. d_params gets +=.
void BlockBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                   const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                   const GptGradients& grads);

}  // namespace folio
