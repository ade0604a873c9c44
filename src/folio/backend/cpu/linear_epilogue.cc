#include "folio/backend/cpu/linear_epilogue.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_epilogue.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"
#include "folio/base/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Prefetches part of a row: processors do not predict short pieces of rows that are far apart.
template <class T>
HWY_INLINE void PrefetchRow(const T* x, int64_t columns, int64_t stride) {
  constexpr int64_t kAhead = 4, kLine = 64 / sizeof(T);
  for (int64_t c = 0; c < columns; c += kLine) hwy::Prefetch(x + kAhead * stride + c);
}

// The place of a block in x, which has the result's shape; null if x is absent.
template <class T>
HWY_INLINE T* At(const ResultBlock& block, const Tensor& x) {
  return x ? x.data<T>() + block.row * x.dim(1) + block.column : nullptr;
}

// Calls f(sums, at) for each row: `at` is its offset in a result of O columns.
template <class F>
HWY_INLINE void ForRows(const ResultBlock& block, int64_t O, const F& f) {
  for (int64_t r = 0; r < block.rows; ++r) f(block.sums + r * block.stride, r * O);
}

// out = sums + bias, which may be null.
template <class T>
HWY_INLINE void StoreRow(const float* sums, const float* bias, int64_t columns, T* out) {
  const hn::ScalableTag<float> d;
  if (bias == nullptr) {
    Map(
        d, columns, out, [](auto a) HWY_ATTR { return a; }, sums);
  } else {
    Map(
        d, columns, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, sums, bias);
  }
}

template <class T>
HWY_INLINE void StoreSumsOf(const ResultBlock& block, const Tensor& result, bool add) {
  const hn::ScalableTag<float> d;
  const int64_t O = result.dim(1);
  T* first = At<T>(block, result);
  ForRows(block, O, [&](const float* sums, int64_t at) HWY_ATTR {
    T* out = first + at;
    PrefetchRow(out, block.columns, O);
    if (add) {
      Map(
          d, block.columns, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); },
          static_cast<const T*>(out), sums);
    } else {
      StoreRow(sums, nullptr, block.columns, out);
    }
  });
}

// The activation is applied to the stored number: a rounded one if T is BF16.
template <class T>
HWY_INLINE void StoreForwardOf(const ResultBlock& block, const LinearForward& op) {
  const hn::ScalableTag<float> d;
  const int64_t O = op.out.dim(1);
  const float* bias = op.bias ? op.bias.data<float>() + block.column : nullptr;
  T *out = At<T>(block, op.out), *act = At<T>(block, op.act);
  const auto store = [&](const float* sums, int64_t at) HWY_ATTR {
    PrefetchRow(out + at, block.columns, O);
    if (act != nullptr) PrefetchRow(act + at, block.columns, O);
    StoreRow(sums, bias, block.columns, out + at);
  };
  if (act == nullptr) return ForRows(block, O, store);
  WithActivation<Activated>(op.activation, [&](auto activate) HWY_ATTR {
    ForRows(block, O, [&](const float* sums, int64_t at) HWY_ATTR {
      store(sums, at);
      Map(
          d, block.columns, act + at, [=](auto v) HWY_ATTR { return activate(d, v); },
          static_cast<const T*>(out + at));
    });
  });
}

template <class T>
HWY_INLINE void StoreGradientOf(const ResultBlock& block, const LinearBackward& op) {
  const hn::ScalableTag<float> d;
  const int64_t O = op.d_x.dim(1);
  const T* pre = At<T>(block, op.pre);
  T* d_x = At<T>(block, op.d_x);
  WithActivation<ActivationGradient>(op.activation, [&](auto gradient) HWY_ATTR {
    ForRows(block, O, [&](const float* sums, int64_t at) HWY_ATTR {
      PrefetchRow(pre + at, block.columns, O);
      PrefetchRow(d_x + at, block.columns, O);
      Map(
          d, block.columns, d_x + at, [=](auto x, auto g) HWY_ATTR { return gradient(d, x, g); },
          pre + at, sums);
    });
  });
}

struct AddVectors {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
  template <class V, class... More>
  HWY_INLINE V operator()(V a, V b, More... more) const {
    return (*this)(hn::Add(a, b), more...);
  }
};

// At most kMaxSumColumns columns, several rows at a time: short pieces of many rows would be
// limited by memory latency.
template <class T>
HWY_INLINE void ColumnSumsOf(const Tensor& x, int64_t begin, int64_t end, float* sums) {
  const hn::ScalableTag<float> d;
  const int64_t rows = x.dim(0), stride = x.dim(1), n = end - begin;
  HWY_ALIGN float totals[kMaxSumColumns] = {};
  const T* row = x.data<T>() + begin;
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8, row += 8 * stride) {
    Map(d, n, totals, AddVectors(), totals, row, row + stride, row + 2 * stride, row + 3 * stride,
        row + 4 * stride, row + 5 * stride, row + 6 * stride, row + 7 * stride);
  }
  for (; r < rows; ++r, row += stride) Map(d, n, totals, AddVectors(), totals, row);
  Map(d, n, sums + begin, AddVectors(), sums + begin, totals);
}

void StoreSumsKernel(const ResultBlock& block, const Tensor& out, bool add) {
  out.dtype() == Dtype::kBF16 ? StoreSumsOf<BF16>(block, out, add)
                              : StoreSumsOf<float>(block, out, add);
}
void StoreForwardKernel(const ResultBlock& block, const LinearForward& op) {
  op.out.dtype() == Dtype::kBF16 ? StoreForwardOf<BF16>(block, op)
                                 : StoreForwardOf<float>(block, op);
}
void StoreGradientKernel(const ResultBlock& block, const LinearBackward& op) {
  op.d_x.dtype() == Dtype::kBF16 ? StoreGradientOf<BF16>(block, op)
                                 : StoreGradientOf<float>(block, op);
}
void ColumnSumsKernel(const Tensor& x, int64_t begin, int64_t end, float* sums) {
  x.dtype() == Dtype::kBF16 ? ColumnSumsOf<BF16>(x, begin, end, sums)
                            : ColumnSumsOf<float>(x, begin, end, sums);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(StoreSumsKernel);
HWY_EXPORT(StoreForwardKernel);
HWY_EXPORT(StoreGradientKernel);
HWY_EXPORT(ColumnSumsKernel);

void StoreSums(const ResultBlock& block, const Tensor& out, bool add) {
  HWY_DYNAMIC_DISPATCH(StoreSumsKernel)(block, out, add);
}

void StoreForward(const ResultBlock& block, const LinearForward& op) {
  HWY_DYNAMIC_DISPATCH(StoreForwardKernel)(block, op);
}

void StoreGradient(const ResultBlock& block, const LinearBackward& op) {
  HWY_DYNAMIC_DISPATCH(StoreGradientKernel)(block, op);
}

void AddColumnSums(const Tensor& x, float* sums) {
  // Columns of a task: enough for long reads from each row, few enough to occupy the threads.
  const int64_t columns = x.dim(1);
  const auto grain = std::clamp<int64_t>((columns + 255) / 256 * 64, 128, kMaxSumColumns);
  ParallelRange(columns, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ColumnSumsKernel)(x, begin, end, sums);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
