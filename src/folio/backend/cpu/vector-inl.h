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

#include "folio/backend/cpu/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// FOLIO_MASKED_IS_SAFE says whether masked float loads and stores leave the masked-out memory
// alone.
#undef FOLIO_MASKED_IS_SAFE
#if HWY_TARGET == HWY_AVX2 || !HWY_MEM_OPS_MIGHT_FAULT
#define FOLIO_MASKED_IS_SAFE 1
#else
#define FOLIO_MASKED_IS_SAFE 0
#endif

// The first n elements at p, zeros in the other lanes; touches no memory beyond them.
// REQUIRES: n < Lanes(d).
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const float* p, int64_t n) {
#if FOLIO_MASKED_IS_SAFE
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return hn::Load(d, part);
#endif
}

// Writes the first n lanes to p and nothing beyond them. REQUIRES: n < Lanes(d).
template <class D>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, float* p, int64_t n) {
#if FOLIO_MASKED_IS_SAFE
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, part);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
#endif
}

// In what follows an array is of float or of BF16; f takes and gives vectors of float32.

// out[i] = f(in[i]...) for i in [0, n). `out` may be one of `in`.
template <class D, class Out, class F, class... In>
HWY_INLINE void Map(D d, int64_t n, Out* out, const F& f, const In*... in) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) StoreU(f(LoadU(d, in + i)...), d, out + i);
  if (i < n) StorePart(f(LoadPart(d, in + i, n - i)...), d, out + i, n - i);
}

// Four accumulators, each beginning as `start`, take acc = f(acc, in[i]...) over i in [0, n) in
// turns and are joined by `join`. Lanes beyond n are not accumulated.
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
  // Highway begins at the lowest finite number here, which is more than minus infinity.
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

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_VECTOR_INL_H_
