#pragma once

// The whole hardware contract: one argument struct per operation. A backend runs each of them; the
// plain templates in backend/reference/ specify what each computes.
//
// Letters: B sequences, T positions in each, N = B*T rows, C channels, H heads, D = C/H, S keys, G
// heads of keys and values, each shared by H/G consecutive heads of queries (J. Ainslie et al.,
// arXiv:2305.13245), V vocabulary, P rows of wpe. "Number" is the compute dtype: float32 or
// float64, the same for all floating-point operands; the reference backend also supports complex
// numbers in its tests. Operands marked "Low" may be bfloat16 if Number is float32: all of them in
// one operation together, except that one marked "own Low" may then also stay Number. They are
// rounded to nearest even when they are written; computations with them are done and summed in
// float32, and nothing else is rounded to bfloat16 unless the operation says so. A weight marked
// "stored" may, if Number is float32, also be stored as F16, BF16 or in blocks: Q8_0, Q4_0, Q4_1,
// Q4_K, Q5_K or Q6_K, with the values of DecodeFloats. An operand marked "optional" may be an empty
// Tensor. Inputs are never written. Gradients marked "+=" are added to the existing values; the
// others are overwritten. Operands may not overlap unless stated.
//
// Every struct has kName, Check (shapes and dtypes; aborts on a programmer's mistake), Flops
// (multiplications and additions by the operation's definition, not its implementation) and
// operands, which names each operand and says whether it is written.

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "folio/tensor/tensor.h"

namespace folio {

// The use of an operand: read, overwritten, or added to.
enum class Access { kRead, kWrite, kUpdate };

// A reference to an operand: a Tensor or a SequenceView, which must outlive it.
template <class View>
struct NamedOperand {
  std::string_view name;
  const View& view;
  Access access;
};
template <class View>
NamedOperand<View> Reads(std::string_view name, const View& view) {
  return {name, view, Access::kRead};
}
template <class View>
NamedOperand<View> Updates(std::string_view name, const View& view) {
  return {name, view, Access::kUpdate};
}
// An operand that is overwritten or, if `adds`, added to.
template <class View>
NamedOperand<View> Writes(std::string_view name, const View& view, bool adds = false) {
  return {name, view, adds ? Access::kUpdate : Access::kWrite};
}

// Calls f(name, view, access) for each operand, including absent ones.
template <class Op, class F>
void VisitOperands(const Op& op, F&& f) {
  std::apply([&](const auto&... x) { (f(x.name, x.view, x.access), ...); }, op.operands());
}

// Inverted dropout: each element is zeroed with probability p, the others are multiplied by
// 1/(1-p). Element (row, column) of an array of `columns` is zeroed if CounterRng(seed,
// stream).Bits((first_row + row) * RoundUp(columns, 64) + column) < p * 2^32, so that it depends on
// its place in the whole batch and not on threads or micro-batches. The array may be a part of a
// wider one, or of one with more heads, and then uses the numbers of its place there.
struct Dropout {
  double p = 0;  // [0, 1)
  uint64_t seed = 0;
  uint64_t stream = 0;
  int64_t first_row = 0;
  int64_t first_column = 0, width = 0;  // place in the wider array; 0: not a part
  int64_t heads = 0;                    // heads of the whole attention, likewise: first_row belongs
                                        // to the first of these

  bool active() const { return p > 0; }
  uint32_t threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }
  double scale() const { return 1.0 / (1.0 - p); }
  // The number of element (row, column), of an array of `columns`, in the whole batch.
  int64_t Index(int64_t row, int64_t column, int64_t columns) const {
    return (first_row + row) * RowStride(width > 0 ? width : columns) + first_column + column;
  }
  // Index's row for query t of head h of sequence b, with H heads here.
  int64_t Row(int64_t b, int64_t h, int64_t t, int64_t H, int64_t T) const {
    return (b * (heads > 0 ? heads : H) + h) * T + t;
  }
  static int64_t RowStride(int64_t width) { return RoundUp(width, 64); }
};

// Returns true if a weight of that dtype is "stored".
inline bool IsStored(Dtype weight) {
  constexpr Dtype kStored[] = {Dtype::kF16,  Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0,
                               Dtype::kQ4_1, Dtype::kQ4_K, Dtype::kQ5_K, Dtype::kQ6_K};
  return std::ranges::find(kStored, weight) != std::end(kStored);
}

// A token in a part of the vocabulary that other shards hold (V is the size of this part).
inline constexpr int32_t kElsewhere = -2;

// Heads of keys and values: G, or H if G is 0.
inline int64_t KeyHeads(int64_t H, int64_t G) {
  return G == 0 ? H : G;
}

// The elements of an operand, for Flops: a double, since totals outgrow integers.
inline double Count(const Tensor& x) {
  return static_cast<double>(x.count());
}
inline double Count(const SequenceView& x) {
  return static_cast<double>(x.B * x.T * x.C);
}

// ---- Embedding: out[b,t] = wte[ids[b,t]] + wpe[t] ---------------------------------------------
// A token kElsewhere counts as a row of zeros in wte, and has no gradient there.

struct EmbeddingForward {
  static constexpr std::string_view kName = "embedding_forward";
  Tensor ids;             // (B,T) i32, each in [0,V) or kElsewhere
  Tensor wte;             // (V,C) stored
  Tensor wpe = {};        // (P,C), optional; without positions, T <= P
  Tensor out;             // (B*T,C)
  Tensor positions = {};  // (B,T) i32, each in [0,P), optional: replaces t

  void Check() const;
  double Flops() const { return wpe ? Count(out) : 0; }
  auto operands() const {
    return std::tuple(Reads("ids", ids), Reads("wte", wte), Reads("wpe", wpe),
                      Reads("positions", positions), Writes("out", out));
  }
};

struct EmbeddingBackward {
  static constexpr std::string_view kName = "embedding_backward";
  Tensor ids;             // (B,T) i32
  Tensor d_out;           // (B*T,C)
  Tensor d_wte;           // (V,C) +=
  Tensor d_wpe = {};      // (P,C) +=, optional
  Tensor positions = {};  // (B,T) i32, optional

  void Check() const;
  double Flops() const { return Count(d_out) * (d_wpe ? 2 : 1); }
  auto operands() const {
    return std::tuple(Reads("ids", ids), Reads("d_out", d_out), Reads("positions", positions),
                      Updates("d_wte", d_wte), Updates("d_wpe", d_wpe));
  }
};

// ---- LayerNorm: out = (x - mean) / sqrt(var + eps) * weight + bias, population variance ---------

struct LayerNormForward {
  static constexpr std::string_view kName = "layernorm_forward";
  Tensor x;          // (N,C)
  Tensor weight;     // (C)
  Tensor bias = {};  // (C), optional
  Tensor out;        // (N,C) Low
  Tensor mean;       // (N), kept for the backward
  Tensor rstd;       // (N), 1 / sqrt(var + eps), kept for the backward
  double eps = 1e-5;

  void Check() const;
  // Mean 1, variance 3, normalisation 2, weight 1, bias 1 for each element.
  double Flops() const { return Count(x) * (bias ? 8 : 7); }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("bias", bias),
                      Writes("out", out), Writes("mean", mean), Writes("rstd", rstd));
  }
};

struct LayerNormBackward {
  static constexpr std::string_view kName = "layernorm_backward";
  Tensor x;              // (N,C)
  Tensor weight;         // (C)
  Tensor mean;           // (N)
  Tensor rstd;           // (N)
  Tensor d_out;          // (N,C) Low
  Tensor d_x;            // (N,C), overwritten unless accumulate_d_x; may be a Number d_out itself
  Tensor d_weight = {};  // (C) +=, optional
  Tensor d_bias = {};    // (C) +=, optional
  Tensor d_x_low = {};   // (N,C) BF16, optional: d_x, rounded; may be d_out itself
  bool accumulate_d_x = false;

  void Check() const;
  // Normalised x 2, g = d_out * weight 1, its two sums 3, d_x 4, d_weight 2, d_bias 1.
  double Flops() const {
    return Count(x) * (10 + (d_weight ? 2 : 0) + (d_bias ? 1 : 0) + (accumulate_d_x ? 1 : 0));
  }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("mean", mean),
                      Reads("rstd", rstd), Reads("d_out", d_out),
                      Writes("d_x", d_x, accumulate_d_x), Updates("d_weight", d_weight),
                      Updates("d_bias", d_bias), Writes("d_x_low", d_x_low));
  }
};

// ---- RMSNorm: out = x / sqrt(mean of x^2 + eps) * (weight + weight_offset) ----------------------
// B. Zhang, R. Sennrich, arXiv:1910.07467. Without a weight there is no factor.

struct RmsNormForward {
  static constexpr std::string_view kName = "rmsnorm_forward";
  Tensor x;            // (N,C)
  Tensor weight = {};  // (C), optional
  Tensor out;          // (N,C) Low
  Tensor rstd;         // (N), 1 / sqrt(mean + eps), kept for the backward
  double eps = 1e-5;
  double weight_offset = 0;  // 1 if weights are stored minus 1

  void Check() const;
  // Mean of squares 2, normalisation 1, weight 1 and offset 1 for each element.
  double Flops() const { return Count(x) * (weight ? 5 : 3); }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Writes("out", out),
                      Writes("rstd", rstd));
  }
};

struct RmsNormBackward {
  static constexpr std::string_view kName = "rmsnorm_backward";
  Tensor x;              // (N,C)
  Tensor weight = {};    // (C), optional
  Tensor rstd;           // (N)
  Tensor d_out;          // (N,C) Low
  Tensor d_x;            // (N,C), overwritten unless accumulate_d_x; may be a Number d_out itself
  Tensor d_weight = {};  // (C) +=, optional
  Tensor d_x_low = {};   // (N,C) BF16, optional, as LayerNorm's
  double weight_offset = 0;
  bool accumulate_d_x = false;

  void Check() const;
  // Normalised x 1, g = d_out * weight 2, its sum 2, d_x 3, d_weight 2.
  double Flops() const { return Count(x) * (8 + (d_weight ? 2 : 0) + (accumulate_d_x ? 1 : 0)); }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("rstd", rstd),
                      Reads("d_out", d_out), Writes("d_x", d_x, accumulate_d_x),
                      Updates("d_weight", d_weight), Writes("d_x_low", d_x_low));
  }
};

// RMSNorm of queries or keys, in place: of each head, if `group` is its width, or of all heads
// together; then times `scale`. For all heads together, x may be one shard's part of them: then
// `sums` are those of rows of `whole` channels, from HeadNormSums and added over the shards, and
// `group` is C.
struct HeadNormForward {
  static constexpr std::string_view kName = "head_norm_forward";
  SequenceView x;      // (B,T,C) Low
  Tensor weight = {};  // (group), optional
  Tensor raw = {};     // (B*T,C) like x, optional: x before the norm, for the backward
  Tensor rstd = {};    // (B*T,C/group), optional, for the backward
  int64_t group = 1;   // a divisor of C
  double eps = 1e-5;
  double weight_offset = 0;
  double scale = 1;
  Tensor sums = {};  // (B*T), optional
  int64_t whole = 0;

  void Check() const;
  double Flops() const { return Count(x) * (weight ? 6 : 4); }
  auto operands() const {
    return std::tuple(Updates("x", x), Reads("weight", weight), Writes("raw", raw),
                      Writes("rstd", rstd), Reads("sums", sums));
  }
};

struct HeadNormBackward {
  static constexpr std::string_view kName = "head_norm_backward";
  Tensor raw;            // (B*T,C) like d_x
  Tensor weight = {};    // (group), optional
  Tensor rstd;           // (B*T,C/group)
  SequenceView d_x;      // (B,T,C) Low: the gradient of the forward's result, then of raw
  Tensor d_weight = {};  // (group) +=, optional
  int64_t group = 1;
  double weight_offset = 0;
  double scale = 1;
  Tensor sums = {};  // (B*T), optional, as in the forward
  int64_t whole = 0;

  void Check() const;
  double Flops() const { return Count(raw) * (d_weight ? 11 : 9); }
  auto operands() const {
    return std::tuple(Reads("raw", raw), Reads("weight", weight), Reads("rstd", rstd),
                      Updates("d_x", d_x), Updates("d_weight", d_weight), Reads("sums", sums));
  }
};

// The sum of squares of each row, for a HeadNormForward of shards, or, with raw, of x raw (weight +
// weight_offset) scale for a HeadNormBackward, whose d_x is x.
struct HeadNormSums {
  static constexpr std::string_view kName = "head_norm_sums";
  SequenceView x;      // (B,T,C) Low
  Tensor raw = {};     // (B*T,C) like x, optional
  Tensor weight = {};  // (C), optional, and only with raw
  Tensor sums;         // (B*T)
  double weight_offset = 0;
  double scale = 1;

  void Check() const;
  double Flops() const { return Count(x) * (raw ? 3 : 2); }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("raw", raw), Reads("weight", weight),
                      Writes("sums", sums));
  }
};

// ---- Rotary positions: J. Su et al., arXiv:2104.09864 -------------------------------------------
// In each head the pair (x[i], x[i + r/2]) is rotated by the angle position * inv_freq[i], for i <
// r/2; channels from r on stay unchanged. A negative frequency rotates the other way.

// The cosines and sines for rows of positions: out[n,i] = cos(angle) * attention_factor for i <
// r/2, then the sines. An angle is a rounded product of two float32; its cosine is computed in
// double.
struct RotaryAngles {
  static constexpr std::string_view kName = "rotary_angles";
  std::span<const float> inv_freq;  // (r/2)
  Tensor positions = {};            // N i32 in any shape, optional: 0, 1, ... by default
  Tensor out;                       // (N,r)
  double attention_factor = 1;

  void Check() const;
  double Flops() const { return Count(out) * 2.5; }
  auto operands() const { return std::tuple(Reads("positions", positions), Writes("out", out)); }
};

// Rotates queries or keys in place, or both at once if they are adjacent. `inverse` rotates by the
// negated angles, for the gradient.
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  SequenceView x;  // (B,T,C) Low, heads of D channels each
  Tensor table;    // (B*T,r) from RotaryAngles, or (T,r) for all sequences; r even, at most D
  int64_t D = 0;
  bool inverse = false;

  void Check() const;
  double Flops() const;
  auto operands() const { return std::tuple(Updates("x", x), Reads("table", table)); }
};

// ---- Activation functions -----------------------------------------------------------------------

enum class Activation {
  kGeluNew,    // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's
  kGelu,       // 0.5 x (1 + erf(x / sqrt(2))): D. Hendrycks, K. Gimpel, arXiv:1606.08415
  kRelu,       // max(x, 0); its derivative at 0 is 0
  kSilu,       // x / (1 + exp(-x))
  kQuickGelu,  // x / (1 + exp(-1.702 x)), from the same paper
  kTanh,
  kRelu2,  // max(x, 0)^2: D. R. So et al., arXiv:2109.08668
};

// kActivations lists every Activation.
struct NamedActivation {
  Activation kind;
  std::string_view name;  // in config.json
  double flops;           // for an element; a transcendental function counts as one
};
inline constexpr auto kActivations = std::to_array<NamedActivation>({
    {Activation::kGeluNew, "gelu_new", 9},
    {Activation::kGelu, "gelu", 5},
    {Activation::kRelu, "relu", 1},
    {Activation::kSilu, "silu", 3},
    {Activation::kQuickGelu, "quick_gelu", 4},
    {Activation::kTanh, "tanh", 1},
    {Activation::kRelu2, "relu2", 2},
});
constexpr auto NamesOf(Activation) {
  std::array<std::string_view, kActivations.size()> names = {};
  for (const auto& [kind, name, flops] : kActivations) names[static_cast<size_t>(kind)] = name;
  return names;
}

// ---- Linear: out = x weight + bias, or += that; act = activation(out) ---------------------------
// If x and d_out are bfloat16, the weight is rounded to bfloat16 for the products too, or is given
// in bfloat16. If the weight is stored and x is not, x is rounded: to bfloat16 for BF16, and for
// blocks, of any type, each 32 numbers of a row to multiples of one power of two (block floating
// point): 2^(e-13), where 2^e is the smallest above all of them; two signed bytes hold such an
// integer. Up to kFewRows rows, the result of each row is the same, bit for bit, whatever the other
// rows.

struct LinearForward {
  static constexpr std::string_view kName = "linear_forward";
  static constexpr int64_t kFewRows = 32;
  Tensor x;       // (N,I) Low; Number if the weight is stored in another dtype
  Tensor weight;  // (I,O), or (O,I) if transposed (the head); own Low, or stored: then transposed
  Tensor bias = {};  // (O), optional
  Tensor out;        // (N,O) own Low, overwritten unless accumulate
  Tensor act = {};   // (N,O) like out, optional: computed from out as written
  bool transposed = false;
  bool accumulate = false;  // only without bias and act
  Activation activation = Activation::kGeluNew;

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("bias", bias),
                      Writes("out", out, accumulate), Writes("act", act));
  }
};

// Without d_x or without d_weight that half of the work is omitted; x may be absent without
// d_weight. With pre, from which x was computed as activation(pre), d_x is the gradient of pre
// instead.
struct LinearBackward {
  static constexpr std::string_view kName = "linear_backward";
  Tensor x = {};         // (N,I) Low
  Tensor weight;         // (I,O), or (O,I) if transposed; own Low
  Tensor d_out;          // (N,O) Low
  Tensor pre = {};       // (N,I) like d_x, optional, only with a d_x that is overwritten
  Tensor d_x = {};       // (N,I) own Low, optional, overwritten unless accumulate_d_x
  Tensor d_weight = {};  // like weight, optional, += unless not accumulate_d_weight
  Tensor d_bias = {};    // (O) +=, optional
  bool transposed = false;
  bool accumulate_d_x = false;
  bool accumulate_d_weight = true;
  Activation activation = Activation::kGeluNew;

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("d_out", d_out),
                      Reads("pre", pre), Writes("d_x", d_x, accumulate_d_x),
                      Writes("d_weight", d_weight, accumulate_d_weight), Updates("d_bias", d_bias));
  }
};

// ---- Activation: out = activation(x), elementwise -----------------------------------------------

struct ActivationForward {
  static constexpr std::string_view kName = "activation_forward";
  Activation kind = Activation::kGeluNew;
  Tensor x;    // (N,C) Low
  Tensor out;  // (N,C) Low

  void Check() const;
  double Flops() const;
  auto operands() const { return std::tuple(Reads("x", x), Writes("out", out)); }
};

struct ActivationBackward {
  static constexpr std::string_view kName = "activation_backward";
  Activation kind = Activation::kGeluNew;
  Tensor x;      // (N,C) Low, the forward's input
  Tensor d_out;  // (N,C) Low
  Tensor d_x;    // (N,C) Low, may be d_out itself

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("d_out", d_out), Writes("d_x", d_x));
  }
};

// ---- Gate: out = activation(gate) * up, where x is gate | up ------------------------------------
// N. Shazeer, arXiv:2002.05202.

struct GatedForward {
  static constexpr std::string_view kName = "gated_forward";
  Activation kind = Activation::kSilu;
  Tensor x;    // (N,2F) Low; each row has F of gate, then F of up
  Tensor out;  // (N,F) Low

  void Check() const;
  double Flops() const;
  auto operands() const { return std::tuple(Reads("x", x), Writes("out", out)); }
};

struct GatedBackward {
  static constexpr std::string_view kName = "gated_backward";
  Activation kind = Activation::kSilu;
  Tensor x;      // (N,2F) Low, the forward's input
  Tensor d_out;  // (N,F) Low
  Tensor d_x;    // (N,2F) Low, may be x itself

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("d_out", d_out), Writes("d_x", d_x));
  }
};

// ---- Attention: per head, out = dropout(softmax(mask(cap(scale q k^T)))) v ---------------------
//
// Query row t may attend to key row s if s <= t + (S - T) when causal, and then only to the last
// `window` of those if there is one, if key_mask[b,s] != 0, and if a u8 mask[b,0,t,s] != 0. A cap
// replaces a score x by cap * tanh(x / cap) (Gemma 2, arXiv:2408.00118). A mask of Numbers is added
// to the scores instead; kHidden or less hides the key, like -infinity. A mask with a single (T,S)
// is for all sequences. A query that may attend to nothing has a result of zeros and no gradient.
// No (T,S) array is kept: the backward recomputes the weights from lse. Dropout rows are ((b * H +
// h) * T + t), of width S. If q, k and v are bfloat16, weights and gradients of scores may be
// rounded to bfloat16 for products.

struct AttentionForward {
  static constexpr std::string_view kName = "attention_forward";
  static constexpr double kHidden = -1e9;  // in float32 any other score vanishes beside it
  SequenceView q;                          // (B,T,H*D) Low
  SequenceView k;                          // (B,S,G*D) Low
  SequenceView v;                          // (B,S,G*D) Low
  Tensor key_mask = {};                    // (B,S) u8, optional
  Tensor mask = {};                        // (B or 1,1,T,S) u8 or Number, optional
  SequenceView out;                        // (B,T,H*D) Low
  Tensor lse;         // (B,H,T), log of the sum of exp(score); -infinity if nothing is attended to
  Tensor probs = {};  // (B,H,T,S), optional: the weights after softmax, before dropout
  int64_t H = 1;
  int64_t G = 0;     // heads of keys and values, a divisor of H; 0 for H
  double scale = 0;  // factor of the scores; 0 for 1/sqrt(D)
  double cap = 0;    // for scores before masks; 0 for none
  bool causal = true;
  int64_t window = 0;  // keys that a causal query may attend to, including its own; 0 for all
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("q", q), Reads("k", k), Reads("v", v), Reads("key_mask", key_mask),
                      Reads("mask", mask), Writes("out", out), Writes("lse", lse),
                      Writes("probs", probs));
  }
};

struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  SequenceView q, k, v;        // as in the forward
  Tensor key_mask = {};        // (B,S) u8, optional
  Tensor mask = {};            // (B or 1,1,T,S) u8 or Number, optional
  SequenceView out;            // (B,T,H*D) Low, the forward's result
  Tensor lse;                  // (B,H,T)
  SequenceView d_out;          // (B,T,H*D) Low
  SequenceView d_q, d_k, d_v;  // like q, k, v
  int64_t H = 1;
  int64_t G = 0;              // heads of keys and values, a divisor of H; 0 for H
  double scale = 0, cap = 0;  // as in the forward
  bool causal = true;
  int64_t window = 0;
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("q", q), Reads("k", k), Reads("v", v), Reads("key_mask", key_mask),
                      Reads("mask", mask), Reads("out", out), Reads("lse", lse),
                      Reads("d_out", d_out), Writes("d_q", d_q), Writes("d_k", d_k),
                      Writes("d_v", d_v));
  }
};

// ---- Keys and values kept in pages --------------------------------------------------------------
// A page keeps the keys, then the values, of R positions of one sequence, for each head. A
// sequence's row of a table lists its pages in order: position p is at place p % R of page table[p
// / R] (W. Kwon et al., arXiv:2309.06180); places that are never read may hold anything. If Number
// is float32, pages may be BF16, to which keys and values are then rounded. The result of each row
// is the same, bit for bit, whatever the other rows.

struct CacheWrite {
  static constexpr std::string_view kName = "cache_write";
  SequenceView k;    // (1,N,G*D)
  SequenceView v;    // (1,N,G*D)
  Tensor tables;     // (N,W) i32, for each row's sequence, in [0,M) where used
  Tensor positions;  // (N) i32, of each row in its sequence, in [0,W*R); no two rows at one place
  Tensor pages;      // (M,G,2,R,D) Number or BF16: other places are not changed

  void Check() const;
  double Flops() const { return 0; }
  auto operands() const {
    return std::tuple(Reads("k", k), Reads("v", v), Reads("tables", tables),
                      Reads("positions", positions), Updates("pages", pages));
  }
};

// The keys and values of S positions of one sequence, from `first` on.
struct CacheRead {
  static constexpr std::string_view kName = "cache_read";
  Tensor pages;    // (M,G,2,R,D) Number or BF16
  Tensor table;    // (W) i32, W*R >= first+S
  SequenceView k;  // (1,S,G*D)
  SequenceView v;  // (1,S,G*D)
  int64_t first = 0;

  void Check() const;
  double Flops() const { return 0; }
  auto operands() const {
    return std::tuple(Reads("pages", pages), Reads("table", table), Writes("k", k), Writes("v", v));
  }
};

// Per head, out = softmax(cap(scale q k^T)) v, where row n attends to positions [0, positions[n]]
// of its sequence, or to the last `window` of these.
struct CacheAttention {
  static constexpr std::string_view kName = "cache_attention";
  SequenceView q;    // (1,N,H*D)
  Tensor pages;      // (M,G,2,R,D) Number or BF16
  Tensor tables;     // (N,W) i32
  Tensor positions;  // (N) i32, in [0,W*R)
  SequenceView out;  // (1,N,H*D)
  int64_t H = 1;
  double scale = 0;    // factor of the scores; 0 for 1/sqrt(D)
  double cap = 0;      // for scores; 0 for none
  int64_t window = 0;  // 0 for none

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("q", q), Reads("pages", pages), Reads("tables", tables),
                      Reads("positions", positions), Writes("out", out));
  }
};

// ---- Residual: out = residual + factor * dropout(x) ---------------------------------------------

struct ResidualForward {
  static constexpr std::string_view kName = "residual_forward";
  Tensor residual = {};  // (N,C), optional, 0 by default; may be out itself
  Tensor x;              // (N,C) Low; an x of out's dtype may be out itself
  Tensor out;            // (N,C); without a residual it may be Low, like x
  Dropout dropout = {};
  double factor = 1;

  void Check() const;
  double Flops() const {
    return Count(x) * ((residual ? 1 : 0) + (dropout.active() ? 1 : 0) + (factor != 1 ? 1 : 0));
  }
  auto operands() const {
    return std::tuple(Reads("residual", residual), Reads("x", x), Writes("out", out));
  }
};

// The gradient of x; that of residual is d_out itself.
struct ResidualBackward {
  static constexpr std::string_view kName = "residual_backward";
  Tensor d_out;  // (N,C)
  Tensor d_x;    // (N,C) Low; a Number d_x may be d_out itself
  Dropout dropout = {};
  double factor = 1;

  void Check() const;
  double Flops() const {
    return Count(d_out) * ((dropout.active() ? 1 : 0) + (factor != 1 ? 1 : 0));
  }
  auto operands() const { return std::tuple(Reads("d_out", d_out), Writes("d_x", d_x)); }
};

// A sum and the norm of its result, for backends that have both as one operation
// (BackendPreferences): norm.x is empty, and stands for residual.out.
template <class NormOp>
struct ResidualNorm {
  static constexpr std::string_view kName = std::is_same_v<NormOp, LayerNormForward>
                                                ? "residual_layernorm_forward"
                                                : "residual_rmsnorm_forward";
  ResidualForward residual;
  NormOp norm;

  // The norm as an operation of its own.
  NormOp Norm() const {
    NormOp of_sum = norm;
    of_sum.x = residual.out;
    return of_sum;
  }
  void Check() const;
  double Flops() const { return residual.Flops() + Norm().Flops(); }
  auto operands() const {
    const auto behind_x = [](const auto&, const auto&... rest) { return std::tuple(rest...); };
    return std::tuple_cat(std::tuple(Reads("residual", residual.residual), Reads("x", residual.x),
                                     Writes("sum", residual.out)),
                          std::apply(behind_x, norm.operands()));
  }
};
using ResidualLayerNorm = ResidualNorm<LayerNormForward>;
using ResidualRmsNorm = ResidualNorm<RmsNormForward>;

// ---- Mix: out = x_factor * x + sign * y_factor * y, where factors are parameters ----------------

struct MixForward {
  static constexpr std::string_view kName = "mix_forward";
  Tensor x;              // (N,C)
  Tensor y;              // (N,C)
  Tensor x_factor = {};  // (1), optional: 1 by default
  Tensor y_factor;       // (1)
  double sign = 1;
  Tensor out;  // (N,C)

  void Check() const;
  double Flops() const { return Count(x) * 3; }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("y", y), Reads("x_factor", x_factor),
                      Reads("y_factor", y_factor), Writes("out", out));
  }
};

struct MixBackward {
  static constexpr std::string_view kName = "mix_backward";
  Tensor x, y, x_factor = {}, y_factor;  // as in the forward
  double sign = 1;
  Tensor d_out;            // (N,C)
  Tensor d_x;              // (N,C), may be d_out itself
  Tensor d_y;              // (N,C), overwritten unless accumulate_d_y
  Tensor d_x_factor = {};  // (1) +=, optional
  Tensor d_y_factor = {};  // (1) +=, optional
  bool accumulate_d_y = false;

  void Check() const;
  double Flops() const { return Count(x) * 7; }
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("y", y), Reads("x_factor", x_factor),
                      Reads("y_factor", y_factor), Reads("d_out", d_out), Writes("d_x", d_x),
                      Writes("d_y", d_y, accumulate_d_y), Updates("d_x_factor", d_x_factor),
                      Updates("d_y_factor", d_y_factor));
  }
};

// ---- Sums with gates: out += scale * factor * sigmoid(weight x) * y -----------------------------
// Each of G groups of columns has a gate computed from the first J columns of x: for group g the
// logistic function of weight[g] x[:J].

struct GatedAddForward {
  static constexpr std::string_view kName = "gated_add_forward";
  Tensor x;            // (N,X) Low, X >= J
  Tensor weight;       // (G,J)
  Tensor y;            // (N,C)
  Tensor factor = {};  // (1), optional: 1 by default
  SequenceView out;    // (B,T,C) own Low, with B*T = N
  double scale = 1;

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("y", y),
                      Reads("factor", factor), Updates("out", out));
  }
};

struct GatedAddBackward {
  static constexpr std::string_view kName = "gated_add_backward";
  Tensor x, weight, y, factor = {};  // as in the forward
  SequenceView d_out;                // (B,T,C) own Low
  Tensor d_y;                        // (N,C), may be y itself
  Tensor d_x;                        // (N,X) own Low, +=, may be d_out itself
  Tensor d_weight = {};              // (G,J) +=, optional
  Tensor d_factor = {};              // (1) +=, optional
  double scale = 1;

  void Check() const;
  double Flops() const;
  auto operands() const {
    return std::tuple(Reads("x", x), Reads("weight", weight), Reads("y", y),
                      Reads("factor", factor), Reads("d_out", d_out), Writes("d_y", d_y),
                      Updates("d_x", d_x), Updates("d_weight", d_weight),
                      Updates("d_factor", d_factor));
  }
};

// ---- Cap of logits: x = cap * tanh(x / cap), in place -------------------------------------------

struct LogitCap {
  static constexpr std::string_view kName = "logit_cap";
  Tensor x;        // (N,V) Low
  double cap = 1;  // above 0

  void Check() const;
  double Flops() const { return Count(x) * 3; }
  auto operands() const { return std::tuple(Updates("x", x)); }
};

// ---- Cross-entropy: losses[n] = log(sum_v exp(logits[n,v])) - logits[n,targets[n]] -------------
// A row with target kIgnore has loss 0 and gradient 0; one with target kElsewhere has loss 0, and a
// gradient without the target's own term. Rows of logits may be longer than the vocabulary: the
// first V columns are its, and the gradient of the others is 0.

// With d_logits also the gradient, d_logits = (softmax(logits) - onehot(targets)) * scale. With a
// cap it is the gradient of LogitCap's input: that times 1 - (logits / cap)^2.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  static constexpr int32_t kIgnore = -1;
  Tensor logits;         // (N,W) Low
  Tensor targets;        // (N) i32, in [0,V), kIgnore or kElsewhere
  Tensor losses;         // (N)
  Tensor lse;            // (N), the logarithm of the sum
  Tensor d_logits = {};  // (N,W) Low, optional; of the logits' dtype it may be logits itself
  int64_t V = 0;         // in [1,W]; 0 for W
  double scale = 1;      // gradient of the total with respect to each row's loss
  double cap = 0;        // 0: the logits are not capped

  void Check() const;
  double Flops() const { return Count(logits) * (!d_logits ? 3 : cap > 0 ? 10 : 6); }
  auto operands() const {
    return std::tuple(Reads("logits", logits), Reads("targets", targets), Writes("losses", losses),
                      Writes("lse", lse), Writes("d_logits", d_logits));
  }
};

// The gradient alone, for a part of the vocabulary: lse is that of all parts.
struct CrossEntropyBackward {
  static constexpr std::string_view kName = "cross_entropy_backward";
  Tensor logits;    // (N,W) Low
  Tensor targets;   // (N) i32
  Tensor lse;       // (N)
  Tensor d_logits;  // (N,W) Low; of the logits' dtype it may be logits itself
  int64_t V = 0;    // as in CrossEntropy, and so are these
  double scale = 1;
  double cap = 0;

  void Check() const;
  double Flops() const { return Count(logits) * (cap > 0 ? 7 : 3); }
  auto operands() const {
    return std::tuple(Reads("logits", logits), Reads("targets", targets), Reads("lse", lse),
                      Writes("d_logits", d_logits));
  }
};

// ---- Optimizer, and what else goes through an array --------------------------------------------

// One step of AdamW: I. Loshchilov, F. Hutter, arXiv:1711.05101, with g = grad * grad_scale:
//   param *= 1 - lr * weight_decay
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   param -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
struct AdamWUpdate {
  static constexpr std::string_view kName = "adamw_update";
  Tensor param;     // (n)
  Tensor grad;      // (n)
  Tensor m;         // (n)
  Tensor v;         // (n)
  Tensor low = {};  // (n) BF16, optional: gets the new param, rounded
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;       // counted from 1
  double grad_scale = 1;  // factor of the gradient, for clipping

  void Check() const;
  double Flops() const { return Count(param) * 16; }
  auto operands() const {
    return std::tuple(Updates("param", param), Reads("grad", grad), Updates("m", m),
                      Updates("v", v), Writes("low", low));
  }
};

// out = the sum of x, in double, in an order that depends only on the number of its elements.
struct SumOfElements {
  static constexpr std::string_view kName = "sum_of_elements";
  Tensor x;    // (n), Number or f64
  Tensor out;  // (1) f64

  void Check() const;
  double Flops() const { return Count(x); }
  auto operands() const { return std::tuple(Reads("x", x), Writes("out", out)); }
};

// out[i] = sum of x^2 over the i-th block of x, in double, in an order that depends only on the
// number of its elements.
struct SumOfSquares {
  static constexpr std::string_view kName = "sum_of_squares";
  Tensor x;           // (n)
  Tensor out;         // (blocks) f64, or (1) if block is 0
  int64_t block = 0;  // elements in each block but the last; 0: x is one block

  void Check() const;
  double Flops() const { return Count(x) * 2; }
  auto operands() const { return std::tuple(Reads("x", x), Writes("out", out)); }
};

// x *= factor.
struct Scale {
  static constexpr std::string_view kName = "scale";
  Tensor x;  // (N,C) Low
  double factor = 1;

  void Check() const;
  double Flops() const { return Count(x); }
  auto operands() const { return std::tuple(Updates("x", x)); }
};

// out = x, or += x; both are columns of wider arrays.
struct CopyColumns {
  static constexpr std::string_view kName = "copy_columns";
  SequenceView x;    // (B,T,C)
  SequenceView out;  // (B,T,C), overwritten unless accumulate
  bool accumulate = false;

  void Check() const;
  double Flops() const { return accumulate ? Count(x) : 0; }
  auto operands() const { return std::tuple(Reads("x", x), Writes("out", out, accumulate)); }
};

struct Fill {
  static constexpr std::string_view kName = "fill";
  Tensor out;  // any shape
  double value = 0;

  void Check() const;
  double Flops() const { return 0; }
  auto operands() const { return std::tuple(Writes("out", out)); }
};

// ---- All of them -------------------------------------------------------------------------------

template <class... Ops>
struct OperationList {};

// The list of all operations, from which the interface of backends, the backends that treat all
// operations alike, and the tests are generated.
using Operations =
    OperationList<EmbeddingForward, EmbeddingBackward, LayerNormForward, LayerNormBackward,
                  RmsNormForward, RmsNormBackward, HeadNormForward, HeadNormBackward, HeadNormSums,
                  RotaryAngles, Rotary, LinearForward, LinearBackward, ActivationForward,
                  ActivationBackward, GatedForward, GatedBackward, AttentionForward,
                  AttentionBackward, CacheWrite, CacheRead, CacheAttention, ResidualForward,
                  ResidualBackward, ResidualLayerNorm, ResidualRmsNorm, MixForward, MixBackward,
                  GatedAddForward, GatedAddBackward, LogitCap, CrossEntropy, CrossEntropyBackward,
                  AdamWUpdate, SumOfElements, SumOfSquares, Scale, CopyColumns, Fill>;

}  // namespace folio
