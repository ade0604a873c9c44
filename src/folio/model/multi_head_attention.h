#pragma once

#include "folio/model/attention_steps.h"
#include "folio/model/attention_weights.h"

namespace folio {

// Attention with trainable weights: queries from one sequence, keys and values from the same (self)
// or from another (cross), split into H heads (G of keys and values), with an output projection if
// the sizes have one: A. Vaswani et al., arXiv:1706.03762, section 3.2.2;
// torch.nn.MultiheadAttention. One head without output projection is self_attention.h. Owns the
// activations, not the weights; after construction it allocates nothing.
class MultiHeadAttention {
 public:
  // T queries and S keys in each of B sequences. Of the options H, G and scale come from the sizes.
  // Throws a kUsage Error for sizes that do not fit.
  MultiHeadAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T, int64_t S,
                     const AttentionOptions& options = {}, Dtype dtype = Dtype::kF32);

  // query (B*T, d_in), key_value (B*S, d_kv_in), which may be query itself. Returns out() (B*T,
  // d_out).
  const Tensor& Forward(const AttentionParams& params, const Tensor& query,
                        const Tensor& key_value);

  // After Forward with the same operands. d_params gets +=. d_query and d_key_value are
  // overwritten; where key_value is query itself they are one tensor too, which gets the sum.
  void Backward(const AttentionParams& params, const Tensor& query, const Tensor& key_value,
                const Tensor& d_out, const AttentionParams& d_params, const Tensor& d_query,
                const Tensor& d_key_value);

  // What the last Forward left: q (B*T, H*D), k and v (B*S, G*D), the steps, the result.
  const Tensor& q() const { return q_; }
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  const AttentionSteps& steps() const { return attention_.steps(); }
  const Tensor& out() const { return out_; }
  AttentionOptions& options() { return attention_.options(); }

 private:
  SequenceView Queries(const Tensor& x) const { return {x, B_, T_, 0, x.dim(1)}; }
  SequenceView Keys(const Tensor& x) const { return {x, B_, S_, 0, x.dim(1)}; }

  Backend& backend_;
  AttentionSizes sizes_;
  int64_t B_, T_, S_;
  StepwiseAttention attention_;
  Arena arena_;
  Tensor q_, k_, v_, out_;
  Tensor d_q_, d_k_, d_v_, d_context_;  // scratch; d_context_ only with an output projection
};

}  // namespace folio
