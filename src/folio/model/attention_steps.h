#pragma once

#include <cstdint>
#include <optional>

#include "folio/backend/backend.h"
#include "folio/tensor/plan.h"

namespace folio {

// How scores become weights.
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
  int64_t H = 1;
  int64_t G = 0;                     // heads of keys and values, a divisor of H; 0 for H
  std::optional<double> scale = {};  // of the scores; 1/sqrt(D) if not given
  Tensor mask = {};                  // (B or 1, H or 1, T, S) u8, optional; must outlive its user
  MaskOrder mask_order = MaskOrder::kBeforeSoftmax;
  Weighting weighting = Weighting::kSoftmax;
  Dropout dropout = {};  // of the weights; rows are ((b * H + h) * T + t), of width S
};

// What attention leaves behind at each step, all but the last (B,H,T,S). A step that the options
// leave out is the tensor of the step before.
struct AttentionSteps {
  Tensor scores;   // scale * q k^T
  Tensor masked;   // kBeforeSoftmax: -infinity where masked (0 for the weightings without exp)
  Tensor softmax;  // after the weighting: rows that add up to 1, unless that is kNone
  Tensor weights;  // kAfterSoftmax: 0 where masked, and rows that add up to 1 again
  Tensor kept;     // after dropout
  Tensor context;  // (B*T, H*Dv)
};

// Dot-product attention (A. Vaswani et al., arXiv:1706.03762, section 3.2.1) one step at a time,
// each an operation of the backend, keeping what every step gave. The specification of what the
// fused AttentionForward computes in one, and what one looks at. Owns the steps; after construction
// it allocates nothing.
class StepwiseAttention {
 public:
  // B sequences of T queries and S keys, heads of D elements (of Dv in the values). Throws a kUsage
  // Error if H is no multiple of G. `backend` must outlive it.
  StepwiseAttention(Backend& backend, int64_t B, int64_t T, int64_t S, int64_t D, int64_t Dv,
                    const AttentionOptions& options, Dtype dtype = Dtype::kF32);
  StepwiseAttention(const StepwiseAttention&) = delete;

  // q (B,T,H*D), k (B,S,G*D), v (B,S,G*Dv).
  void Forward(const SequenceView& q, const SequenceView& k, const SequenceView& v);

  // After Forward with the same q, k, v and options: the gradients of all three, overwritten, from
  // d_context (B*T, H*Dv).
  void Backward(const SequenceView& q, const SequenceView& k, const SequenceView& v,
                const Tensor& d_context, const SequenceView& d_q, const SequenceView& d_k,
                const SequenceView& d_v);

  const AttentionOptions& options() const { return options_; }
  // For all that may change from step to step: everything but H and G.
  AttentionOptions& options() { return options_; }
  // What the last Forward left.
  const AttentionSteps& steps() const { return steps_; }

 private:
  bool Masks(MaskOrder order) const { return options_.mask && options_.mask_order == order; }
  bool Exponential() const;  // whether the weighting takes exp of the scores
  double scale() const;
  // One row per query.
  Tensor Rows(const Tensor& x) const { return x.Reshape({B_ * options_.H * T_, S_}); }

  Backend& backend_;
  int64_t B_, T_, S_, D_, Dv_;
  AttentionOptions options_;
  Arena arena_;
  AttentionSteps memory_;  // a place for each step
  AttentionSteps steps_;
  Tensor weighting_sums_;  // (B*H*T) of kSum
  Tensor masking_sums_;    // (B*H*T) of kAfterSoftmax
  Tensor d_weights_;       // (B,H,T,S)
};

}  // namespace folio
