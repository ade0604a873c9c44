#include "folio/backend/cpu/bf16_matmul.h"
#include "folio/backend/cpu/linear.h"
#include "folio/backend/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_bf16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// The sums of a block, plus a row of `bias` unless that is null, into its place in `out`, whose
// rows are `stride` apart; added to what is there if `add`.
template <class T>
HWY_INLINE void StoreBlock(const Bf16Block& block, const float* bias, bool add, T* out,
                           int64_t stride) {
  const hn::ScalableTag<float> d;
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  for (int64_t r = 0; r < block.rows.size; ++r) {
    const float* from = block.sums + r * block.stride;
    T* to = out + (block.rows.begin + r) * stride + block.columns.begin;
    if (add) {
      Map(d, block.columns.size, to, sum, static_cast<const T*>(to), from);
    } else if (bias != nullptr) {
      Map(d, block.columns.size, to, sum, from, bias + block.columns.begin);
    } else {
      Map(
          d, block.columns.size, to, [](auto a) HWY_ATTR { return a; }, from);
    }
  }
}

void StoreHalf(const Bf16Block& block, const float* bias, bool add, BF16* out, int64_t stride) {
  StoreBlock(block, bias, add, out, stride);
}
void StoreFloat(const Bf16Block& block, const float* bias, bool add, float* out, int64_t stride) {
  StoreBlock(block, bias, add, out, stride);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(StoreHalf);
HWY_EXPORT(StoreFloat);

namespace {

void Store(const Bf16Block& block, const Tensor& bias, bool add, const Tensor& out) {
  if (out.dtype() == Dtype::kBF16) {
    HWY_DYNAMIC_DISPATCH(StoreHalf)
    (block, bias.data<float>(), add, out.data<BF16>(), out.dim(1));
  } else {
    HWY_DYNAMIC_DISPATCH(StoreFloat)
    (block, bias.data<float>(), add, out.data<float>(), out.dim(1));
  }
}

}  // namespace

void RunLinearBf16(const LinearForward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  Bf16MatMul(MatrixView<BF16>{op.x.data<BF16>(), I},
             MatrixView<float>{op.weight.data<float>(), op.transposed ? I : O, op.transposed}, N, O,
             I, scratch, [&](const Bf16Block& block) { Store(block, op.bias, false, op.out); });
}

void RunLinearBf16(const LinearBackward& op, Scratch& scratch) {
  const int64_t N = op.d_out.dim(0), O = op.d_out.dim(1), I = op.weight.dim(op.transposed ? 1 : 0);
  const BF16* d_out = op.d_out.data<BF16>();
  // forward: out = x weight + bias
  if (op.d_x) {
    Bf16MatMul(MatrixView<BF16>{d_out, O},
               MatrixView<float>{op.weight.data<float>(), op.transposed ? I : O, !op.transposed}, N,
               I, O, scratch,
               [&](const Bf16Block& block) { Store(block, {}, op.accumulate_d_x, op.d_x); });
  }
  if (op.d_weight) {
    const MatrixView<BF16> x{op.x.data<BF16>(), I}, d{d_out, O};
    const auto& left = op.transposed ? d : x;  // d_weight = d_out^T x, else x^T d_out
    const auto& right = op.transposed ? x : d;
    Bf16MatMul(MatrixView<BF16>{left.data, left.stride, true}, right, left.stride, right.stride, N,
               scratch, [&](const Bf16Block& block) { Store(block, {}, true, op.d_weight); });
  }
  if (op.d_bias) AddColumnSums(d_out, N, O, op.d_bias.data<float>());
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
