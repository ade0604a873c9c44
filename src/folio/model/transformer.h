#pragma once

#include <cstdint>
#include <span>

#include "folio/model/activations.h"
#include "folio/model/param_list.h"

namespace folio {

// Copies tokens to a i32 tensor of as many elements. REQUIRES: each in [lowest, V).
void CopyTokens(std::span<const int32_t> from, const Tensor& to, int32_t lowest, int64_t V);

// A model up to its final LayerNorm, from the tokens in buffers.ids: embeddings, blocks, ln_f. The
// step that training, evaluation and decoding share; logits and losses of acts.norm_f.out are
// layers/head.h's.
void TransformerForward(const PassContext& pass, const GptParams& params,
                        const PassBuffers& buffers);

// grads.d_branch holds the gradient of ln_f's result. d_params gets +=.
void TransformerBackward(const PassContext& pass, const GptParams& params,
                         const PassBuffers& buffers, const GptParams& d_params);

}  // namespace folio
