#pragma once

#include <cstdint>

#include "folio/backend/cpu/scratch.h"
#include "folio/tensor/tensor.h"

namespace folio::cpu {

// Rows of float32 on their way into products with a weight in blocks (O,I): rounded to Q8_0, so
// that four products of integers add up exactly. Sixteen sums of such fours, times the two scales
// of their blocks, are made in the order of I, with one rounding each: those at the same place of
// every second block. They are joined in one order too. So a result is the same, bit for bit, on
// every instruction set, and beside whatever it is computed.
class BlockedRows {
 public:
  static constexpr int64_t kBlock = 32;      // numbers
  static constexpr int64_t kScaleBytes = 2;  // with which each block begins
  static constexpr int64_t kGroup = 4;       // blocks

  // MayBeMany says whether more than LinearForward::kFewRows rows are allowed: they are where the
  // kernel in use is faster with any number than products of decoded numbers are.
  static bool MayBeMany();

  // x (N,I), for weights of that dtype. Lives in `scratch`. REQUIRES: I is whole blocks.
  BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch);

  // out (N,O), columns [begin, end) of it = x times rows [begin, end) of the weight.
  void Multiply(const Tensor& weight, int64_t begin, int64_t end, const Tensor& out) const;

  // Kernels see the rows in these members. Block b of row n has its numbers at numbers + 32 (n
  // stride + b), its scale at scales[n stride + b]; the stride is whole groups of blocks, with
  // zeros behind the last block.
  int64_t rows = 0, blocks = 0, stride = 0;
  const int8_t* numbers = nullptr;
  const float* scales = nullptr;
  // corrections[i] is -128 or -8 times the sum of the four numbers from numbers + 4 i on, since
  // kernels have the weight's integers as unsigned ones, which are so much larger.
  const int32_t* corrections = nullptr;
};

}  // namespace folio::cpu
