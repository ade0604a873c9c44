#include "folio/backend/cpu/bf16_product_x86.h"

#include "folio/base/check.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace folio::cpu {
namespace {

constexpr int64_t kTileBytes = 64;  // of a row of a tile

// LDTILECFG reads a TileConfig: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;

#define FOLIO_AMX __attribute__((target("amx-tile,amx-bf16")))

// Asks for a tile that will be needed soon. It may lie beyond the operand.
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

}  // namespace

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

}  // namespace folio::cpu

#else

namespace folio::cpu {

void MultiplyAvx512(const PackedProduct&) {
  FOLIO_CHECK(false, "no AVX-512 here");
}
void MultiplyAmx(const PackedProduct&) {
  FOLIO_CHECK(false, "no AMX here");
}
void AmxBegin() {}
void AmxEnd() {}

}  // namespace folio::cpu

#endif
