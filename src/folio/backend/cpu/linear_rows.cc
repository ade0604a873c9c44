#include "folio/backend/cpu/linear_rows.h"

#include <algorithm>

#include "folio/backend/cpu/linear_blocks.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_rows.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

// Rows of a weight (I,O) that are added at a time: as many streams of memory.
inline constexpr int64_t kSteps = 8;

// out (columns) += x[0] w[0, :] + ... + x[kSteps - 1] w[kSteps - 1, :], in this order. The rows
// that follow are asked for on the way if there are any.
template <bool fetch>
HWY_INLINE void AddSteps(const float* x, const float* w, int64_t ldw, int64_t columns, float* out) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto x0 = hn::Set(d, x[0]), x1 = hn::Set(d, x[1]), x2 = hn::Set(d, x[2]),
             x3 = hn::Set(d, x[3]), x4 = hn::Set(d, x[4]), x5 = hn::Set(d, x[5]),
             x6 = hn::Set(d, x[6]), x7 = hn::Set(d, x[7]);
  const float *w0 = w, *w1 = w0 + ldw, *w2 = w1 + ldw, *w3 = w2 + ldw, *w4 = w3 + ldw,
              *w5 = w4 + ldw, *w6 = w5 + ldw, *w7 = w6 + ldw;
  const int64_t ahead = kSteps * ldw;
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    auto sum = LoadU(d, out + c);
    sum = hn::MulAdd(x0, LoadU(d, w0 + c), sum);
    sum = hn::MulAdd(x1, LoadU(d, w1 + c), sum);
    sum = hn::MulAdd(x2, LoadU(d, w2 + c), sum);
    sum = hn::MulAdd(x3, LoadU(d, w3 + c), sum);
    sum = hn::MulAdd(x4, LoadU(d, w4 + c), sum);
    sum = hn::MulAdd(x5, LoadU(d, w5 + c), sum);
    sum = hn::MulAdd(x6, LoadU(d, w6 + c), sum);
    sum = hn::MulAdd(x7, LoadU(d, w7 + c), sum);
    StoreU(sum, d, out + c);
    if constexpr (fetch) {
      hwy::Prefetch(w0 + ahead + c);
      hwy::Prefetch(w1 + ahead + c);
      hwy::Prefetch(w2 + ahead + c);
      hwy::Prefetch(w3 + ahead + c);
      hwy::Prefetch(w4 + ahead + c);
      hwy::Prefetch(w5 + ahead + c);
      hwy::Prefetch(w6 + ahead + c);
      hwy::Prefetch(w7 + ahead + c);
    }
  }
  if (c == columns) return;
  const int64_t n = columns - c;
  auto sum = LoadPart(d, out + c, n);
  for (int64_t k = 0; k < kSteps; ++k) {
    sum = hn::MulAdd(hn::Set(d, x[k]), LoadPart(d, w + k * ldw + c, n), sum);
  }
  StorePart(sum, d, out + c, n);
}

// out = x w, columns [0, columns) of it; w is (I,O) with rows ldw apart.
void ColumnsOf(const float* x, int64_t N, int64_t I, const float* w, int64_t ldw, int64_t columns,
               float* out, int64_t ldo) {
  const Floats d;
  for (int64_t n = 0; n < N; ++n) std::fill_n(out + n * ldo, columns, 0.0f);
  int64_t i = 0;
  for (; i + 2 * kSteps <= I; i += kSteps) {
    const float* from = w + i * ldw;
    AddSteps<true>(x + i, from, ldw, columns, out);
    for (int64_t n = 1; n < N; ++n)
      AddSteps<false>(x + n * I + i, from, ldw, columns, out + n * ldo);
  }
  for (; i + kSteps <= I; i += kSteps) {
    for (int64_t n = 0; n < N; ++n) {
      AddSteps<false>(x + n * I + i, w + i * ldw, ldw, columns, out + n * ldo);
    }
  }
  for (; i < I; ++i) {
    for (int64_t n = 0; n < N; ++n) {
      const auto factor = hn::Set(d, x[n * I + i]);
      float* to = out + n * ldo;
      Map(
          d, columns, to, [=](auto a, auto b) HWY_ATTR { return hn::MulAdd(factor, a, b); },
          w + i * ldw, to);
    }
  }
}

// out[n * ldo + r] = x[n] . w[r] for `rows` rows of I numbers, which follow each other: one after
// the other, so that memory is read in its own order.
template <class T>
void RowsOf(const float* x, int64_t N, int64_t I, const T* w, int64_t rows, float* out,
            int64_t ldo) {
  const Floats d;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < N; ++n) out[n * ldo + r] = Dot(d, x + n * I, w + r * I, I);
  }
}

// Columns [begin, end) of the product.
void LinearSlice(const LinearForward& op, int64_t begin, int64_t end) {
  const float* x = op.x.data<float>();
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  float* out = op.out.data<float>() + begin;
  if (!op.transposed) {
    ColumnsOf(x, N, I, op.weight.data<float>() + begin, O, end - begin, out, O);
  } else if (op.weight.dtype() == Dtype::kBF16) {
    RowsOf(x, N, I, op.weight.data<BF16>() + begin * I, end - begin, out, O);
  } else {
    RowsOf(x, N, I, op.weight.data<float>() + begin * I, end - begin, out, O);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(LinearSlice);

bool HasFewRows(const LinearForward& op) {
  return op.x.dtype() == Dtype::kF32 && op.x.dim(0) <= LinearForward::kFewRows && !op.accumulate;
}

void RunLinearRows(const LinearForward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), O = op.out.dim(1);
  const bool blocks = IsBlocked(op.weight.dtype());
  const BlockedRows rows = blocks ? BlockedRows(op.x, op.weight.dtype(), scratch) : BlockedRows();
  // Each thread goes through one stretch of the weight.
  constexpr int64_t kColumns = 64;
  const int64_t slice = CeilDiv(CeilDiv(O, Threads()), kColumns) * kColumns;
  ParallelRange(O, slice, [&](int64_t begin, int64_t end, int) {
    if (blocks) {
      rows.Multiply(op.weight, begin, end, op.out);
    } else {
      HWY_DYNAMIC_DISPATCH(LinearSlice)(op, begin, end);
    }
    if (!op.bias && !op.act) return;
    float* out = op.out.data<float>() + begin;
    StoreBiased(ResultBlock<float>{.rows = N,
                                   .columns = end - begin,
                                   .sums = out,
                                   .sums_stride = O,
                                   .out = out,
                                   .stride = O},
                op.bias ? op.bias.data<float>() + begin : nullptr, op.activation,
                op.act ? op.act.data<float>() + begin : nullptr);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
