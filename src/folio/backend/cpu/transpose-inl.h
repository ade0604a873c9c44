// Transposed copies of matrices of 32-bit numbers, by blocks of whole vectors.

#if defined(FOLIO_BACKEND_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_TRANSPOSE_INL_H_
#undef FOLIO_BACKEND_CPU_TRANSPOSE_INL_H_
#else
#define FOLIO_BACKEND_CPU_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// FOLIO_HAS_FIXED_BLOCKS says whether vectors consist of whole blocks of 128 bits, of a number
// known to the compiler.
#undef FOLIO_HAS_FIXED_BLOCKS
#define FOLIO_HAS_FIXED_BLOCKS (HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE)
#if FOLIO_HAS_FIXED_BLOCKS

// Four numbers of every fourth row from x on, one row's after the other's.
template <class D>
HWY_INLINE hn::Vec<D> LoadFours(D d, const hn::TFromD<D>* x, int64_t stride) {
  constexpr size_t lanes = hn::MaxLanes(D());
  if constexpr (lanes <= 4) {
    return hn::LoadU(d, x);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadFours(half, x + static_cast<int64_t>(lanes / 2) * stride, stride),
                       LoadFours(half, x, stride));
  }
}

// to[c * to_stride + r] = x[r * stride + c] for r < Lanes(d) and c < 4.
template <class D>
HWY_INLINE void TransposeFours(D d, const hn::TFromD<D>* x, int64_t stride, hn::TFromD<D>* to,
                               int64_t to_stride) {
  const hn::Repartition<uint64_t, D> pairs;
  const auto r0 = LoadFours(d, x, stride), r1 = LoadFours(d, x + stride, stride);
  const auto r2 = LoadFours(d, x + 2 * stride, stride), r3 = LoadFours(d, x + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
}

// REQUIRES: rows is a multiple of Lanes(d), columns of 4.
template <class D>
HWY_INLINE void TransposeBlocks(D d, const hn::TFromD<D>* x, int64_t stride, int64_t rows,
                                int64_t columns, hn::TFromD<D>* to, int64_t to_stride) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const auto block = [&](int64_t r, int64_t c) HWY_ATTR {
    TransposeFours(d, x + r * stride + c, stride, to + c * to_stride + r, to_stride);
  };
  // Blocks follow the rows that are further apart, of which fewer may share the cache.
  if (stride > to_stride) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      for (int64_t c = 0; c < columns; c += 4) block(r, c);
    }
  } else {
    for (int64_t c = 0; c < columns; c += 4) {
      for (int64_t r = 0; r < rows; r += kLanes) block(r, c);
    }
  }
}

#endif  // FOLIO_HAS_FIXED_BLOCKS

// to[c * to_stride + r] = x[r * stride + c] for r < rows and c < columns.
template <class T>
HWY_INLINE void CopyTransposed(const T* x, int64_t stride, int64_t rows, int64_t columns, T* to,
                               int64_t to_stride) {
  int64_t whole_rows = 0, whole_columns = 0;
#if FOLIO_HAS_FIXED_BLOCKS
  const hn::CappedTag<T, 16> d;
  const hn::Full128<T> d4;
  constexpr int64_t kLanes = hn::MaxLanes(hn::CappedTag<T, 16>());
  const int64_t long_rows = rows / kLanes * kLanes;
  whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  TransposeBlocks(d, x, stride, long_rows, whole_columns, to, to_stride);
  TransposeBlocks(d4, x + long_rows * stride, stride, whole_rows - long_rows, whole_columns,
                  to + long_rows, to_stride);
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[c * to_stride + r] = x[r * stride + c];
    }
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_TRANSPOSE_INL_H_
