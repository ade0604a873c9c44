#include "folio/backend/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "folio/base/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddRowKernel(const float* row, float* x, int64_t rows, int64_t columns, int64_t stride) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r) {
    float* to = x + r * stride;
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + c), hn::LoadU(d, row + c)), d, to + c);
    }
    for (; c < columns; ++c) to[c] += row[c];
  }
}

// Columns [begin, end): a strip of vectors is carried down all rows in registers.
void ColumnSumsKernel(const float* x, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                      float* sums) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = begin;
  for (; c + 4 * lanes <= end; c += 4 * lanes) {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = x + r * columns + c;
      s0 = hn::Add(s0, hn::LoadU(d, from));
      s1 = hn::Add(s1, hn::LoadU(d, from + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, from + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, from + 3 * lanes));
    }
    hn::StoreU(hn::Add(hn::LoadU(d, sums + c), s0), d, sums + c);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + c + lanes), s1), d, sums + c + lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + c + 2 * lanes), s2), d, sums + c + 2 * lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + c + 3 * lanes), s3), d, sums + c + 3 * lanes);
  }
  for (; c < end; ++c) {
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += x[r * columns + c];
    sums[c] += sum;
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(AddRowKernel);
HWY_EXPORT(ColumnSumsKernel);

void AddRow(const float* row, float* x, int64_t rows, int64_t columns, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(AddRowKernel)(row, x, rows, columns, stride);
}

void AddColumnSums(const float* x, int64_t rows, int64_t columns, float* sums) {
  constexpr int64_t kStrip = 64;  // columns of a task: a multiple of any target's 4 vectors
  ParallelRange(columns, kStrip, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ColumnSumsKernel)(x, rows, columns, begin, end, sums);
  });
}

}  // namespace folio::cpu
#endif
