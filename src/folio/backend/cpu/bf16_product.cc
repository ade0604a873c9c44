#include "folio/backend/cpu/bf16_product.h"

#include "folio/backend/cpu/bf16_product_x86.h"
#include "folio/base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/bf16_product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four rows by the 16 columns of a tile. A pair of bfloat16 numbers is one 32-bit lane: its upper
// half, with the lower one cleared, and its lower half, shifted up, are float32 numbers.
HWY_INLINE void MultiplyRows(const PackedProduct& p, const BF16* left, const BF16* right,
                             float* c) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  const auto upper = hn::Set(du, 0xFFFF0000u);
  for (size_t column = 0; column < kTileRows; column += lanes) {
    const auto load = [&](int64_t r) HWY_ATTR {
      return p.accumulate ? hn::LoadU(d, c + r * p.c_stride + column) : hn::Zero(d);
    };
    auto s0 = load(0), s1 = load(1), s2 = load(2), s3 = load(3);
    for (int64_t k = 0; k < p.depth_tiles; ++k) {
      const uint32_t* a = reinterpret_cast<const uint32_t*>(left + k * kTileElements);
      const uint32_t* b = reinterpret_cast<const uint32_t*>(right + k * kTileElements) + column;
      for (int64_t pair = 0; pair < kTileDepth / 2; ++pair) {
        const auto both = hn::LoadU(du, b + pair * kTileRows);
        const auto even = hn::BitCast(d, hn::ShiftLeft<16>(both));
        const auto odd = hn::BitCast(d, hn::And(both, upper));
        const auto add = [&](auto& sum, int64_t r) HWY_ATTR {
          const auto bits = hn::Set(du, a[r * (kTileDepth / 2) + pair]);
          sum = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(bits)), even, sum);
          sum = hn::MulAdd(hn::BitCast(d, hn::And(bits, upper)), odd, sum);
        };
        add(s0, 0), add(s1, 1), add(s2, 2), add(s3, 3);
      }
    }
    hn::StoreU(s0, d, c + column);
    hn::StoreU(s1, d, c + p.c_stride + column);
    hn::StoreU(s2, d, c + 2 * p.c_stride + column);
    hn::StoreU(s3, d, c + 3 * p.c_stride + column);
  }
}

void MultiplyPlain(const PackedProduct& p) {
  for (int64_t j = 0; j < p.column_tiles; ++j) {
    const BF16* right = p.right + j * p.right_stride;
    for (int64_t i = 0; i < 4 * p.row_tiles; ++i) {
      MultiplyRows(p, p.left + i / 4 * p.left_stride + i % 4 * 4 * kTileDepth, right,
                   p.c + i * 4 * p.c_stride + j * kTileRows);
    }
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(MultiplyPlain);

namespace {

void RunPlain(const PackedProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPlain)(product);
}

}  // namespace

PackedMultiplier::PackedMultiplier() : run_(RunPlain), tiles_(false) {
  switch (Bf16UnitInUse()) {
    case Bf16Unit::kPlain:
      break;
    case Bf16Unit::kAvx512:
      run_ = MultiplyAvx512;
      break;
    case Bf16Unit::kAmx:
      AmxBegin();
      run_ = MultiplyAmx;
      tiles_ = true;
      break;
  }
}

PackedMultiplier::~PackedMultiplier() {
  if (tiles_) AmxEnd();
}

void PackedMultiplier::Run(const PackedProduct& product) const {
  run_(product);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
