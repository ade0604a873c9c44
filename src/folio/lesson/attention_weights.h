#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/base/rng.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/layers/linear.h"

namespace folio {

// Sizes of an attention layer with trainable weights. Heads of queries, keys and values all have
// D = d_out / H elements.
struct AttentionSizes {
  int64_t d_in = 0;     // of what queries are made from
  int64_t d_kv_in = 0;  // of what keys and values are made from; 0 for d_in
  int64_t d_out = 0;    // of all heads together
  int64_t H = 1;
  int64_t G = 0;          // heads of keys and values; 0 for H
  bool bias = false;      // of q, k and v
  bool out_proj = false;  // with an output projection (d_out,d_out)
  bool out_bias = true;   // of the output projection

  int64_t head_size() const { return d_out / H; }
  int64_t kv_heads() const { return G == 0 ? H : G; }
  int64_t kv_out() const { return kv_heads() * head_size(); }  // width of keys, and of values
  int64_t kv_in() const { return d_kv_in == 0 ? d_in : d_kv_in; }
  // Throws a kUsage Error naming the numbers and the nearest that fit where d_out is no multiple of
  // H, or H none of G, or a size is not positive.
  void Validate() const;
};

// Its parameters, or their gradients, in GPT-2's orientation (in,out).
struct AttentionParams {
  LinearParams q, k, v;  // (d_in, d_out), (d_kv_in, G*D), (d_kv_in, G*D)
  LinearParams out;      // (d_out, d_out), empty without out_proj
};

// Parameters in memory of their own, zero at first.
class AttentionWeights {
 public:
  explicit AttentionWeights(const AttentionSizes& sizes, Dtype dtype = Dtype::kF32);

  const AttentionSizes& sizes() const { return sizes_; }
  const AttentionParams& params() const { return params_; }
  Dtype dtype() const;

 private:
  AttentionSizes sizes_;
  std::vector<StepTensor> memory_;
  AttentionParams params_;
};

enum class AttentionDraws {
  kUnit,    // weights uniform in [0,1), drawn in the order (in,out): torch.rand(d_in, d_out);
            // biases stay as they are
  kLinear,  // weights and biases uniform within 1/sqrt(in), drawn in the order (out,in), each
            // layer's weight before its bias: torch.nn.Linear
};

// Fills q, k, v and, if there is one, out, in this order. REQUIRES: float32.
void DrawAttention(AttentionWeights& weights, AttentionDraws draws, TorchRng& rng);
// Draws from the same distributions by folio's own numbers: a function of seed, layer and element.
// `head` tells layers of one seed apart.
void DrawAttention(AttentionWeights& weights, AttentionDraws draws, uint64_t seed,
                   uint64_t head = 0);

// The weights of one layer split into heads (H = heads.size(), no out_proj) that computes the same
// as these side by side: their columns side by side. REQUIRES: heads alike in size and dtype, each
// single.
AttentionWeights JoinHeads(std::span<const AttentionWeights> heads);

// Copies `columns` columns of each row of (N,C) tensors, from column `from` of x to column `to` of
// out.
void CopyColumns(const Tensor& x, int64_t from, const Tensor& out, int64_t to, int64_t columns);

}  // namespace folio
