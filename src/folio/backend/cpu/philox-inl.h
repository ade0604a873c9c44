// The random numbers of base/rng.h, 64 at a time, and the dropout made from them.

#if defined(FOLIO_BACKEND_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_PHILOX_INL_H_
#undef FOLIO_BACKEND_CPU_PHILOX_INL_H_
#else
#define FOLIO_BACKEND_CPU_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/base/rng.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// out[i] = CounterRng(seed, stream).Bits(group * 64 + i) for i in [0, 64).
HWY_INLINE void Philox64(uint64_t seed, uint64_t stream, uint64_t group, uint32_t* out) {
  const CounterRng rng(seed, stream);
  for (uint64_t i = 0; i < 64; ++i) out[i] = rng.Bits(group * 64 + i);
}

#else

// One Philox4x32-10 block in each 64-bit lane. Only the low halves of the lanes matter: a 32-bit
// multiplication ignores the high ones, so they may hold anything and nothing is masked.
template <class D64, class V = hn::Vec<D64> >
HWY_INLINE void PhiloxRounds(D64 d64, uint64_t seed, V& c0, V& c1, V& c2, V& c3) {
  const hn::Repartition<uint32_t, D64> d32;
  const auto m0 = hn::Set(d32, 0xD2511F53u);
  const auto m1 = hn::Set(d32, 0xCD9E8D57u);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto a = hn::MulEven(hn::BitCast(d32, c0), m0);
    const auto b = hn::MulEven(hn::BitCast(d32, c2), m1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d64, k0));
    c1 = b;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d64, k1));
    c3 = a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// out[i] = CounterRng(seed, stream).Bits(group * 64 + i) for i in [0, 64).
HWY_INLINE void Philox64(uint64_t seed, uint64_t stream, uint64_t group, uint32_t* out) {
  const hn::CappedTag<uint32_t, 16> d32;
  const hn::Repartition<uint64_t, decltype(d32)> d64;
  const uint64_t first =
      group * 16;  // the low four bits are 0: adding a lane's number never carries
  const auto high = hn::Set(d64, first >> 32);
  const auto s0 = hn::Set(d64, stream & 0xFFFFFFFFu);
  const auto s1 = hn::Set(d64, stream >> 32);
  const auto store = [&](auto odd, auto even, uint32_t* to) HWY_ATTR {
    const auto upper = hn::BitCast(d32, hn::ShiftLeft<32>(odd));
    hn::StoreU(hn::OddEven(upper, hn::BitCast(d32, even)), d32, to);
  };
  for (size_t i = 0; i < 16; i += hn::Lanes(d32)) {
    const uint64_t low = (first & 0xFFFFFFFFu) + i;
    auto e0 = hn::Add(hn::Set(d64, low), hn::ShiftLeft<1>(hn::Iota(d64, 0)));
    auto o0 = hn::Add(e0, hn::Set(d64, 1));
    auto e1 = high, o1 = high, e2 = s0, o2 = s0, e3 = s1, o3 = s1;
    PhiloxRounds(d64, seed, e0, e1, e2, e3);
    PhiloxRounds(d64, seed, o0, o1, o2, o3);
    store(o0, e0, out + i);
    store(o1, e1, out + 16 + i);
    store(o2, e2, out + 32 + i);
    store(o3, e3, out + 48 + i);
  }
}

#endif  // HWY_SCALAR

// The factors, 0 or dropout.scale(), of columns [column, column + 64) of row `row` of an array of
// `width` columns. REQUIRES: column is a multiple of 64.
HWY_INLINE void DropoutFactors(const Dropout& dropout, int64_t row, int64_t width, int64_t column,
                               float* factors) {
  HWY_ALIGN uint32_t bits[128];
  const uint64_t index = static_cast<uint64_t>(dropout.Index(row, column, width));
  const size_t first = index % 64;  // only in a part of a wider array not 0
  Philox64(dropout.seed, dropout.stream, index / 64, bits);
  if (first > 0) Philox64(dropout.seed, dropout.stream, index / 64 + 1, bits + 64);
  const hn::CappedTag<uint32_t, 16> du;
  const hn::Rebind<float, decltype(du)> df;
  const auto threshold = hn::Set(du, dropout.threshold());
  const auto scale = hn::Set(df, static_cast<float>(dropout.scale()));
  for (size_t i = 0; i < 64; i += hn::Lanes(du)) {
    const auto drop = hn::RebindMask(df, hn::Lt(hn::LoadU(du, bits + first + i), threshold));
    hn::StoreU(hn::IfThenZeroElse(drop, scale), df, factors + i);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_PHILOX_INL_H_
