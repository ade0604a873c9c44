#include "folio/backend/cpu/attention_moves.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/attention_moves.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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
  int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  const hn::Full128<float> d;
  const hn::Full128<double> d2;
  const auto pair = [&](auto v) HWY_ATTR { return hn::BitCast(d2, v); };
  const auto block = [&](int64_t r, int64_t c) HWY_ATTR {
    const float* from = x + r * stride + c;
    const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + stride);
    const auto r2 = hn::LoadU(d, from + 2 * stride), r3 = hn::LoadU(d, from + 3 * stride);
    const auto a = pair(hn::InterleaveLower(d, r0, r1)), b = pair(hn::InterleaveLower(d, r2, r3));
    const auto e = pair(hn::InterleaveUpper(d, r0, r1)), f = pair(hn::InterleaveUpper(d, r2, r3));
    float* at = to + c * to_stride + r;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a, b)), d, at);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a, b)), d, at + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, e, f)), d, at + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, e, f)), d, at + 3 * to_stride);
  };
  // Along the rows that are further apart, of which fewer may share the cache.
  if (stride > to_stride) {
    for (int64_t r = 0; r < whole_rows; r += 4) {
      for (int64_t c = 0; c < whole_columns; c += 4) block(r, c);
    }
  } else {
    for (int64_t c = 0; c < whole_columns; c += 4) {
      for (int64_t r = 0; r < whole_rows; r += 4) block(r, c);
    }
  }
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[c * to_stride + r] = x[r * stride + c];
    }
  }
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
void DotHalves(const BF16* x, int64_t x_stride, const BF16* y, int64_t y_stride, int64_t rows,
               int64_t columns, float* dots) {
  Dots(x, x_stride, y, y_stride, rows, columns, dots);
}

// pairs[i] = (a[i], b[i]) for i in [0, n), zeros up to 16; a or b may be null, which stands for
// zeros.
HWY_INLINE void Interleave(const BF16* a, const BF16* b, int64_t n, uint32_t* pairs) {
  const hn::CappedTag<uint32_t, 16> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto load = [&](const BF16* x, size_t i) HWY_ATTR {
    if (x == nullptr) return hn::Zero(d);
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(x) + i));
  };
  if (n >= 16) {
    for (size_t i = 0; i < 16; i += hn::Lanes(d)) {
      hn::StoreU(hn::Or(load(a, i), hn::ShiftLeft<16>(load(b, i))), d, pairs + i);
    }
    return;
  }
  const auto bits = [](const BF16* x, int64_t i) { return x == nullptr ? 0u : x[i].bits; };
  for (int64_t i = 0; i < 16; ++i) pairs[i] = i < n ? bits(a, i) | bits(b, i) << 16 : 0;
}

void PackFoldedKernel(const BF16* x, int64_t stride, int64_t rows, int64_t columns, BF16* packed) {
  uint32_t* pairs = reinterpret_cast<uint32_t*>(packed);
  const auto row = [&](int64_t r, int64_t c) { return r < rows ? x + r * stride + c : nullptr; };
  for (int64_t c = 0; c < columns; c += 16) {
    for (int64_t first = 0; first < rows; first += 32) {
      for (int64_t r = first; r < first + 16; ++r, pairs += 16) {
        Interleave(row(r, c), row(r + 16, c), columns - c, pairs);
      }
    }
  }
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
HWY_EXPORT(DotHalves);
HWY_EXPORT(PackFoldedKernel);

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
  HWY_DYNAMIC_DISPATCH(DotHalves)(x, x_stride, y, y_stride, rows, columns, dots);
}

void PackFolded(const BF16* x, int64_t stride, int64_t rows, int64_t columns, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackFoldedKernel)(x, stride, rows, columns, packed);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
