#include "folio/backend/cpu/bf16_product.h"

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
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace folio::cpu {

HWY_EXPORT(MultiplyPlain);

namespace {

void RunPlain(const PackedProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPlain)(product);
}

// ---- Products by instructions that Highway does not have ---------------------------------------

#if defined(__x86_64__)

constexpr int64_t kTileBytes = 64;  // in a row of a tile

// LDTILECFG reads a TileConfig: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;

#define FOLIO_AMX __attribute__((target("amx-tile,amx-bf16")))

// Prefetches a tile. It may lie beyond the operand.
inline void Prefetch(const BF16* tile) {
  for (int64_t row = 0; row < kTileRows; ++row) {
    __builtin_prefetch(reinterpret_cast<const char*>(tile) + row * kTileBytes);
  }
}

// Two by two tiles of c, which stay in registers over the whole depth. The two columns of right are
// read again for each pair of rows of left, and so are in the first-level cache; left is not.
FOLIO_AMX void Amx2x2(const PackedProduct& p, const BF16* left, const BF16* right, float* c) {
  const int64_t stride = p.c_stride * static_cast<int64_t>(sizeof(float));
  if (p.accumulate) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + 16, stride);
    _tile_loadd(2, c + 16 * p.c_stride, stride);
    _tile_loadd(3, c + 16 * p.c_stride + 16, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const BF16* left_2 = left + p.left_stride;
  const BF16* right_2 = right + p.right_stride;
  for (int64_t k = 0; k < p.depth_tiles; ++k) {
    _tile_loadd(6, right + k * kTileElements, kTileBytes);
    _tile_loadd(4, left + k * kTileElements, kTileBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right_2 + k * kTileElements, kTileBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left_2 + k * kTileElements, kTileBytes);
    Prefetch(left + (k + 2) * kTileElements);
    Prefetch(left_2 + (k + 2) * kTileElements);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c + 16 * p.c_stride, stride);
  _tile_stored(3, c + 16 * p.c_stride + 16, stride);
}

FOLIO_AMX void Amx1x1(const PackedProduct& p, const BF16* left, const BF16* right, float* c) {
  const int64_t stride = p.c_stride * static_cast<int64_t>(sizeof(float));
  if (p.accumulate) {
    _tile_loadd(0, c, stride);
  } else {
    _tile_zero(0);
  }
  for (int64_t k = 0; k < p.depth_tiles; ++k) {
    _tile_loadd(4, left + k * kTileElements, kTileBytes);
    _tile_loadd(6, right + k * kTileElements, kTileBytes);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, c, stride);
}

#define FOLIO_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

// Eight rows of one row of tiles by two columns of tiles, or one.
template <int kColumns>
FOLIO_AVX512_BF16 void Avx512Rows(const PackedProduct& p, const BF16* left, const BF16* right,
                                  float* c) {
  constexpr int kRows = 8;
  __m512 sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kColumns; ++j) {
      sums[r][j] =
          p.accumulate ? _mm512_loadu_ps(c + r * p.c_stride + 16 * j) : _mm512_setzero_ps();
    }
  }
  for (int64_t k = 0; k < p.depth_tiles; ++k) {
    const int32_t* pairs = reinterpret_cast<const int32_t*>(left + k * kTileElements);
    const BF16* rights = right + k * kTileElements;
    for (int pair = 0; pair < 16; ++pair) {
      __m512bh b[kColumns];
      for (int j = 0; j < kColumns; ++j) {
        b[j] =
            reinterpret_cast<__m512bh>(_mm512_load_si512(rights + j * p.right_stride + pair * 32));
      }
      for (int r = 0; r < kRows; ++r) {
        const __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pairs[r * 16 + pair]));
        for (int j = 0; j < kColumns; ++j) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], a, b[j]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kColumns; ++j) {
      _mm512_storeu_ps(c + r * p.c_stride + 16 * j, sums[r][j]);
    }
  }
}

FOLIO_AMX void AmxBegin() {
  _tile_loadconfig(&kTiles);
}

FOLIO_AMX void AmxEnd() {
  _tile_release();
}

void MultiplyAmx(const PackedProduct& p) {
  const int64_t rows = p.row_tiles / 2 * 2, columns = p.column_tiles / 2 * 2;
  const auto at = [&](int64_t i, int64_t j) { return p.c + i * 16 * p.c_stride + j * 16; };
  for (int64_t j = 0; j < columns; j += 2) {
    const BF16* right = p.right + j * p.right_stride;
    for (int64_t i = 0; i < rows; i += 2) {
      Amx2x2(p, p.left + i * p.left_stride, right, at(i, j));
    }
  }
  for (int64_t j = 0; j < p.column_tiles; ++j) {
    const BF16* right = p.right + j * p.right_stride;
    for (int64_t i = j < columns ? rows : 0; i < p.row_tiles; ++i) {
      Amx1x1(p, p.left + i * p.left_stride, right, at(i, j));
    }
  }
}

void MultiplyAvx512(const PackedProduct& p) {
  for (int64_t j = 0; j < p.column_tiles; j += 2) {
    const BF16* right = p.right + j * p.right_stride;
    const auto rows = j + 1 < p.column_tiles ? Avx512Rows<2> : Avx512Rows<1>;
    for (int64_t i = 0; i < 2 * p.row_tiles; ++i) {
      rows(p, p.left + i / 2 * p.left_stride + i % 2 * 8 * kTileDepth, right,
           p.c + i * 8 * p.c_stride + j * 16);
    }
  }
}

#endif  // x86-64

}  // namespace

PackedMultiplier::PackedMultiplier() : run_(RunPlain), tiles_(false) {
#if defined(__x86_64__)
  const Bf16Unit unit = Bf16UnitInUse();
  tiles_ = unit == Bf16Unit::kAmx;
  if (tiles_) AmxBegin();
  if (unit != Bf16Unit::kPlain) run_ = tiles_ ? MultiplyAmx : MultiplyAvx512;
#endif
}

PackedMultiplier::~PackedMultiplier() {
#if defined(__x86_64__)
  if (tiles_) AmxEnd();
#endif
}

void PackedMultiplier::Run(const PackedProduct& product) const {
  run_(product);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
