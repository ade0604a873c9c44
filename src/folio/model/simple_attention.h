#pragma once

#include "folio/model/attention_steps.h"

namespace folio {

// Attention without weights: every row of x is query, key and value at once. scores = x x^T,
// context = weights x. Not scaled.
class SimpleAttention {
 public:
  SimpleAttention(Backend& backend, int64_t B, int64_t T, int64_t C,
                  Weighting weighting = Weighting::kSoftmax, Dtype dtype = Dtype::kF32);

  // x (B*T,C).
  const AttentionSteps& Forward(const Tensor& x);
  // d_x (B*T,C), overwritten: the sum of what comes by way of query, key and value.
  void Backward(const Tensor& x, const Tensor& d_context, const Tensor& d_x);

  const AttentionSteps& steps() const { return attention_.steps(); }

 private:
  SequenceView View(const Tensor& x) const { return {x, B_, T_, 0, C_}; }

  Backend& backend_;
  int64_t B_, T_, C_;
  StepwiseAttention attention_;
  Arena arena_;
  Tensor d_key_, d_value_;  // (B*T,C)
};

}  // namespace folio
