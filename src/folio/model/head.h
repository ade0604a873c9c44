#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// The loss head: logits = norm_f(x) wte^T (or lm_head), losses by cross-entropy. Rows go through in
// chunks, so that the logits of all rows never exist at once.

// The logits (R,V) of rows x (R,C) of norm_f's result, into `out`.
void HeadLogits(const PassContext& pass, const GptParams& params, const Tensor& x,
                const Tensor& out);

// Fills acts.losses (N). With targets (N) i32.
void HeadForward(const PassContext& pass, const GptParams& params, const GptActivations& acts,
                 const Tensor& targets);

// Fills acts.losses too, and goes backward: grads.d_branch gets the gradient of norm_f's result,
// where the total is scale * sum(losses). d_params gets +=. Scratch: grads.d_logits.
void HeadForwardBackward(const PassContext& pass, const GptParams& params,
                         const GptActivations& acts, const Tensor& targets, double scale,
                         const GptParams& d_params, const GptGradients& grads);

}  // namespace folio
