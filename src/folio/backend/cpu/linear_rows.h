#pragma once

// Products of a few rows with a weight that is read once, in the order in which it lies, at the
// speed of memory: as decoding needs them.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/operands.h"
#include "folio/backend/ops.h"
#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// RunsByRows says whether RunLinearRows is for `op`: its rows are of float32, it adds nothing to
// what is there, and it has at most LinearForward::kFewRows of them; or any number where the
// processor's dot products of bfloat16 numbers, or of integers, are faster with the weight as it
// lies than products of many rows are.
bool RunsByRows(const LinearForward& op);

// Each sum is made in one order that neither the number of rows nor that of threads changes.
// REQUIRES: RunsByRows(op), the struct has been checked.
void RunLinearRows(const LinearForward& op, Scratch& scratch);

// Returns x (N,I) rounded, in `to`; x itself where nothing is rounded.
const float* RoundedRows(const Tensor& x, Rounding as, float* to);

// ---- Kernels of linear_rows_x86.cc --------------------------------------------------------------

// Rows of bfloat16 numbers on their way into products with a weight of the same (O,I): row n at
// numbers + n * stride, with zeros behind its numbers up to whole vectors of 32. Aligned to 64
// bytes.
struct HalfRows {
  const BF16* numbers = nullptr;
  int64_t rows = 0, stride = 0;
};

// out[n * ldo + r] = x[n] . weight[r], for `weight_rows` rows of I numbers, which follow each
// other. The products of each pair of numbers are added to one of sixteen sums, in the order of I;
// these are joined in one order. So a result is the same, bit for bit, beside whatever it is
// computed. REQUIRES: Bf16UnitInUse() is not kPlain.
void MultiplyHalfRows(const HalfRows& x, const BF16* weight, int64_t weight_rows, int64_t I,
                      float* out, int64_t ldo);

// Rows of float32 on their way into products with a weight in blocks (O,I): rounded to integers and
// powers of two (kBlockFloat), so that four products of integers add up exactly. Sixteen sums of
// such fours, times the two scales of their blocks, are made in the order of I, with one rounding
// each: those at the same place of every second block. A block of 256 is eight of 32 here, whose
// scales are exact in float32: of six or eight bits times binary16. The minima of a weight's
// blocks, times the sums of the blocks of x, are added to four further sums, each of every fourth
// block. All are joined in one order too. So a result is the same, bit for bit, on every
// instruction set, and beside whatever it is computed.
struct BlockedRows {
  static constexpr int64_t kBlock = 32;      // numbers
  static constexpr int64_t kScaleBytes = 2;  // with which each block begins
  static constexpr int64_t kGroup = 4;       // blocks

  // x (N,I), for weights of that dtype. Lives in `scratch`. REQUIRES: I is whole blocks.
  BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch);

  // Block b of row n has its integers, 128 high + low, from high and low + 32 (n stride + b) on,
  // its scale at scales[n stride + b]; the stride is whole groups of blocks, with zeros behind the
  // last block.
  int64_t rows = 0, blocks = 0, stride = 0;
  const int8_t* high = nullptr;
  const int8_t* low = nullptr;
  const float* scales = nullptr;
  // corrections[i] is -128, -32 or -8 times the sum of the four integers from high + 4 i on,
  // since kernels have the weight's integers as unsigned ones, which are so much larger. For
  // weights with minima there are none, and sums has the sum of each block's numbers times its
  // scale.
  const int32_t* corrections = nullptr;
  const float* sums = nullptr;
};

template <Dtype dtype>
using DtypeIs = std::integral_constant<Dtype, dtype>;

// f(DtypeIs<dtype>()) for a weight's dtype, one in blocks of which IsStored holds.
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

// out[n * stride + r] for `rows` rows of a weight in blocks, from `weight` on.
using BlockKernel = void (*)(const BlockedRows& x, const std::byte* weight, int64_t rows,
                             float* out, int64_t stride);

// X86TakesAnyRows says whether the kernels in use take more than LinearForward::kFewRows rows:
// where they are faster with any number than products of decoded numbers are.
bool X86TakesAnyRows();

// The fastest for a weight of that dtype, and for one row of x or for several, of the instruction
// set in use; null if x86 has none for it.
BlockKernel X86BlockKernel(Dtype weight, bool one);

}  // namespace folio::cpu
