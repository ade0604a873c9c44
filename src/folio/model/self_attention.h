#pragma once

#include "folio/model/multi_head_attention.h"

namespace folio {

// Single-head self-attention: queries, keys and values are x W_q, x W_k and x W_v, of d_out
// elements; scores are divided by sqrt(d_out). Every token sees every token.
class SelfAttention {
 public:
  // REQUIRES: sizes.H = 1, no out_proj.
  SelfAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T,
                const AttentionOptions& options = {}, Dtype dtype = Dtype::kF32);

  // x (B*T, d_in). Returns the context (B*T, d_out).
  const Tensor& Forward(const AttentionParams& params, const Tensor& x);
  // d_params gets +=, d_x is overwritten.
  void Backward(const AttentionParams& params, const Tensor& x, const Tensor& d_context,
                const AttentionParams& d_params, const Tensor& d_x);

  const Tensor& q() const { return attention_.q(); }
  const Tensor& k() const { return attention_.k(); }
  const Tensor& v() const { return attention_.v(); }
  const AttentionSteps& steps() const { return attention_.steps(); }
  AttentionOptions& options() { return attention_.options(); }

 private:
  MultiHeadAttention attention_;
};

}  // namespace folio
