// Panels of the right operand of a small product: PanelWidth() columns, row after row.

#if defined(FOLIO_BACKEND_CPU_SMALL_PRODUCT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_SMALL_PRODUCT_PACK_INL_H_
#undef FOLIO_BACKEND_CPU_SMALL_PRODUCT_PACK_INL_H_
#else
#define FOLIO_BACKEND_CPU_SMALL_PRODUCT_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr int kPanelVectors = 2;

HWY_INLINE int64_t Lanes() {
  return static_cast<int64_t>(hn::Lanes(Floats()));
}
HWY_INLINE int64_t PanelWidth() {
  return kPanelVectors * Lanes();
}

// Whether vectors consist of whole blocks of 128 bits, of a number known to the compiler.
#undef FOLIO_HAS_FIXED_BLOCKS
#define FOLIO_HAS_FIXED_BLOCKS (HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE)
#if FOLIO_HAS_FIXED_BLOCKS

// Four elements of every fourth row from x on, one row's after the other's.
template <class D>
HWY_INLINE hn::Vec<D> LoadFours(D d, const float* x, int64_t stride) {
  constexpr size_t lanes = hn::MaxLanes(D());
  if constexpr (lanes <= 4) {
    return hn::LoadU(d, x);
  } else {
    const hn::CappedTag<float, lanes / 2> half;
    return hn::Combine(d, LoadFours(half, x + static_cast<int64_t>(lanes / 2) * stride, stride),
                       LoadFours(half, x, stride));
  }
}

// to[k * PanelWidth() + n] = x[n * stride + k] for n < Lanes() and k < 4.
HWY_INLINE void TransposeFours(const float* x, int64_t stride, float* to) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  const auto r0 = LoadFours(d, x, stride), r1 = LoadFours(d, x + stride, stride);
  const auto r2 = LoadFours(d, x + 2 * stride, stride), r3 = LoadFours(d, x + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  const int64_t width = PanelWidth();
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
}

#endif  // FOLIO_HAS_FIXED_BLOCKS

HWY_INLINE void PackTransposed(const float* b, int64_t ldb, int64_t depth, int64_t columns,
                               float* to) {
  const int64_t width = PanelWidth();
  int64_t n = 0;
#if FOLIO_HAS_FIXED_BLOCKS
  const int64_t whole = depth & ~int64_t{3};
  for (; n + Lanes() <= columns; n += Lanes()) {
    for (int64_t k = 0; k < whole; k += 4) {
      TransposeFours(b + n * ldb + k, ldb, to + k * width + n);
    }
    for (int64_t k = whole; k < depth; ++k) {
      for (int64_t i = n; i < n + Lanes(); ++i) to[k * width + i] = b[i * ldb + k];
    }
  }
#endif
  for (; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) to[k * width + n] = b[n * ldb + k];
  }
}

// Packs (depth, columns) elements of B, or of its transpose. Missing columns are zeros.
HWY_INLINE void PackPanel(const float* b, int64_t ldb, bool transposed, int64_t depth,
                          int64_t columns, float* to) {
  const int64_t width = PanelWidth();
  if (columns < width) std::fill_n(to, depth * width, 0.0f);
  if (transposed) {
    PackTransposed(b, ldb, depth, columns, to);
    return;
  }
  const Floats d;
  for (int64_t k = 0; k < depth; ++k) {
    Map(
        d, columns, to + k * width, [](auto v) HWY_ATTR { return v; }, b + k * ldb);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_SMALL_PRODUCT_PACK_INL_H_
