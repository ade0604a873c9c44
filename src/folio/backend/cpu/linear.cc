#include "folio/backend/cpu/linear.h"

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/cpu/matmul.h"
#include "folio/backend/cpu/rows.h"

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

}  // namespace

void RunLinear(const LinearForward& op) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  const MatMulArgs product{.M = N,
                           .N = O,
                           .K = I,
                           .a = op.x.data<float>(),
                           .lda = I,
                           .b = op.weight.data<float>(),
                           .ldb = op.transposed ? I : O,
                           .transpose_b = op.transposed,
                           .c = op.out.data<float>(),
                           .ldc = O,
                           .beta = op.accumulate ? 1.0f : 0.0f};
  if (!op.bias && !op.act) return MatMul(product);
  MatMul(product, [&](const MatMulTile& tile) {
    const float* bias = op.bias ? op.bias.data<float>() + tile.column : nullptr;
    float* act = op.act ? op.act.data<float>() + tile.row * O + tile.column : nullptr;
    StoreBiased(BlockOf(tile, op.out), bias, op.activation, act);
  });
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
  op.x.dtype() == Dtype::kBF16 ? RunLinearBf16(op, scratch) : RunLinear(op);
}

void Run(const LinearBackward& op, Scratch& scratch) {
  op.d_out.dtype() == Dtype::kBF16 ? RunLinearBf16(op, scratch) : RunLinear(op);
}

}  // namespace folio::cpu
