#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/walk_parts.h"
#include "folio/tensor/tensor.h"

namespace folio {

// AttentionMask says which query may attend to which key, u8, 0 where it may not.
class AttentionMask {
 public:
  // (1,1,T,S): query t sees keys s <= t + (S - T).
  static AttentionMask Causal(int64_t T, int64_t S);
  // (B,1,T,S): of the (B,S) u8 `key_mask` (0 for padding) and, if `causal`, of Causal both.
  static AttentionMask Combined(const Tensor& key_mask, int64_t T, bool causal);

  // Returns the mask to be read, while it lives.
  Tensor tensor() const { return {const_cast<uint8_t*>(memory_.data()), shape_}; }

 private:
  explicit AttentionMask(const Shape& shape);

  std::vector<uint8_t> memory_;
  Shape shape_;
};

// Weighting says how scores become weights.
enum class Weighting {
  kSoftmax,
  kNaiveSoftmax,  // exp(x) / sum of exp(x) as written: overflows
  kSum,           // x / sum of x: adds up to 1, but is no softmax
  kNone,          // the scores themselves
};

enum class MaskOrder {
  kBeforeSoftmax,  // scores become -infinity
  kAfterSoftmax,   // weights become 0, and the row is divided by its sum
};

struct AttentionOptions {
  std::optional<double> scale = {};  // of the scores; 1/sqrt(D) if not given
  std::optional<AttentionMask> mask = {};
  MaskOrder mask_order = MaskOrder::kBeforeSoftmax;
  Weighting weighting = Weighting::kSoftmax;
  Dropout dropout = {};  // of the weights; rows are ((b * H + h) * T + t), of width S
};

// AttentionSteps holds the result of each step, all but the last (B,H,T,S). A step that the options
// leave out is the tensor of the step before.
struct AttentionSteps {
  Tensor scores;   // scale * q k^T
  Tensor masked;   // kBeforeSoftmax: -infinity where masked (0 for the weightings without exp)
  Tensor softmax;  // after the weighting: rows that add up to 1, unless that is kNone
  Tensor weights;  // kAfterSoftmax: 0 where masked, and rows that add up to 1 again
  Tensor kept;     // after dropout
  Tensor context;  // (B*T, H*D)
};

// Dot-product attention (A. Vaswani et al., arXiv:1706.03762, section 3.2) one step at a time,
// keeping what every step gave: queries from one sequence, keys and values from the same (self) or
// from another (cross), split into H heads (G of keys and values); with or without weights, with an
// output projection if the sizes have one. The fused AttentionForward computes the same in one. The
// functions below make the forms that have names.
class StepwiseAttention {
 public:
  // B sequences of T queries and S keys. Throws a kUsage Error for sizes that do not fit. `backend`
  // runs the projections and dropout and must outlive it.
  StepwiseAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T, int64_t S,
                    const AttentionOptions& options = {}, Dtype dtype = Dtype::kF32);

  // query (B*T, d_in), key and value (B*S, d_kv_in); any of them may be the same tensor. Returns
  // out() (B*T, d_out). Without projections there are no params, and the operands must live as long
  // as q(), k() and v() are looked at.
  const Tensor& Forward(const AttentionParams& params, const Tensor& query, const Tensor& key,
                        const Tensor& value);
  const Tensor& Forward(const AttentionParams& params, const Tensor& x) {
    return Forward(params, x, x, x);
  }

  // Runs after Forward with the same operands. d_params gets +=; d_query, d_key and d_value are
  // overwritten. Gradients of operands that are the same tensor are one tensor too, which gets the
  // sum.
  void Backward(const AttentionParams& params, const Tensor& query, const Tensor& key,
                const Tensor& value, const Tensor& d_out, const AttentionParams& d_params,
                const Tensor& d_query, const Tensor& d_key, const Tensor& d_value);
  void Backward(const AttentionParams& params, const Tensor& x, const Tensor& d_out,
                const AttentionParams& d_params, const Tensor& d_x) {
    Backward(params, x, x, x, d_out, d_params, d_x, d_x, d_x);
  }

  // These are the results of the last Forward, until the next: q (B*T, H*D), k and v (B*S, G*D),
  // the steps, the result.
  const Tensor& q() const { return q_; }
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  const AttentionSteps& steps() const { return steps_; }
  const Tensor& out() const { return out_; }

  const AttentionOptions& options() const { return options_; }
  AttentionOptions& options() { return options_; }  // may change between one Forward and the next

 private:
  bool Masks(MaskOrder order) const { return options_.mask && options_.mask_order == order; }
  bool Exponential() const;  // whether the weighting takes exp of the scores
  double scale() const;
  Tensor Make(const Shape& shape);  // kept until the next Forward
  Tensor Projected(const Tensor& x, const LinearParams& layer, const Shape& shape);
  // A (B,H,T,S) array with a row for each query.
  Tensor Rows(const Tensor& x) const { return x.Reshape({B_ * sizes_.H * T_, S_}); }
  void RunSteps();
  // Computes from d_context; all three are overwritten.
  void RunStepsBackward(const Tensor& d_context, const Tensor& d_q, const Tensor& d_k,
                        const Tensor& d_v) const;

  Backend& backend_;
  AttentionSizes sizes_;
  int64_t B_, T_, S_;
  AttentionOptions options_;
  Dtype dtype_;
  std::vector<StepTensor> memory_;  // of what follows
  Tensor q_, k_, v_, out_;
  AttentionSteps steps_;
  Tensor weighting_sums_;  // (B*H*T) of kSum
  Tensor masking_sums_;    // (B*H*T) of kAfterSoftmax
};

// Queries, keys and values as they are, heads of D elements: A. Vaswani et al., section 3.2.1.
StepwiseAttention DotProductAttention(Backend& backend, int64_t H, int64_t G, int64_t D, int64_t B,
                                      int64_t T, int64_t S, const AttentionOptions& options = {},
                                      Dtype dtype = Dtype::kF32);

// Attention without weights: every row of x (B*T,C) is query, key and value at once. scores = x
// x^T, context = weights x. Scores are not scaled.
StepwiseAttention SimpleAttention(Backend& backend, int64_t B, int64_t T, int64_t C,
                                  Weighting weighting = Weighting::kSoftmax,
                                  Dtype dtype = Dtype::kF32);

// Single-head self-attention: queries, keys and values are x W_q, x W_k and x W_v, of d_out
// elements; scores are divided by sqrt(d_out), or as the options say. Every token sees every token.
// REQUIRES: sizes.H = 1, no out_proj.
StepwiseAttention SelfAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T,
                                const AttentionOptions& options = {}, Dtype dtype = Dtype::kF32);

// Single-head self-attention in which no token sees a later one, the mask applied before or after
// the softmax (which agree). REQUIRES: no other mask in the options.
StepwiseAttention CausalAttention(Backend& backend, const AttentionSizes& sizes, int64_t B,
                                  int64_t T, const AttentionOptions& options = {},
                                  Dtype dtype = Dtype::kF32);

// Several heads the plain way: single causal heads, each as `sizes` says, whose contexts stand side
// by side. MultiHeadAttention without an output projection computes the same in one with the
// weights that JoinHeads makes. Each head drops weights of its own: its B*T rows of dropout come
// after those of the head before, which for B = 1 is what the layer in one drops.
std::vector<StepwiseAttention> StackedHeads(Backend& backend, const AttentionSizes& sizes,
                                            int64_t heads, int64_t B, int64_t T,
                                            const AttentionOptions& options = {},
                                            Dtype dtype = Dtype::kF32);
// Returns the results of the heads' last Forward: (B*T, heads * d_out).
StepTensor SideBySide(const std::vector<StepwiseAttention>& heads);

// Heads split from one projection, with an output projection if the sizes have one: A. Vaswani et
// al., section 3.2.2; torch.nn.MultiheadAttention.
inline StepwiseAttention MultiHeadAttention(Backend& backend, const AttentionSizes& sizes,
                                            int64_t B, int64_t T, int64_t S,
                                            const AttentionOptions& options = {},
                                            Dtype dtype = Dtype::kF32) {
  return StepwiseAttention(backend, sizes, B, T, S, options, dtype);
}

}  // namespace folio
