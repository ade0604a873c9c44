#pragma once

// The steps of attention, one operation each, for whoever wants to see what is in between: scores,
// mask, softmax (or another way to weights), dropout (a ResidualForward on the rows) and context.
// Every (B,H,T,S) array is kept. Letters as in attention_ops.h.

#include <cstdint>
#include <string_view>

#include "folio/backend/attention_ops.h"
#include "folio/tensor/tensor.h"

namespace folio {

// ---- Scores: scores[b,h,t,s] = scale * q[b,t,h] . k[b,s,h / (H/G)] -----------------------------

struct AttentionScoresForward {
  static constexpr std::string_view kName = "attention_scores_forward";
  SequenceView q;  // (B,T,H*D)
  SequenceView k;  // (B,S,G*D)
  Tensor scores;   // (B,H,T,S)
  int64_t H = 1;
  int64_t G = 0;  // a divisor of H; 0 for H
  double scale = 1;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("q", q, Access::kRead), f("k", k, Access::kRead), f("scores", scores, Access::kWrite);
  }
};

struct AttentionScoresBackward {
  static constexpr std::string_view kName = "attention_scores_backward";
  SequenceView q, k;      // as in the forward
  Tensor d_scores;        // (B,H,T,S)
  SequenceView d_q, d_k;  // as q, k
  int64_t H = 1;
  int64_t G = 0;
  double scale = 1;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("d_scores", d_scores, Access::kRead), f("q", q, Access::kRead), f("k", k, Access::kRead);
    f("d_q", d_q, Access::kWrite), f("d_k", d_k, Access::kWrite);
  }
};

// ---- Mask: out = x where mask is not 0, else fill ---------------------------------------------
// Its backward is the same operation on the gradient, with fill 0.

struct MaskForward {
  static constexpr std::string_view kName = "mask_forward";
  Tensor x;         // (B,H,T,S)
  Tensor mask;      // (B or 1, H or 1, T, S) u8
  Tensor out;       // (B,H,T,S), may be x itself
  double fill = 0;  // also -infinity

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("mask", mask, Access::kRead), f("out", out, Access::kWrite);
  }
};

// ---- Softmax: each row of out = exp(x) / sum of exp(x) -----------------------------------------
// A row of -infinity gives zeros.

struct SoftmaxForward {
  static constexpr std::string_view kName = "softmax_forward";
  Tensor x;    // (N,S)
  Tensor out;  // (N,S), may be x itself
  // As the formula is written, without taking the row's maximum off first: in float32 it overflows
  // to NaN from x = 89 on, and below -87 nothing is left. To show why nobody does.
  bool naive = false;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("out", out, Access::kWrite);
  }
};

// d_x = out * (d_out - sum over the row of out * d_out)
struct SoftmaxBackward {
  static constexpr std::string_view kName = "softmax_backward";
  Tensor out;    // (N,S), the forward's result
  Tensor d_out;  // (N,S)
  Tensor d_x;    // (N,S), may be d_out itself

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("out", out, Access::kRead), f("d_out", d_out, Access::kRead), f("d_x", d_x, Access::kWrite);
  }
};

// ---- Normalize: each row of out = x / sum of x -------------------------------------------------
// A row whose sum is 0 gives zeros and no gradient.

struct NormalizeForward {
  static constexpr std::string_view kName = "normalize_forward";
  Tensor x;     // (N,S)
  Tensor out;   // (N,S), may be x itself
  Tensor sums;  // (N), kept for the backward

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("out", out, Access::kWrite), f("sums", sums, Access::kWrite);
  }
};

// d_x = (d_out - sum over the row of out * d_out) / sums
struct NormalizeBackward {
  static constexpr std::string_view kName = "normalize_backward";
  Tensor out;    // (N,S), the forward's result
  Tensor sums;   // (N)
  Tensor d_out;  // (N,S)
  Tensor d_x;    // (N,S), may be d_out itself

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("out", out, Access::kRead), f("sums", sums, Access::kRead);
    f("d_out", d_out, Access::kRead), f("d_x", d_x, Access::kWrite);
  }
};

// ---- Context: out[b,t,h] = sum over s of weights[b,h,t,s] * v[b,s,h / (H/G)] -------------------

struct AttentionContextForward {
  static constexpr std::string_view kName = "attention_context_forward";
  Tensor weights;    // (B,H,T,S)
  SequenceView v;    // (B,S,G*D)
  SequenceView out;  // (B,T,H*D)
  int64_t H = 1;
  int64_t G = 0;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("weights", weights, Access::kRead), f("v", v, Access::kRead), f("out", out, Access::kWrite);
  }
};

struct AttentionContextBackward {
  static constexpr std::string_view kName = "attention_context_backward";
  Tensor weights;      // (B,H,T,S)
  SequenceView v;      // (B,S,G*D)
  SequenceView d_out;  // (B,T,H*D)
  Tensor d_weights;    // (B,H,T,S)
  SequenceView d_v;    // (B,S,G*D)
  int64_t H = 1;
  int64_t G = 0;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("weights", weights, Access::kRead), f("v", v, Access::kRead);
    f("d_out", d_out, Access::kRead), f("d_weights", d_weights, Access::kWrite);
    f("d_v", d_v, Access::kWrite);
  }
};

}  // namespace folio
