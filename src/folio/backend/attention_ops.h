#pragma once

// Attention in one operation, as models run it. Letters as in ops.h, and: S keys, G heads of keys
// and values, each shared by H/G consecutive heads of queries (J. Ainslie et al.,
// arXiv:2305.13245).

#include <cstdint>
#include <string_view>

#include "folio/backend/op_types.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Heads of keys and values: G, or as many as there are heads of queries.
inline int64_t KeyHeads(int64_t H, int64_t G) {
  return G == 0 ? H : G;
}

// ---- Attention: per head, out = dropout(softmax(mask(q k^T / sqrt(D)))) v ---------------------
//
// Query row t may attend to key row s where s <= t + (S - T) if causal, and where key_mask[b,s] !=
// 0. A query that may attend to nothing gives zeros and no gradient. No (T,S) array is kept: the
// backward recomputes the weights from lse. Dropout rows are ((b * H + h) * T + t), of width S.
// Where q, k and v are bfloat16, what enters a product may be rounded to bfloat16: weights, and
// gradients of scores.

struct AttentionForward {
  static constexpr std::string_view kName = "attention_forward";
  SequenceView q;        // (B,T,H*D) Half
  SequenceView k;        // (B,S,G*D) Half
  SequenceView v;        // (B,S,G*D) Half
  Tensor key_mask = {};  // (B,S) u8, optional
  SequenceView out;      // (B,T,H*D) Half
  Tensor lse;  // (B,H,T), log of the sum of exp(score); -infinity where nothing is attended to
  Tensor probs = {};  // (B,H,T,S), optional: the weights after softmax, before dropout
  int64_t H = 1;
  int64_t G = 0;  // heads of keys and values, a divisor of H; 0 for H
  bool causal = true;
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("q", q, Access::kRead), f("k", k, Access::kRead), f("v", v, Access::kRead);
    f("key_mask", key_mask, Access::kRead), f("out", out, Access::kWrite);
    f("lse", lse, Access::kWrite), f("probs", probs, Access::kWrite);
  }
};

struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  SequenceView q, k, v;        // as in the forward
  Tensor key_mask = {};        // (B,S) u8, optional
  SequenceView out;            // (B,T,H*D) Half, the forward's result
  Tensor lse;                  // (B,H,T)
  SequenceView d_out;          // (B,T,H*D) Half
  SequenceView d_q, d_k, d_v;  // as q, k, v
  int64_t H = 1;
  int64_t G = 0;  // heads of keys and values, a divisor of H; 0 for H
  bool causal = true;
  Dropout dropout = {};

  void Check() const;
  double Flops() const;
  template <class F>
  void Visit(F&& f) const {
    f("q", q, Access::kRead), f("k", k, Access::kRead), f("v", v, Access::kRead);
    f("key_mask", key_mask, Access::kRead), f("out", out, Access::kRead);
    f("lse", lse, Access::kRead), f("d_out", d_out, Access::kRead);
    f("d_q", d_q, Access::kWrite), f("d_k", d_k, Access::kWrite), f("d_v", d_v, Access::kWrite);
  }
};

}  // namespace folio
