#pragma once

#include "folio/model/attention_mask.h"
#include "folio/model/self_attention.h"

namespace folio {

// Single-head self-attention in which no token sees a later one, the mask applied before or after
// the softmax (which agree), with dropout of the weights.
class CausalAttention {
 public:
  CausalAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T,
                  MaskOrder order = MaskOrder::kBeforeSoftmax, Dtype dtype = Dtype::kF32);

  void set_dropout(const Dropout& dropout) { attention_.options().dropout = dropout; }

  // As SelfAttention.
  const Tensor& Forward(const AttentionParams& params, const Tensor& x);
  void Backward(const AttentionParams& params, const Tensor& x, const Tensor& d_context,
                const AttentionParams& d_params, const Tensor& d_x);

  const Tensor& q() const { return attention_.q(); }
  const Tensor& k() const { return attention_.k(); }
  const Tensor& v() const { return attention_.v(); }
  const AttentionSteps& steps() const { return attention_.steps(); }

 private:
  AttentionMask mask_;
  SelfAttention attention_;
};

}  // namespace folio
