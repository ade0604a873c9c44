#include "folio/backend/cpu/rows.h"

#ifndef FOLIO_BACKEND_CPU_ROWS_
#define FOLIO_BACKEND_CPU_ROWS_
namespace folio::cpu {

constexpr int64_t kMaxSumColumns = 768;  // of a task

}  // namespace folio::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "folio/backend/cpu/vector-inl.h"
#include "folio/base/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

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

// n <= kMaxSumColumns columns, several rows at a time: short pieces of many rows would keep the
// memory waiting otherwise.
template <class T>
void ColumnSums(const T* x, int64_t rows, int64_t stride, int64_t n, float* sums) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float totals[kMaxSumColumns] = {};
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    const T* row = x + r * stride;
    Map(d, n, totals, AddVectors(), totals, row, row + stride, row + 2 * stride, row + 3 * stride,
        row + 4 * stride, row + 5 * stride, row + 6 * stride, row + 7 * stride);
  }
  for (; r < rows; ++r) Map(d, n, totals, AddVectors(), totals, x + r * stride);
  Map(d, n, sums, AddVectors(), sums, totals);
}

void ColumnSumsOfFloat(const float* x, int64_t rows, int64_t stride, int64_t n, float* sums) {
  ColumnSums(x, rows, stride, n, sums);
}

void ColumnSumsOfBF16(const BF16* x, int64_t rows, int64_t stride, int64_t n, float* sums) {
  ColumnSums(x, rows, stride, n, sums);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ColumnSumsOfFloat);
HWY_EXPORT(ColumnSumsOfBF16);

namespace {

// Columns of a task: enough for long reads from each row, few enough to give threads work.
int64_t SumColumns(int64_t columns) {
  return std::clamp<int64_t>((columns + 255) / 256 * 64, 128, kMaxSumColumns);
}

}  // namespace

void AddColumnSums(const float* x, int64_t rows, int64_t columns, float* sums) {
  ParallelRange(columns, SumColumns(columns), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ColumnSumsOfFloat)(x + begin, rows, columns, end - begin, sums + begin);
  });
}

void AddColumnSums(const BF16* x, int64_t rows, int64_t columns, float* sums) {
  ParallelRange(columns, SumColumns(columns), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ColumnSumsOfBF16)(x + begin, rows, columns, end - begin, sums + begin);
  });
}

}  // namespace folio::cpu
#endif
