#pragma once

#include <cstdint>

namespace folio::reference {

// x and out (B,H,T,S); mask (mask_B,mask_H,T,S), where mask_B is B or 1 and mask_H is H or 1.
// out = x where mask is not 0, else fill. out may be x.
template <class Number>
void MaskForward(const Number* x, const uint8_t* mask, Number* out, int64_t B, int64_t H,
                 int64_t mask_B, int64_t mask_H, int64_t matrix, double fill) {
  for (int64_t head = 0; head < B * H; ++head) {
    const int64_t b = head / H % mask_B, h = head % H % mask_H;
    const uint8_t* kept = mask + (b * mask_H + h) * matrix;
    for (int64_t i = 0; i < matrix; ++i) {
      out[head * matrix + i] = kept[i] != 0 ? x[head * matrix + i] : Number(fill);
    }
  }
}

}  // namespace folio::reference
