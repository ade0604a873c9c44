#pragma once

// The whole hardware contract: one argument struct per operation. A backend runs each of them; the
// plain templates in backend/reference/ are the specification of what each computes.
//
// The operations of attention are in attention_ops.h and attention_step_ops.h, which are part of
// this page.
//
// Letters: B sequences, T positions of one, N = B*T rows, C channels, H heads, D = C/H, V
// vocabulary, P positions known to wpe. "Number" is the compute dtype: float32 or float64, the same
// for all operands of floating point; the reference backend also has them as complex numbers in its
// tests. Operands marked "Half" may be bfloat16 where Number is float32: all those of one operation
// together, but one marked "own Half" may then also stay Number. They are rounded when they are
// written, to nearest even; what is computed from them is computed and summed in float32, and
// nothing else is rounded to bfloat16 unless the operation says so. An operand marked "optional"
// may be an empty Tensor. Inputs are never written. Gradients marked "+=" are added to what is
// there; the others are overwritten. Operands may not overlap unless said.
//
// Every struct has kName, Check (shapes and dtypes; a programmer's mistakes), Flops
// (multiplications and additions of the operation as defined, not as carried out) and Visit, which
// names each operand and says whether the operation writes it.

#include <cstdint>
#include <string_view>

#include "folio/backend/attention_ops.h"
#include "folio/backend/attention_step_ops.h"
#include "folio/backend/op_types.h"
#include "folio/tensor/tensor.h"

namespace folio {

// ---- Embedding: out[b,t] = wte[ids[b,t]] + wpe[first_position + t] ------------------------------

struct EmbeddingForward {
  static constexpr std::string_view kName = "embedding_forward";
  Tensor ids;                  // (B,T) i32, each in [0,V)
  Tensor wte;                  // (V,C)
  Tensor wpe = {};             // (P,C), optional
  Tensor out;                  // (B*T,C)
  int64_t first_position = 0;  // first_position + T <= P

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("ids", ids, Access::kRead), f("wte", wte, Access::kRead), f("wpe", wpe, Access::kRead);
    f("out", out, Access::kWrite);
  }
};

struct EmbeddingBackward {
  static constexpr std::string_view kName = "embedding_backward";
  Tensor ids;         // (B,T) i32
  Tensor d_out;       // (B*T,C)
  Tensor d_wte;       // (V,C) +=
  Tensor d_wpe = {};  // (P,C) +=, optional
  int64_t first_position = 0;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("ids", ids, Access::kRead), f("d_out", d_out, Access::kRead);
    f("d_wte", d_wte, Access::kUpdate), f("d_wpe", d_wpe, Access::kUpdate);
  }
};

// ---- LayerNorm: out = (x - mean) / sqrt(var + eps) * weight + bias, population variance ---------

struct LayerNormForward {
  static constexpr std::string_view kName = "layernorm_forward";
  Tensor x;          // (N,C)
  Tensor weight;     // (C)
  Tensor bias = {};  // (C), optional
  Tensor out;        // (N,C) Half
  Tensor mean;       // (N), kept for the backward
  Tensor rstd;       // (N), 1 / sqrt(var + eps), kept for the backward
  double eps = 1e-5;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("weight", weight, Access::kRead), f("bias", bias, Access::kRead);
    f("out", out, Access::kWrite), f("mean", mean, Access::kWrite), f("rstd", rstd, Access::kWrite);
  }
};

struct LayerNormBackward {
  static constexpr std::string_view kName = "layernorm_backward";
  Tensor x;            // (N,C)
  Tensor weight;       // (C)
  Tensor mean;         // (N)
  Tensor rstd;         // (N)
  Tensor d_out;        // (N,C) Half
  Tensor d_x;          // (N,C), overwritten unless accumulate_d_x; may be a Number d_out itself
  Tensor d_weight;     // (C) +=
  Tensor d_bias = {};  // (C) +=, optional
  bool accumulate_d_x = false;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("weight", weight, Access::kRead), f("mean", mean, Access::kRead);
    f("rstd", rstd, Access::kRead), f("d_out", d_out, Access::kRead);
    f("d_x", d_x, accumulate_d_x ? Access::kUpdate : Access::kWrite);
    f("d_weight", d_weight, Access::kUpdate), f("d_bias", d_bias, Access::kUpdate);
  }
};

// ---- Activation functions -----------------------------------------------------------------------

enum class Activation {
  kGeluNew,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's
  kGelu,     // 0.5 x (1 + erf(x / sqrt(2))): D. Hendrycks, K. Gimpel, arXiv:1606.08415
  kRelu,     // max(x, 0); its derivative at 0 is 0
};

// ---- Linear: out = x weight + bias; act = activation(out) ---------------------------------------
// Where x and d_out are bfloat16, the weight too enters its products rounded to bfloat16.

struct LinearForward {
  static constexpr std::string_view kName = "linear_forward";
  Tensor x;          // (N,I) Half
  Tensor weight;     // (I,O), or (O,I) if transposed (an embedding table used as the head)
  Tensor bias = {};  // (O), optional
  Tensor out;        // (N,O) own Half
  Tensor act = {};   // (N,O) as out, optional: made of out as that was written
  bool transposed = false;
  Activation activation = Activation::kGeluNew;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("weight", weight, Access::kRead), f("bias", bias, Access::kRead);
    f("out", out, Access::kWrite), f("act", act, Access::kWrite);
  }
};

// Without d_x or without d_weight that half of the work is left out; x may be absent with d_weight.
// With pre, of which x was made as activation(pre), d_x is the gradient of pre instead.
struct LinearBackward {
  static constexpr std::string_view kName = "linear_backward";
  Tensor x = {};         // (N,I) Half
  Tensor weight;         // (I,O), or (O,I) if transposed
  Tensor d_out;          // (N,O) Half
  Tensor pre = {};       // (N,I) as d_x, optional, only with a d_x that is overwritten
  Tensor d_x = {};       // (N,I) own Half, optional, overwritten unless accumulate_d_x
  Tensor d_weight = {};  // as weight, optional, += unless not accumulate_d_weight
  Tensor d_bias = {};    // (O) +=, optional
  bool transposed = false;
  bool accumulate_d_x = false;
  bool accumulate_d_weight = true;
  Activation activation = Activation::kGeluNew;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("weight", weight, Access::kRead), f("d_out", d_out, Access::kRead),
        f("pre", pre, Access::kRead);
    f("d_x", d_x, accumulate_d_x ? Access::kUpdate : Access::kWrite);
    f("d_weight", d_weight, accumulate_d_weight ? Access::kUpdate : Access::kWrite);
    f("d_bias", d_bias, Access::kUpdate);
  }
};

// ---- Activation: out = activation(x), elementwise -----------------------------------------------

struct ActivationForward {
  static constexpr std::string_view kName = "activation_forward";
  Activation kind = Activation::kGeluNew;
  Tensor x;    // (N,C) Half
  Tensor out;  // (N,C) Half

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("out", out, Access::kWrite);
  }
};

struct ActivationBackward {
  static constexpr std::string_view kName = "activation_backward";
  Activation kind = Activation::kGeluNew;
  Tensor x;      // (N,C) Half, the forward's input
  Tensor d_out;  // (N,C) Half
  Tensor d_x;    // (N,C) Half, may be d_out itself

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("d_out", d_out, Access::kRead), f("d_x", d_x, Access::kWrite);
  }
};

// ---- Residual: out = residual + dropout(x) ------------------------------------------------------

struct ResidualForward {
  static constexpr std::string_view kName = "residual_forward";
  Tensor residual = {};  // (N,C), optional (then out = dropout(x)); may be out itself
  Tensor x;              // (N,C) Half; a Number x may be out itself
  Tensor out;            // (N,C)
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("residual", residual, Access::kRead), f("x", x, Access::kRead), f("out", out, Access::kWrite);
  }
};

// The gradient of x; that of residual is d_out itself.
struct ResidualBackward {
  static constexpr std::string_view kName = "residual_backward";
  Tensor d_out;  // (N,C)
  Tensor d_x;    // (N,C) Half; a Number d_x may be d_out itself
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("d_out", d_out, Access::kRead), f("d_x", d_x, Access::kWrite);
  }
};

// ---- Cross-entropy: losses[n] = log(sum_v exp(logits[n,v])) - logits[n,targets[n]] -------------
// A row whose target is kIgnore has loss 0 and gradient 0.

struct CrossEntropyForward {
  static constexpr std::string_view kName = "cross_entropy_forward";
  static constexpr int32_t kIgnore = -1;
  Tensor logits;   // (N,V)
  Tensor targets;  // (N) i32, in [0,V) or kIgnore
  Tensor losses;   // (N)
  Tensor lse;      // (N), kept for the backward

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("logits", logits, Access::kRead), f("targets", targets, Access::kRead);
    f("losses", losses, Access::kWrite), f("lse", lse, Access::kWrite);
  }
};

// d_logits = (softmax(logits) - onehot(targets)) * scale
struct CrossEntropyBackward {
  static constexpr std::string_view kName = "cross_entropy_backward";
  Tensor logits;     // (N,V)
  Tensor targets;    // (N) i32
  Tensor lse;        // (N)
  Tensor d_logits;   // (N,V) Half; a Number d_logits may be logits itself
  double scale = 1;  // gradient of the total with respect to each row's loss

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("logits", logits, Access::kRead), f("targets", targets, Access::kRead);
    f("lse", lse, Access::kRead), f("d_logits", d_logits, Access::kWrite);
  }
};

// ---- Optimizer ---------------------------------------------------------------------------------

// One step of AdamW: I. Loshchilov, F. Hutter, arXiv:1711.05101, with g = grad * grad_scale:
//   param *= 1 - lr * weight_decay
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   param -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
struct AdamWUpdate {
  static constexpr std::string_view kName = "adamw_update";
  Tensor param;  // (n)
  Tensor grad;   // (n)
  Tensor m;      // (n)
  Tensor v;      // (n)
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;       // counted from 1
  double grad_scale = 1;  // what clipping multiplies the gradient with

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("param", param, Access::kUpdate), f("grad", grad, Access::kRead);
    f("m", m, Access::kUpdate), f("v", v, Access::kUpdate);
  }
};

// out[0] = sum of x^2, added up in double in an order that depends on n alone.
struct SumOfSquares {
  static constexpr std::string_view kName = "sum_of_squares";
  Tensor x;    // (n)
  Tensor out;  // (1) f64

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("x", x, Access::kRead), f("out", out, Access::kWrite);
  }
};

struct Fill {
  static constexpr std::string_view kName = "fill";
  Tensor out;  // any shape
  double value = 0;

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("out", out, Access::kWrite);
  }
};

}  // namespace folio
