#pragma once

// Products of a few rows with a weight that is read once, at the speed of memory: for decoding.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/operands.h"
#include "folio/backend/ops.h"
#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Returns true if RunLinearRows is suitable for `op`: float32 rows, no accumulation, and at most
// LinearForward::kFewRows rows; or any number of rows if the processor's dot products of bfloat16
// numbers, or of integers, on the weight as stored are faster than products of many rows.
bool RunsByRows(const LinearForward& op);

// The order of each sum depends neither on the number of rows nor on that of threads. REQUIRES:
// RunsByRows(op), the struct has been checked.
void RunLinearRows(const LinearForward& op, Scratch& scratch);

// Returns x (N,I) rounded, in `to`; x itself if nothing is rounded.
const float* RoundedRows(const Tensor& x, Rounding as, float* to);

// ---- Kernels of linear_rows_x86.cc --------------------------------------------------------------

// Rows of bfloat16 numbers for products with a weight of the same dtype (O,I): row n at numbers + n
// * stride, padded with zeros to whole vectors of 32. Aligned to 64 bytes.
struct HalfRows {
  const BF16* numbers = nullptr;
  int64_t rows = 0, stride = 0;
};

// out[n * ldo + r] = x[n] . weight[r], for `weight_rows` consecutive rows of I numbers. The
// products of each pair of numbers are added to one of sixteen sums, in the order of I; these are
// joined in a fixed order. So a result is the same, bit for bit, whatever else is computed with it.
// REQUIRES: Bf16UnitInUse() is not kPlain.
void MultiplyHalfRows(const HalfRows& x, const BF16* weight, int64_t weight_rows, int64_t I,
                      float* out, int64_t ldo);

// Rows of float32 for products with a weight in blocks (O,I): rounded to integers times powers of
// two (kBlockFloat), so that four products of integers are summed exactly. Such sums of four, times
// the two scales of their blocks, are added to sixteen sums in the order of I, with one rounding
// each: to those at the same place of every second block. A block of 256 counts as eight of 32
// here, whose scales are exact in float32: six or eight bits times binary16. The minima of a
// weight's blocks, times the sums of the blocks of x, are added to four further sums, each for
// every fourth block. All sums are joined in a fixed order. So a result is the same, bit for bit,
// on every instruction set, and whatever else is computed with it.
struct BlockedRows {
  static constexpr int64_t kBlock = 32;      // numbers
  static constexpr int64_t kScaleBytes = 2;  // at the begin of each block
  static constexpr int64_t kGroup = 4;       // blocks

  // x (N,I), for weights of that dtype. Its memory is in `scratch`. REQUIRES: I is whole blocks.
  BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch);

  // Block b of row n has its integers, 128 high + low, at high and low + 32 (n stride + b), its
  // scale at scales[n stride + b]; the stride is whole groups of blocks, padded with zeros.
  int64_t rows = 0, blocks = 0, stride = 0;
  const int8_t* high = nullptr;
  const int8_t* low = nullptr;
  const float* scales = nullptr;
  // corrections[i] is -128, -32 or -8 times the sum of the four integers from high + 4 i on, since
  // kernels use the weight's integers as unsigned ones, which are larger by that much. Weights with
  // minima have none; for them `sums` has the sum of each block's numbers times its scale.
  const int32_t* corrections = nullptr;
  const float* sums = nullptr;
};

template <Dtype dtype>
using DtypeIs = std::integral_constant<Dtype, dtype>;

// Calls f(DtypeIs<dtype>()) for a weight's dtype, one in blocks for which IsStored holds.
template <class F>
auto ForBlockDtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kQ8_0:
      return f(DtypeIs<Dtype::kQ8_0>());
    case Dtype::kQ4_0:
      return f(DtypeIs<Dtype::kQ4_0>());
    case Dtype::kQ4_1:
      return f(DtypeIs<Dtype::kQ4_1>());
    case Dtype::kQ4_K:
      return f(DtypeIs<Dtype::kQ4_K>());
    case Dtype::kQ5_K:
      return f(DtypeIs<Dtype::kQ5_K>());
    default:
      FOLIO_CHECK(dtype == Dtype::kQ6_K, "no kernel reads this dtype");
      return f(DtypeIs<Dtype::kQ6_K>());
  }
}

// Computes out[n * stride + r] for `rows` rows of a weight in blocks, from `weight` on.
using BlockKernel = void (*)(const BlockedRows& x, const std::byte* weight, int64_t rows,
                             float* out, int64_t stride);

// Returns true if the kernels in use take more than LinearForward::kFewRows rows: if they are
// faster than products of decoded numbers for any number of rows.
bool X86TakesAnyRows();

// The fastest kernel of the instruction set in use for a weight of that dtype, for one row of x or
// for several; null if x86 has none for it.
BlockKernel X86BlockKernel(Dtype weight, bool one);

}  // namespace folio::cpu
