#pragma once

// The steps of attention, one function each, with their gradients: the specification of what the
// fused AttentionForward computes in one, for whoever wants to see what is in between.
//
// Letters as in backend/ops.h. All operands of a call are dense and of one dtype, float32 or
// float64; sums are made in double. What the names do not tell is in the comment; a programmer's
// mistakes abort.

#include "folio/tensor/tensor.h"

namespace folio {

// scores (B,H,T,S) = scale * q[b,t,h] . k[b,s,h / (H/G)], of q (B*T,H*D) and k (B*S,G*D).
void AttentionScores(const Tensor& q, const Tensor& k, double scale, const Tensor& scores);
void AttentionScoresBackward(const Tensor& q, const Tensor& k, double scale, const Tensor& d_scores,
                             const Tensor& d_q, const Tensor& d_k);

// out (B,H,T,S) = x where mask (B or 1, H or 1, T, S) u8 is not 0, else fill; out may be x. Its
// backward is the same function on the gradient, with fill 0.
void ApplyMask(const Tensor& x, const Tensor& mask, double fill, const Tensor& out);

// Each row, the last dimension of x, becomes exp(x) / sum of exp(x); out may be x. A row of
// -infinity gives zeros.
void Softmax(const Tensor& x, const Tensor& out);
// NaiveSoftmax is the formula as it is written, without taking the row's maximum off first: in
// float32 it overflows to NaN from x = 89 on, and below -87 nothing is left. It shows why nobody
// computes it so.
void NaiveSoftmax(const Tensor& x, const Tensor& out);
// SoftmaxBackward is the backward of both, from their result; d_x may be d_out.
void SoftmaxBackward(const Tensor& out, const Tensor& d_out, const Tensor& d_x);

// Each row of out = x / sum of x, the sum kept for the backward; out may be x. A row whose sum is 0
// gives zeros and no gradient.
void Normalize(const Tensor& x, const Tensor& out, const Tensor& sums);
void NormalizeBackward(const Tensor& out, const Tensor& sums, const Tensor& d_out,
                       const Tensor& d_x);

// context (B*T,H*D) = sum over s of weights[b,h,t,s] * v[b,s,h / (H/G)], of weights (B,H,T,S) and v
// (B*S,G*D).
void AttentionContext(const Tensor& weights, const Tensor& v, const Tensor& context);
void AttentionContextBackward(const Tensor& weights, const Tensor& v, const Tensor& d_context,
                              const Tensor& d_weights, const Tensor& d_v);

}  // namespace folio
