#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// Multi-head self-attention: A. Vaswani et al., arXiv:1706.03762, with GPT-2's fused c_attn; causal
// if the configuration says so. x is the sublayer's input (N,C), out its result (N,C), before
// dropout.
void AttentionSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                              const BlockActivations& acts, const Tensor& x, const Tensor& out);

// d_out (N,C) is the gradient of out. d_x (N,C) gets that of x, added to what is there if
// accumulate. Scratch: grads.d_wide and grads.d_attn.
void AttentionSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                               const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                               const BlockParams& d_params, const GptGradients& grads,
                               const Tensor& d_x, bool accumulate);

// The weights (B,H,T,S) that a block's attention over these queries (B,T,H*D) and keys (B,S,H*D)
// uses, recomputed: no pass keeps them. H may be a part of the block's heads. `mask` is as in
// ops.h, or empty.
void AttentionProbabilities(Backend& backend, const GptConfig& config, int64_t layer,
                            const SequenceView& q, const SequenceView& k, const Tensor& probs,
                            const Tensor& mask = {});

}  // namespace folio
