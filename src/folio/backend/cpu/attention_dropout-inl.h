// Dropout of attention's weights where queries lie side by side: the numbers of philox-inl.h in
// another order.

#if defined(FOLIO_BACKEND_CPU_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_ATTENTION_DROPOUT_INL_H_
#undef FOLIO_BACKEND_CPU_ATTENTION_DROPOUT_INL_H_
#else
#define FOLIO_BACKEND_CPU_ATTENTION_DROPOUT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "folio/backend/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// factors[s * lanes + t] is the factor of column `column` + s, s in [0, 64), and row `row` + t, t
// being a lane of a vector of up to 16 floats. REQUIRES: column is a multiple of 64.
#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void DropoutFactorsDown(const Dropout& dropout, int64_t row, int64_t width,
                                   int64_t column, float* factors) {
  DropoutFactors(dropout, row, width, column, factors);
}

#else

HWY_INLINE void DropoutFactorsDown(const Dropout& dropout, int64_t row, int64_t width,
                                   int64_t column, float* factors) {
  const hn::CappedTag<float, 16> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Repartition<uint64_t, decltype(du)> d64;
  const size_t lanes = hn::Lanes(df);
  // 64 numbers are 16 blocks, word by word; a row begins with a new block.
  const uint64_t step = static_cast<uint64_t>(Dropout::RowStride(width)) / 4;
  const uint64_t first =
      static_cast<uint64_t>(dropout.first_row + row) * step + static_cast<uint64_t>(column) / 4;
  HWY_ALIGN uint64_t even_rows[16] = {};
  for (size_t i = 0; i < hn::Lanes(d64); ++i) even_rows[i] = first + 2 * i * step;
  auto even = hn::Load(d64, even_rows);
  auto odd = hn::Add(even, hn::Set(d64, step));
  const auto s0 = hn::Set(d64, dropout.stream & 0xFFFFFFFFu);
  const auto s1 = hn::Set(d64, dropout.stream >> 32);
  const auto threshold = hn::Set(du, dropout.threshold());
  const auto scale = hn::Set(df, static_cast<float>(dropout.scale()));
  const auto store = [&](auto o, auto e, float* to) HWY_ATTR {
    const auto upper = hn::BitCast(du, hn::ShiftLeft<32>(o));
    const auto bits = hn::OddEven(upper, hn::BitCast(du, e));
    const auto drop = hn::RebindMask(df, hn::Lt(bits, threshold));
    hn::StoreU(hn::IfThenZeroElse(drop, scale), df, to);
  };
  for (size_t i = 0; i < 16; ++i) {
    auto e0 = even, e1 = hn::ShiftRight<32>(even), e2 = s0, e3 = s1;
    auto o0 = odd, o1 = hn::ShiftRight<32>(odd), o2 = s0, o3 = s1;
    PhiloxRounds(d64, dropout.seed, e0, e1, e2, e3);
    PhiloxRounds(d64, dropout.seed, o0, o1, o2, o3);
    store(o0, e0, factors + i * lanes);
    store(o1, e1, factors + (16 + i) * lanes);
    store(o2, e2, factors + (32 + i) * lanes);
    store(o3, e3, factors + (48 + i) * lanes);
    even = hn::Add(even, hn::Set(d64, uint64_t{1}));
    odd = hn::Add(odd, hn::Set(d64, uint64_t{1}));
  }
}

#endif  // HWY_SCALAR

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_ATTENTION_DROPOUT_INL_H_
