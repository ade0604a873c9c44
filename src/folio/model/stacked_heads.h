#pragma once

#include <memory>
#include <span>
#include <vector>

#include "folio/model/causal_attention.h"

namespace folio {

// Several heads the plain way: single causal heads side by side, their contexts concatenated. What
// MultiHeadAttention without an output projection computes in one, if the heads' columns stand side
// by side in its weights.
class StackedHeads {
 public:
  // Each head as `sizes` says (H = 1).
  StackedHeads(Backend& backend, const AttentionSizes& sizes, int64_t heads, int64_t B, int64_t T,
               Dtype dtype = Dtype::kF32);

  // x (B*T, d_in), one set of parameters per head. Returns (B*T, heads * d_out).
  const Tensor& Forward(std::span<const AttentionParams> params, const Tensor& x);
  // d_params get +=, d_x is overwritten.
  void Backward(std::span<const AttentionParams> params, const Tensor& x, const Tensor& d_out,
                std::span<const AttentionParams> d_params, const Tensor& d_x);

  int64_t heads() const { return static_cast<int64_t>(heads_.size()); }
  const CausalAttention& head(int64_t h) const { return *heads_[static_cast<size_t>(h)]; }
  const Tensor& out() const { return out_; }

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<CausalAttention>> heads_;
  Arena arena_;
  Tensor out_;              // (B*T, heads * d_out)
  Tensor d_context_, d_x_;  // one head's (B*T, d_out), (B*T, d_in)
};

// The weights of one split layer (H = heads.size(), no out_proj) that computes the same: the heads'
// columns side by side. REQUIRES: heads alike in size and dtype.
AttentionWeights JoinHeads(std::span<const AttentionWeights* const> heads);

}  // namespace folio
