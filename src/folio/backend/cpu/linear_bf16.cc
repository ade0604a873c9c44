#include "folio/backend/cpu/bf16_matmul.h"
#include "folio/backend/cpu/linear.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/cpu/rows.h"

namespace folio::cpu {
namespace {

// The part of x where a block lies; null if x is absent.
template <class T>
T* At(const Bf16Block& block, const Tensor& x) {
  return x ? x.data<T>() + block.rows.begin * x.dim(1) + block.columns.begin : nullptr;
}

template <class T>
ResultBlock<T> BlockOf(const Bf16Block& block, const Tensor& out) {
  return {.rows = block.rows.size,
          .columns = block.columns.size,
          .sums = block.sums,
          .sums_stride = block.stride,
          .out = At<T>(block, out),
          .stride = out.dim(1)};
}

template <class T>
void Store(const Bf16Block& block, const LinearForward& op) {
  if (op.accumulate) return StoreSums(BlockOf<T>(block, op.out), true);
  const float* bias = op.bias ? op.bias.data<float>() + block.columns.begin : nullptr;
  StoreBiased(BlockOf<T>(block, op.out), bias, op.activation, At<T>(block, op.act));
}

template <class T>
void StoreInputGradient(const Bf16Block& block, const LinearBackward& op) {
  if (op.pre) {
    StoreGradient(BlockOf<T>(block, op.d_x), op.activation, At<T>(block, op.pre));
  } else {
    StoreSums(BlockOf<T>(block, op.d_x), op.accumulate_d_x);
  }
}

template <class X, class Weight>
void Multiply(const LinearForward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  const auto store = op.out.dtype() == Dtype::kBF16 ? Store<BF16> : Store<float>;
  Bf16MatMul(MatrixView<X>{op.x.data<X>(), I},
             MatrixView<Weight>{op.weight.data<Weight>(), op.transposed ? I : O, op.transposed}, N,
             O, I, scratch, [&](const Bf16Block& block) { store(block, op); });
}

}  // namespace

void RunLinearBf16(const LinearForward& op, Scratch& scratch) {
  const bool stored = op.weight.dtype() == Dtype::kBF16;
  stored ? Multiply<float, BF16>(op, scratch) : Multiply<BF16, float>(op, scratch);
}

void RunLinearBf16(const LinearBackward& op, Scratch& scratch) {
  const int64_t N = op.d_out.dim(0), O = op.d_out.dim(1), I = op.weight.dim(op.transposed ? 1 : 0);
  const BF16* d_out = op.d_out.data<BF16>();
  // forward: out = x weight + bias
  if (op.d_x) {
    const bool bf16 = op.d_x.dtype() == Dtype::kBF16;
    const auto store = bf16 ? StoreInputGradient<BF16> : StoreInputGradient<float>;
    Bf16MatMul(MatrixView<BF16>{d_out, O},
               MatrixView<float>{op.weight.data<float>(), op.transposed ? I : O, !op.transposed}, N,
               I, O, scratch, [&](const Bf16Block& block) { store(block, op); });
  }
  if (op.d_weight) {
    const MatrixView<BF16> x{op.x.data<BF16>(), I}, d{d_out, O};
    const auto& left = op.transposed ? d : x;  // d_weight = d_out^T x, else x^T d_out
    const auto& right = op.transposed ? x : d;
    Bf16MatMul(MatrixView<BF16>{left.data, left.stride, true}, right, left.stride, right.stride, N,
               scratch, [&](const Bf16Block& block) {
                 StoreSums(BlockOf<float>(block, op.d_weight), op.accumulate_d_weight);
               });
  }
  if (op.d_bias) AddColumnSums(d_out, N, O, op.d_bias.data<float>());
}

}  // namespace folio::cpu
