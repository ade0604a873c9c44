#include "folio/lesson/attention_mask.h"

namespace folio {

AttentionMask::AttentionMask(const Shape& shape)
    : memory_(static_cast<size_t>(shape.count())), shape_(shape) {}

AttentionMask AttentionMask::Causal(int64_t T, int64_t S) {
  std::vector<uint8_t> all(static_cast<size_t>(S), 1);
  return Combined(Tensor(all.data(), {1, S}), T, /*causal=*/true);
}

AttentionMask AttentionMask::Combined(const Tensor& key_mask, int64_t T, bool causal) {
  FOLIO_CHECK(key_mask.shape().rank() == 2, "a mask of keys has the shape (B,S)");
  const int64_t B = key_mask.dim(0), S = key_mask.dim(1);
  const uint8_t* keys = key_mask.data<uint8_t>();
  AttentionMask mask({B, 1, T, S});
  auto at = mask.memory_.begin();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      // The last query stands at the last key.
      const int64_t seen = causal ? t + (S - T) + 1 : S;
      for (int64_t s = 0; s < S; ++s) *at++ = s < seen && keys[b * S + s] != 0;
    }
  }
  return mask;
}

}  // namespace folio
