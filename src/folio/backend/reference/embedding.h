#pragma once

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/base/check.h"

namespace folio::reference {

// Row n stands at positions[n] or, where `positions` is null, at its place among the T.
inline int64_t PositionOf(const int32_t* positions, int64_t n, int64_t T) {
  return positions != nullptr ? positions[n] : n % T;
}

inline void CheckToken(int32_t id, int64_t V) {
  FOLIO_CHECK((id >= 0 && id < V) || id == kElsewhere, "token outside the vocabulary");
}

// out[b*T+t,:] = wte[ids[b,t],:] + wpe[position,:]; wpe may be null. V is wte's rows.
template <class Number>
void EmbeddingForward(const int32_t* ids, const Number* wte, const Number* wpe, Number* out,
                      int64_t B, int64_t T, int64_t C, int64_t V, const int32_t* positions) {
  for (int64_t n = 0; n < B * T; ++n) {
    CheckToken(ids[n], V);
    for (int64_t c = 0; c < C; ++c) {
      const Number token = ids[n] == kElsewhere ? Number(0) : wte[ids[n] * C + c];
      out[n * C + c] = wpe ? token + wpe[PositionOf(positions, n, T) * C + c] : token;
    }
  }
}

// d_wte[ids[b,t],:] += d_out[b*T+t,:], d_wpe[position,:] += the same; d_wpe may be null.
template <class Number>
void EmbeddingBackward(const int32_t* ids, const Number* d_out, Number* d_wte, Number* d_wpe,
                       int64_t B, int64_t T, int64_t C, int64_t V, const int32_t* positions) {
  for (int64_t n = 0; n < B * T; ++n) {
    CheckToken(ids[n], V);
    for (int64_t c = 0; c < C; ++c) {
      if (ids[n] != kElsewhere) d_wte[ids[n] * C + c] += d_out[n * C + c];
      if (d_wpe) d_wpe[PositionOf(positions, n, T) * C + c] += d_out[n * C + c];
    }
  }
}

}  // namespace folio::reference
