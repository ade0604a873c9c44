#pragma once

// Numbers of kernels, and functions of warps and of threads of a grid.

#include "folio/backend/device/kernel.h"
#include "folio/tensor/dtype.h"

namespace folio::device {

FOLIO_DEVICE float Load(float x) {
  return x;
}
FOLIO_DEVICE float Load(BF16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

FOLIO_DEVICE void Store(float& to, float value) {
  to = value;
}
// The nearest bfloat16, ties to even; a NaN stays a NaN.
FOLIO_DEVICE void Store(BF16& to, float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
  to.bits = static_cast<uint16_t>(value != value ? bits >> 16 | 0x40 : rounded >> 16);
}

// B sequences of T rows, as SequenceView.
template <class T>
struct RowsOf {
  T* data;
  int64_t per_sequence, batch_stride, row_stride;

  FOLIO_DEVICE T* Row(int64_t n) const {
    return data + n / per_sequence * batch_stride + n % per_sequence * row_stride;
  }
};

FOLIO_DEVICE int Lane() {
  return ThreadInBlock() % kWarp;
}
FOLIO_DEVICE int64_t ThreadInGrid() {
  return BlockX() * BlockThreads() + ThreadInBlock();
}
FOLIO_DEVICE int64_t WarpInGrid() {
  return ThreadInGrid() / kWarp;
}

// The sum over the lanes of a whole warp, the same in each, in an order that is always the same.
template <class T>
FOLIO_DEVICE T WarpSum(T x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += ShuffleXor(x, distance);
  return x;
}

// The largest of a whole warp; NaNs do not count.
FOLIO_DEVICE float WarpMax(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, ShuffleXor(x, distance));
  }
  return x;
}

}  // namespace folio::device
