#include "folio/backend/cpu/stored_numbers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "folio/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/stored_numbers.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

constexpr size_t kBlockNumbers = 32;

// Writes the integers of a block, and returns the power of two that they are multiples of. Returns
// NaN, and writes zeros, if a number is not finite.
float RoundBlock(const float* x, int8_t* high, int8_t* low) {
  constexpr size_t kCount = kBlockNumbers;
  const hn::CappedTag<float, kCount> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  auto bits = hn::Zero(di);
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    bits = hn::Max(bits, hn::BitCast(di, hn::Abs(LoadU(d, x + i))));
  }
  // Stored exponents: of the largest number, and of the power of two.
  const int largest = hn::GetLane(hn::MaxOfLanes(di, bits)) >> 23,
            power = std::max(largest - 12, 1);
  if (largest == 255) {
    std::memset(high, 0, kCount);
    std::memset(low, 0, kCount);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const auto factor = hn::BitCast(d, hn::Set(di, (254 - power) << 23));
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    const auto nearest = hn::NearestInt(hn::Mul(LoadU(d, x + i), factor));
    const auto upper = hn::ShiftRight<7>(hn::Add(nearest, hn::Set(di, 64)));
    hn::StoreU(hn::DemoteTo(d8, upper), d8, high + i);
    hn::StoreU(hn::DemoteTo(d8, hn::Sub(nearest, hn::ShiftLeft<7>(upper))), d8, low + i);
  }
  return std::bit_cast<float>(power << 23);
}

void RoundBlocks(const float* x, int64_t blocks, int8_t* high, int8_t* low, float* scales) {
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = b * static_cast<int64_t>(kBlockNumbers);
    scales[b] = RoundBlock(x + at, high + at, low + at);
  }
}

// The integers of blocks, times their scales; blocks are `stride` bytes apart.
void ScaleBytes(const int8_t* numbers, int64_t stride, const float* scales, int64_t blocks,
                float* out) {
  const hn::CappedTag<float, kBlockNumbers> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  for (int64_t b = 0; b < blocks; ++b, numbers += stride, out += kBlockNumbers) {
    const auto scale = hn::Set(d, scales[b]);
    for (size_t i = 0; i < kBlockNumbers; i += hn::Lanes(d)) {
      const auto whole = hn::PromoteTo(di, hn::LoadU(d8, numbers + i));
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(d, whole)), d, out + i);
    }
  }
}

// The same for integers of four bits: the lower halves of 16 bytes, then the upper ones.
void ScaleNibbles(const uint8_t* pairs, int64_t stride, const float* scales, int64_t blocks,
                  float* out) {
  constexpr size_t kHalf = kBlockNumbers / 2;
  const hn::CappedTag<float, kHalf> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto eight = hn::Set(di, 8), low = hn::Set(di, 15);
  for (int64_t b = 0; b < blocks; ++b, pairs += stride, out += kBlockNumbers) {
    const auto scale = hn::Set(d, scales[b]);
    for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
      const auto both = hn::PromoteTo(di, hn::LoadU(d8, pairs + i));
      const auto first = hn::Sub(hn::And(both, low), eight);
      const auto second = hn::Sub(hn::ShiftRight<4>(both), eight);
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(d, first)), d, out + i);
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(d, second)), d, out + kHalf + i);
    }
  }
}

void WidenHalves(const BF16* x, int64_t count, float* out) {
  Map(
      hn::ScalableTag<float>(), count, out, [](auto v) HWY_ATTR { return v; }, x);
}

void WidenF16s(const F16* x, int64_t count, float* out) {
  Map(
      hn::ScalableTag<float>(), count, out, [](auto v) HWY_ATTR { return v; }, x);
}

void HalvesOf(const float* x, int64_t count, BF16* out) {
  Map(
      hn::ScalableTag<float>(), count, out, [](auto v) HWY_ATTR { return v; }, x);
}

void RoundedFloats(const float* x, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  Map(
      d, count, out,
      [=](auto v)
          HWY_ATTR { return hn::BitCast(d, hn::And(RoundedBits(d, v), hn::Set(du, 0xFFFF0000u))); },
      x);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(RoundBlocks);
HWY_EXPORT(ScaleBytes);
HWY_EXPORT(ScaleNibbles);
HWY_EXPORT(WidenHalves);
HWY_EXPORT(WidenF16s);
HWY_EXPORT(HalvesOf);
HWY_EXPORT(RoundedFloats);

namespace {

constexpr int64_t kNumbers = 32, kSomeBlocks = 64;  // in a block; blocks processed together

// Calls f(first block, count) for some blocks at a time.
template <class F>
void ForSomeBlocks(int64_t count, F&& f) {
  FOLIO_CHECK(count % kNumbers == 0, "part of a block");
  for (int64_t block = 0; block < count / kNumbers; block += kSomeBlocks) {
    f(block, std::min(kSomeBlocks, count / kNumbers - block));
  }
}

void DecodeScales(const std::byte* data, size_t stride, int64_t blocks, float* scales) {
  std::byte halves[kSomeBlocks * sizeof(uint16_t)];
  for (int64_t b = 0; b < blocks; ++b) {
    std::memcpy(halves + b * 2, data + static_cast<size_t>(b) * stride, sizeof(uint16_t));
  }
  DecodeFloats(halves, Dtype::kF16, std::span(scales, static_cast<size_t>(blocks)));
}

}  // namespace

void DecodeStored(Dtype from, const std::byte* data, int64_t count, float* out) {
  if (from == Dtype::kBF16) {
    return HWY_DYNAMIC_DISPATCH(WidenHalves)(reinterpret_cast<const BF16*>(data), count, out);
  }
  if (from == Dtype::kF16) {
    return HWY_DYNAMIC_DISPATCH(WidenF16s)(reinterpret_cast<const F16*>(data), count, out);
  }
  if (from != Dtype::kQ8_0 && from != Dtype::kQ4_0) {
    return DecodeFloats(data, from, std::span(out, static_cast<size_t>(count)));
  }
  const size_t stride = DtypeBytes(from, kNumbers);
  ForSomeBlocks(count, [&](int64_t block, int64_t blocks) {
    float scales[kSomeBlocks];
    const std::byte* at = data + static_cast<size_t>(block) * stride;
    DecodeScales(at, stride, blocks, scales);
    const std::byte* numbers = at + sizeof(uint16_t);
    const auto step = static_cast<int64_t>(stride);
    float* to = out + block * kNumbers;
    if (from == Dtype::kQ8_0) {
      HWY_DYNAMIC_DISPATCH(ScaleBytes)
      (reinterpret_cast<const int8_t*>(numbers), step, scales, blocks, to);
    } else {
      HWY_DYNAMIC_DISPATCH(ScaleNibbles)
      (reinterpret_cast<const uint8_t*>(numbers), step, scales, blocks, to);
    }
  });
}

void RoundInto(Rounding rounding, const float* x, int64_t count, float* out) {
  if (rounding == Rounding::kBF16) return HWY_DYNAMIC_DISPATCH(RoundedFloats)(x, count, out);
  FOLIO_CHECK(rounding == Rounding::kBlockFloat, "nothing to be rounded");
  ForSomeBlocks(count, [&](int64_t block, int64_t blocks) {
    int8_t high[kSomeBlocks * kNumbers], low[kSomeBlocks * kNumbers];
    float scales[kSomeBlocks];
    RoundToBlocks(x + block * kNumbers, blocks, high, low, scales);
    float* to = out + block * kNumbers;
    for (int64_t i = 0; i < blocks * kNumbers; ++i) {
      to[i] = scales[i / kNumbers] * static_cast<float>(128 * high[i] + low[i]);
    }
  });
}

void RoundToHalves(const float* x, int64_t count, BF16* out) {
  HWY_DYNAMIC_DISPATCH(HalvesOf)(x, count, out);
}

void RoundToBlocks(const float* x, int64_t blocks, int8_t* high, int8_t* low, float* scales) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(x, blocks, high, low, scales);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
