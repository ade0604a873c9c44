#pragma once

#include <cstdint>

#include "folio/backend/cpu/scratch.h"
#include "folio/tensor/tensor.h"

namespace folio::cpu {

// Rows of float32 on their way into products with a weight in blocks (O,I): rounded to Q8_0, so
// that each block contributes an exact sum of products of integers times two scales. These are
// added block by block in the order of I, with one rounding each, on every instruction set: a
// result is the same, bit for bit, wherever and beside whatever it is computed.
class BlockedRows {
 public:
  static constexpr int64_t kBlock = 32;      // numbers
  static constexpr int64_t kScaleBytes = 2;  // with which each block begins
  static constexpr int64_t kSums = 4;

  BlockedRows() = default;
  // x (N,I), for weights of that dtype. Lives in `scratch`. REQUIRES: I is whole blocks.
  BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch);

  // out (N,O), columns [begin, end) of it = x times rows [begin, end) of the weight.
  void Multiply(const Tensor& weight, int64_t begin, int64_t end, const Tensor& out) const;

  // As kernels see them. Block b of row n has its numbers at numbers + 32 (n blocks + b), its scale
  // at scales[n scale_stride + b], with zeros up to a multiple of four.
  int64_t rows = 0, blocks = 0, scale_stride = 0;
  const int8_t* numbers = nullptr;
  const float* scales = nullptr;
  // What each four numbers add up to times the offset of the weight's integers, which kernels have
  // as unsigned ones: -128 or -8 times their sum.
  const int32_t* corrections = nullptr;
};

}  // namespace folio::cpu
