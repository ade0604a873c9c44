#include "folio/backend/cpu/linear.h"

#include <algorithm>

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/cpu/linear_rows.h"
#include "folio/backend/cpu/matmul.h"
#include "folio/backend/cpu/rows.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/backend/operands.h"
#include "folio/base/simd_targets.h"

namespace folio::cpu {
namespace {

// A tile of `out`, which holds the sums already.
ResultBlock<float> BlockOf(const MatMulTile& tile, const Tensor& out) {
  const int64_t stride = out.dim(1);
  float* at = out.data<float>() + tile.row * stride + tile.column;
  return {.rows = tile.rows,
          .columns = tile.columns,
          .sums = at,
          .sums_stride = stride,
          .out = at,
          .stride = stride};
}

// Columns [begin, begin + columns) of the result: `weight` is (I,columns), or (columns,I).
void RunColumns(const LinearForward& op, const float* x, const float* weight, int64_t begin,
                int64_t columns) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  const MatMulArgs product{.M = N,
                           .N = columns,
                           .K = I,
                           .a = x,
                           .lda = I,
                           .b = weight,
                           .ldb = op.transposed ? I : columns,
                           .transpose_b = op.transposed,
                           .c = op.out.data<float>() + begin,
                           .ldc = O,
                           .beta = op.accumulate ? 1.0f : 0.0f};
  if (!op.bias && !op.act) return MatMul(product);
  MatMul(product, [&](MatMulTile tile) {
    tile.column += begin;
    const float* bias = op.bias ? op.bias.data<float>() + tile.column : nullptr;
    float* act = op.act ? op.act.data<float>() + tile.row * O + tile.column : nullptr;
    StoreBiased(BlockOf(tile, op.out), bias, op.activation, act);
  });
}

// Many rows and a weight that is not float32: it is decoded some columns of the result at a time.
void RunStored(const LinearForward& op, Scratch& scratch) {
  constexpr int64_t kColumns = 512;
  const Dtype dtype = op.weight.dtype();
  const int64_t I = op.x.dim(1), O = op.out.dim(1), width = std::min(O, kColumns);
  float* decoded = scratch.Get<float>(I * width + op.x.count());
  const float* x = RoundedRows(op.x, EntersAs(op, "x"), decoded + I * width);
  for (int64_t begin = 0; begin < O; begin += width) {
    const int64_t columns = std::min(O - begin, width);
    ParallelRange(columns, TaskRows(I), [&](int64_t first, int64_t last, int) {
      DecodeStored(dtype, op.weight.raw() + DtypeBytes(dtype, (begin + first) * I),
                   (last - first) * I, decoded + first * I);
    });
    RunColumns(op, x, decoded, begin, columns);
  }
}

}  // namespace

void RunLinear(const LinearForward& op) {
  RunColumns(op, op.x.data<float>(), op.weight.data<float>(), 0, op.out.dim(1));
}

void RunLinear(const LinearBackward& op) {
  const int64_t N = op.d_out.dim(0), O = op.d_out.dim(1), I = op.weight.dim(op.transposed ? 1 : 0);
  const float* d_out = op.d_out.data<float>();
  // forward: out = x weight + bias
  if (op.d_x) {
    const MatMulArgs product{.M = N,
                             .N = I,
                             .K = O,
                             .a = d_out,
                             .lda = O,
                             .b = op.weight.data<float>(),
                             .ldb = op.transposed ? I : O,
                             .transpose_b = !op.transposed,
                             .c = op.d_x.data<float>(),
                             .ldc = I,
                             .beta = op.accumulate_d_x ? 1.0f : 0.0f};
    MatMul(product, [&](const MatMulTile& tile) {
      if (!op.pre) return;
      const float* pre = op.pre.data<float>() + tile.row * I + tile.column;
      StoreGradient(BlockOf(tile, op.d_x), op.activation, pre);
    });
  }
  if (op.d_weight) {
    const float* x = op.x.data<float>();
    const bool t = op.transposed;  // d_weight = d_out^T x, else x^T d_out
    MatMul({.M = t ? O : I,
            .N = t ? I : O,
            .K = N,
            .a = t ? d_out : x,
            .lda = t ? O : I,
            .transpose_a = true,
            .b = t ? x : d_out,
            .ldb = t ? I : O,
            .c = op.d_weight.data<float>(),
            .ldc = t ? I : O,
            .beta = op.accumulate_d_weight ? 1.0f : 0.0f});
  }
  if (op.d_bias) AddColumnSums(d_out, N, O, op.d_bias.data<float>());
}

void Run(const LinearForward& op, Scratch& scratch) {
  if (RunsByRows(op)) return RunLinearRows(op, scratch);
  const bool stored = op.weight.dtype() == Dtype::kBF16 && Bf16UnitIsFast();
  if (stored || op.x.dtype() == Dtype::kBF16) return RunLinearBf16(op, scratch);
  op.weight.dtype() == Dtype::kF32 ? RunLinear(op) : RunStored(op, scratch);
}

void Run(const LinearBackward& op, Scratch& scratch) {
  op.d_out.dtype() == Dtype::kBF16 ? RunLinearBf16(op, scratch) : RunLinear(op);
}

}  // namespace folio::cpu
