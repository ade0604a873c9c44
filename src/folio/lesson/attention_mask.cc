#include "folio/lesson/attention_mask.h"

namespace folio {
namespace {

// Whether query t of T comes no earlier than key s of S, the last query standing at the last key.
bool NotInTheFuture(int64_t t, int64_t T, int64_t s, int64_t S) {
  return s <= t + (S - T);
}

}  // namespace

AttentionMask::AttentionMask(const Shape& shape)
    : memory_(static_cast<size_t>(shape.count())), shape_(shape) {}

AttentionMask AttentionMask::Causal(int64_t T, int64_t S) {
  AttentionMask mask({1, 1, T, S});
  auto at = mask.memory_.begin();
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t s = 0; s < S; ++s) *at++ = NotInTheFuture(t, T, s, S);
  }
  return mask;
}

AttentionMask AttentionMask::Combined(const Tensor& key_mask, int64_t T, bool causal) {
  FOLIO_CHECK(key_mask.shape().rank() == 2, "a mask of keys has the shape (B,S)");
  const int64_t B = key_mask.dim(0), S = key_mask.dim(1);
  const uint8_t* keys = key_mask.data<uint8_t>();
  AttentionMask mask({B, 1, T, S});
  auto at = mask.memory_.begin();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t s = 0; s < S; ++s) {
        *at++ = keys[b * S + s] != 0 && (!causal || NotInTheFuture(t, T, s, S));
      }
    }
  }
  return mask;
}

}  // namespace folio
