#include "folio/backend/cpu/stored_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/stored_numbers.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

constexpr size_t kBlockNumbers = 32;

// Writes a block's integers and returns their scale, as EncodeFloats does it, but for rounding
// that. NaN, and zeros, if a number is not finite.
float RoundBlock(const float* x, int8_t* out) {
  constexpr size_t kCount = kBlockNumbers;
  const hn::CappedTag<float, kCount> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  auto magnitude = hn::Zero(d);
  bool finite = true;
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    const auto v = hn::Abs(LoadU(d, x + i));
    finite = finite && hn::AllTrue(d, hn::Le(v, hn::Set(d, std::numeric_limits<float>::max())));
    magnitude = hn::Max(magnitude, v);
  }
  if (!finite) {
    std::memset(out, 0, kCount);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = MaxLane(d, magnitude) / 127, inverse = 1.0f / scale;
  const auto factor = hn::Set(d, inverse <= std::numeric_limits<float>::max() ? inverse : 0.0f);
  const auto half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    const auto v = hn::Mul(LoadU(d, x + i), factor), whole = hn::Trunc(v);
    const auto away = hn::Ge(hn::Abs(hn::Sub(v, whole)), half);
    const auto nearest = hn::Add(whole, hn::IfThenElseZero(away, hn::CopySign(one, v)));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, nearest)), d8, out + i);
  }
  return scale;
}

void RoundBlocks(const float* x, int64_t blocks, int8_t* numbers, float* scales) {
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = b * static_cast<int64_t>(kBlockNumbers);
    scales[b] = RoundBlock(x + at, numbers + at);
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

// The same of integers of four bits: the lower halves of 16 bytes, and then the upper ones.
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
HWY_EXPORT(HalvesOf);
HWY_EXPORT(RoundedFloats);

namespace {

constexpr int64_t kNumbers = 32, kSomeBlocks = 64;  // of a block; that are treated together

// Calls f(first block, how many) for some blocks at a time.
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

void RoundStored(Dtype to, const float* x, int64_t count, float* out) {
  if (to == Dtype::kBF16) return HWY_DYNAMIC_DISPATCH(RoundedFloats)(x, count, out);
  FOLIO_CHECK(to == Dtype::kQ8_0, "not a dtype that rows are rounded to");
  ForSomeBlocks(count, [&](int64_t block, int64_t blocks) {
    int8_t numbers[kSomeBlocks * kNumbers];
    float scales[kSomeBlocks];
    RoundToBlocks(x + block * kNumbers, blocks, numbers, scales);
    HWY_DYNAMIC_DISPATCH(ScaleBytes)(numbers, kNumbers, scales, blocks, out + block * kNumbers);
  });
}

void RoundToHalves(const float* x, int64_t count, BF16* out) {
  HWY_DYNAMIC_DISPATCH(HalvesOf)(x, count, out);
}

void RoundToBlocks(const float* x, int64_t blocks, int8_t* numbers, float* scales) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(x, blocks, numbers, scales);
  // Scales are binary16 numbers; one beyond them makes what it is part of NaN.
  for (int64_t b = 0; b < blocks; b += kSomeBlocks) {
    const std::span<float> some(scales + b, static_cast<size_t>(std::min(kSomeBlocks, blocks - b)));
    std::byte halves[kSomeBlocks * sizeof(uint16_t)];
    EncodeFloats(some, Dtype::kF16, halves);
    DecodeFloats(halves, Dtype::kF16, some);
    for (int64_t i = b; i < b + std::ssize(some); ++i) {
      if (std::isfinite(scales[i])) continue;
      scales[i] = std::numeric_limits<float>::quiet_NaN();
      std::memset(numbers + i * kNumbers, 0, kNumbers);
    }
  }
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
