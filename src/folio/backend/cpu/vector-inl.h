// Loads and stores of parts of a vector, and loops over arrays built on them.

#if defined(FOLIO_BACKEND_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_VECTOR_INL_H_
#undef FOLIO_BACKEND_CPU_VECTOR_INL_H_
#else
#define FOLIO_BACKEND_CPU_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "folio/tensor/dtype.h"
#include "folio/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// bfloat16 arrays are vectors of float32 here: loads widen, stores round like ToBF16. binary16
// arrays are only loaded.

static_assert(sizeof(BF16) == sizeof(uint16_t) && sizeof(F16) == sizeof(uint16_t));

// As many 16-bit numbers as D has floats.
template <class D>
using Bf16Tag = hn::Rebind<uint16_t, D>;

template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, hn::Vec<Bf16Tag<D>> bits) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

// Rounded bits of v; the upper half of each lane is the bfloat16 number. In integer arithmetic:
// Highway's DemoteTo truncates, and the instructions for it treat subnormals as zero.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundedBits(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, nearest);
}

template <class D>
HWY_INLINE hn::Vec<Bf16Tag<D>> Round(D d, hn::Vec<D> v) {
  return hn::TruncateTo(Bf16Tag<D>(), hn::ShiftRight<16>(RoundedBits(d, v)));
}

template <class D>
HWY_INLINE hn::Vec<D> WidenF16(D d, hn::Vec<Bf16Tag<D>> bits) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
#else
  // Replaces an instruction for it: exponent and mantissa, shifted, are those of 2^-112 times the
  // number; infinities and NaN get their float32 exponent.
  const hn::RebindToUnsigned<D> du;
  const auto wide = hn::PromoteTo(du, bits);
  const auto size = hn::And(wide, hn::Set(du, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(wide, size));
  const auto moved = hn::BitCast(d, hn::ShiftLeft<13>(size));
  const auto number = hn::BitCast(du, hn::Mul(moved, hn::Set(d, 0x1p112f)));
  const auto endless = hn::Or(number, hn::Set(du, 0x7F800000));
  const auto any = hn::IfThenElse(hn::Gt(size, hn::Set(du, 0x7BFF)), endless, number);
  return hn::BitCast(d, hn::Or(any, sign));
#endif
}

// Called without hn::, these and Highway's functions of the same names take all three types.
template <class D>
HWY_INLINE hn::Vec<D> LoadU(D d, const BF16* p) {
  return Widen(d, hn::LoadU(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadU(D d, const F16* p) {
  return WidenF16(d, hn::LoadU(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p)));
}

template <class D>
HWY_INLINE void StoreU(hn::Vec<D> v, D d, BF16* p) {
  hn::StoreU(Round(d, v), Bf16Tag<D>(), reinterpret_cast<uint16_t*>(p));
}

// True if masked loads and stores do not touch masked-out memory.
template <class T>
constexpr bool MaskedIsSafe() {
  return !HWY_MEM_OPS_MIGHT_FAULT || (HWY_TARGET == HWY_AVX2 && sizeof(T) == 4);
}

// The first n elements at p, zeros in the other lanes; touches no memory beyond them. REQUIRES: n <
// Lanes(d).
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadPart(D d, const hn::TFromD<D>* p, int64_t n) {
  if constexpr (MaskedIsSafe<T>()) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)] = {};
    for (int64_t i = 0; i < n; ++i) part[i] = p[i];
    return hn::Load(d, part);
  }
}
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const BF16* p, int64_t n) {
  return Widen(d, LoadPart(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p), n));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const F16* p, int64_t n) {
  return WidenF16(d, LoadPart(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p), n));
}

// Writes the first n lanes to p and nothing beyond them. REQUIRES: n < Lanes(d).
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, hn::TFromD<D>* p, int64_t n) {
  if constexpr (MaskedIsSafe<T>()) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, part);
    for (int64_t i = 0; i < n; ++i) p[i] = part[i];
  }
}
template <class D>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, BF16* p, int64_t n) {
  StorePart(Round(d, v), Bf16Tag<D>(), reinterpret_cast<uint16_t*>(p), n);
}

// Calls f(BF16()) or f(float()), as the dtype says.
template <class F>
void WithNumber(Dtype dtype, const F& f) {
  dtype == Dtype::kBF16 ? f(BF16()) : f(float());
}

// Below, an array is of float or of BF16; f takes and returns vectors of float32.

// out[i] = f(in[i]...) for i in [0, n). `out` may be one of `in`.
template <class D, class Out, class F, class... In>
HWY_INLINE void Map(D d, int64_t n, Out* out, const F& f, const In*... in) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) StoreU(f(LoadU(d, in + i)...), d, out + i);
  if (i < n) StorePart(f(LoadPart(d, in + i, n - i)...), d, out + i, n - i);
}

// Four accumulators, each starting as `start`, take turns in acc = f(acc, in[i]...) over i in [0,
// n) and are joined by `join`. Lanes beyond n are not accumulated.
template <class D, class F, class J, class... In>
HWY_INLINE hn::Vec<D> Fold(D d, int64_t n, hn::Vec<D> start, const F& f, const J& join,
                           const In*... in) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = start, b = start, c = start, e = start;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = f(a, LoadU(d, in + i)...);
    b = f(b, LoadU(d, in + i + lanes)...);
    c = f(c, LoadU(d, in + i + 2 * lanes)...);
    e = f(e, LoadU(d, in + i + 3 * lanes)...);
  }
  for (; i + lanes <= n; i += lanes) a = f(a, LoadU(d, in + i)...);
  if (i < n) {
    const auto part = f(b, LoadPart(d, in + i, n - i)...);
    b = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - i)), part, b);
  }
  return join(join(a, b), join(c, e));
}

template <class D>
HWY_INLINE float SumLanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// The largest lane.
template <class D>
HWY_INLINE float MaxLane(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_EMU128
  // Highway starts with the lowest finite number here, which is more than minus infinity.
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(d));
#else
  return hn::GetLane(hn::MaxOfLanes(d, v));
#endif
}

template <class D, class T>
HWY_INLINE float Sum(D d, const T* x, int64_t n) {
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return SumLanes(d, Fold(d, n, hn::Zero(d), add, add, x));
}

template <class D, class T, class U>
HWY_INLINE float Dot(D d, const T* x, const U* y, int64_t n) {
  return SumLanes(d, Fold(
                         d, n, hn::Zero(d),
                         [](auto acc, auto a, auto b) HWY_ATTR { return hn::MulAdd(a, b, acc); },
                         [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x, y));
}

// ---- Transposed copies of matrices of 32-bit numbers, by blocks of whole vectors
// -----------------

// FOLIO_HAS_FIXED_BLOCKS is 1 if vectors are a compile-time number of whole 128-bit blocks.
#undef FOLIO_HAS_FIXED_BLOCKS
#define FOLIO_HAS_FIXED_BLOCKS (HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE)
#if FOLIO_HAS_FIXED_BLOCKS

// Four numbers of every fourth row from x on, row after row.
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
  // Blocks proceed along the rows with the larger stride, of which fewer may share the cache.
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

#endif  // FOLIO_BACKEND_CPU_VECTOR_INL_H_
