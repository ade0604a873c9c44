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

#include "folio/backend/cpu/transpose-inl.h"
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

// Packs (depth, columns) elements of B, or of its transpose. Missing columns are zeros.
HWY_INLINE void PackPanel(const float* b, int64_t ldb, bool transposed, int64_t depth,
                          int64_t columns, float* to) {
  const int64_t width = PanelWidth();
  if (columns < width) std::fill_n(to, depth * width, 0.0f);
  if (transposed) {
    CopyTransposed(b, ldb, columns, depth, to, width);
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
