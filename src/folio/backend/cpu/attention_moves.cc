#include "folio/backend/cpu/attention_moves.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/attention_moves.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/transpose-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

void ScaleKernel(const float* factors, int64_t rows, int64_t columns, float* x) {
  const hn::CappedTag<float, 16> d;
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + c), hn::LoadU(d, factors + c)), d, x + c);
    }
  }
}

void TransposeKernel(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                     int64_t to_stride) {
  CopyTransposed(x, stride, rows, columns, to, to_stride);
}

template <class T>
HWY_INLINE void Copy(const float* x, int64_t stride, int64_t rows, int64_t columns, T* to,
                     int64_t to_stride) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r) {
    Map(
        d, columns, to + r * to_stride, [](auto v) HWY_ATTR { return v; }, x + r * stride);
  }
}
void CopyFloats(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                int64_t to_stride) {
  Copy(x, stride, rows, columns, to, to_stride);
}
void CopyRounded(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
                 int64_t to_stride) {
  Copy(x, stride, rows, columns, to, to_stride);
}

template <class T>
HWY_INLINE void Dots(const T* x, int64_t x_stride, const T* y, int64_t y_stride, int64_t rows,
                     int64_t columns, float* dots) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r) dots[r] = Dot(d, x + r * x_stride, y + r * y_stride, columns);
}
void DotFloats(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows,
               int64_t columns, float* dots) {
  Dots(x, x_stride, y, y_stride, rows, columns, dots);
}
void DotBf16(const BF16* x, int64_t x_stride, const BF16* y, int64_t y_stride, int64_t rows,
             int64_t columns, float* dots) {
  Dots(x, x_stride, y, y_stride, rows, columns, dots);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ScaleKernel);
HWY_EXPORT(TransposeKernel);
HWY_EXPORT(CopyFloats);
HWY_EXPORT(CopyRounded);
HWY_EXPORT(DotFloats);
HWY_EXPORT(DotBf16);

void ScaleColumns(const float* factors, int64_t rows, int64_t columns, float* x) {
  HWY_DYNAMIC_DISPATCH(ScaleKernel)(factors, rows, columns, x);
}

void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeKernel)(x, stride, rows, columns, to, to_stride);
}
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
               int64_t to_stride, float* scratch) {
  Transpose(x, stride, rows, columns, scratch, rows);
  CopyRows(scratch, rows, columns, rows, to, to_stride);
}

void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyFloats)(x, stride, rows, columns, to, to_stride);
}
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyRounded)(x, stride, rows, columns, to, to_stride);
}

void DotRows(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows,
             int64_t columns, float* dots) {
  HWY_DYNAMIC_DISPATCH(DotFloats)(x, x_stride, y, y_stride, rows, columns, dots);
}
void DotRows(const BF16* x, int64_t x_stride, const BF16* y, int64_t y_stride, int64_t rows,
             int64_t columns, float* dots) {
  HWY_DYNAMIC_DISPATCH(DotBf16)(x, x_stride, y, y_stride, rows, columns, dots);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
