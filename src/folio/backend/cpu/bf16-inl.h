// bfloat16 arrays as vectors of float32: loads widen, stores round as ToBF16 does.

#if defined(FOLIO_BACKEND_CPU_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_BF16_INL_H_
#undef FOLIO_BACKEND_CPU_BF16_INL_H_
#else
#define FOLIO_BACKEND_CPU_BF16_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "folio/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(sizeof(BF16) == sizeof(uint16_t));

// Bf16Tag<D> has as many 16-bit numbers as D has floats.
template <class D>
using Bf16Tag = hn::Rebind<uint16_t, D>;

template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, hn::Vec<Bf16Tag<D>> bits) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

// Rounded bits of v, of which the upper half of each lane is the bfloat16 number. In integers:
// Highway's DemoteTo truncates, and the instructions for it take subnormals for zero.
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

// Called without hn::, these two and Highway's of the same names take BF16 and float alike.
template <class D>
HWY_INLINE hn::Vec<D> LoadU(D d, const BF16* p) {
  return Widen(d, hn::LoadU(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p)));
}

template <class D>
HWY_INLINE void StoreU(hn::Vec<D> v, D d, BF16* p) {
  hn::StoreU(Round(d, v), Bf16Tag<D>(), reinterpret_cast<uint16_t*>(p));
}

// The first n numbers at p, zeros in the other lanes; touches no memory beyond them.
// REQUIRES: n < Lanes(d).
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const uint16_t* p, int64_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN uint16_t part[HWY_MAX_BYTES / sizeof(uint16_t)] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return hn::Load(d, part);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#endif
}
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const BF16* p, int64_t n) {
  return Widen(d, LoadPart(Bf16Tag<D>(), reinterpret_cast<const uint16_t*>(p), n));
}

// Writes the first n lanes to p and nothing beyond them. REQUIRES: n < Lanes(d).
template <class D>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, BF16* p, int64_t n) {
  const Bf16Tag<D> dh;
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN uint16_t part[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(Round(d, v), dh, part);
  for (int64_t i = 0; i < n; ++i) p[i].bits = part[i];
#else
  const auto mask = hn::FirstN(dh, static_cast<size_t>(n));
  hn::BlendedStore(Round(d, v), mask, dh, reinterpret_cast<uint16_t*>(p));
#endif
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_BF16_INL_H_
