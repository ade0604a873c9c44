#include "folio/backend/cpu/linear_rows_x86.h"

#include "folio/base/check.h"

#if defined(__x86_64__)

// GCC 12 takes the undefined vectors of its own header for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

namespace folio::cpu {
namespace {

constexpr int64_t kPairs = 32;                  // numbers of a vector
constexpr int kRowsOfX = 4, kRowsOfWeight = 4;  // rows: their sums stay in registers

#define FOLIO_HALVES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define FOLIO_HALVES_INLINE FOLIO_HALVES __attribute__((always_inline)) inline

FOLIO_HALVES_INLINE __m512bh Load(const BF16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}
// The first numbers of a vector, zeros behind them; reads nothing beyond.
FOLIO_HALVES_INLINE __m512bh LoadFirst(const BF16* p, int64_t count) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, p));
}

// The lower and upper halves of two vectors, added.
FOLIO_HALVES_INLINE __m512 AddHalves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

// The totals of four vectors of sixteen sums: those eight apart are added, then four, one and two.
FOLIO_HALVES_INLINE __m128 JoinSums(const __m512* sums) {
  const __m512 ab = AddHalves(sums[0], sums[1]), cd = AddHalves(sums[2], sums[3]);
  __m512 all =
      _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xB1));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4E));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all));
}

// Rows of the weight of a product, and where the memory lies that will be read soon.
struct WeightTile {
  const BF16* weight;
  int64_t I;
  const BF16* ahead;
};

// kX rows of x times kW of the weight. Asks for kLines cache lines each time that it reads a vector
// of each of its rows, in the order in which they lie.
template <int kX, int kW, int kLines>
FOLIO_HALVES void MultiplyGroup(const BF16* x, int64_t stride, const WeightTile& tile, float* out,
                                int64_t ldo) {
  const int64_t I = tile.I, whole = I / kPairs * kPairs;
  __m512 sums[kX][kRowsOfWeight];
  for (int n = 0; n < kX; ++n) {
    for (int r = 0; r < kRowsOfWeight; ++r) sums[n][r] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < whole; i += kPairs) {
    for (int line = 0; line < kLines; ++line) {
      __builtin_prefetch(tile.ahead + i * kLines + line * kPairs, 0, 2);
    }
    __m512bh w[kW];
    for (int r = 0; r < kW; ++r) w[r] = Load(tile.weight + r * I + i);
    for (int n = 0; n < kX; ++n) {
      const __m512bh v = Load(x + n * stride + i);
      for (int r = 0; r < kW; ++r) sums[n][r] = _mm512_dpbf16_ps(sums[n][r], v, w[r]);
    }
  }
  if (whole < I) {
    for (int r = 0; r < kW; ++r) {
      const __m512bh w = LoadFirst(tile.weight + r * I + whole, I - whole);
      for (int n = 0; n < kX; ++n) {
        sums[n][r] = _mm512_dpbf16_ps(sums[n][r], Load(x + n * stride + whole), w);
      }
    }
  }
  for (int n = 0; n < kX; ++n) {
    const __m128 totals = JoinSums(sums[n]);
    if constexpr (kW == kRowsOfWeight) {
      _mm_storeu_ps(out + n * ldo, totals);
    } else {
      for (int r = 0; r < kW; ++r) out[n * ldo + r] = totals[r];
    }
  }
}

// One row of x: memory is read in its own order, which is faster than some streams of it.
FOLIO_HALVES void MultiplyOne(const BF16* x, const WeightTile& tile, float* out) {
  const int64_t whole = tile.I / kPairs * kPairs;
  __m512 sums[kRowsOfWeight];
  for (int r = 0; r < kRowsOfWeight; ++r) {
    const BF16* w = tile.weight + r * tile.I;
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < whole; i += kPairs)
      sum = _mm512_dpbf16_ps(sum, Load(x + i), Load(w + i));
    if (whole < tile.I) {
      sum = _mm512_dpbf16_ps(sum, Load(x + whole), LoadFirst(w + whole, tile.I - whole));
    }
    sums[r] = sum;
  }
  _mm_storeu_ps(out, JoinSums(sums));
}

using TileKernel = void (*)(const BF16* x, int64_t stride, const WeightTile& tile, float* out,
                            int64_t ldo);

template <int kW, int kLines>
TileKernel KernelFor(int64_t rows) {
  constexpr TileKernel kKernels[kRowsOfX] = {
      MultiplyGroup<1, kW, kLines>, MultiplyGroup<2, kW, kLines>, MultiplyGroup<3, kW, kLines>,
      MultiplyGroup<4, kW, kLines>};
  return kKernels[rows - 1];
}

// All rows of x times four of the weight, or one. While it computes it asks for the tile after the
// next, a little of it with each group of rows: left to itself, the processor would hardly fetch
// rows that lie side by side, nor would it while it computes.
void MultiplyTile(const HalfRows& x, WeightTile tile, bool whole, float* out, int64_t ldo) {
  const int64_t groups = (x.rows + kRowsOfX - 1) / kRowsOfX;
  const int64_t each = groups == 1 ? kRowsOfWeight : groups < kRowsOfWeight ? 2 : 1;
  int64_t lines = whole ? kRowsOfWeight : 0;  // of each vector's width, still to be asked for
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t begin = group * x.rows / groups, rows = (group + 1) * x.rows / groups - begin;
    TileKernel kernel = whole ? KernelFor<kRowsOfWeight, 0>(rows) : KernelFor<1, 0>(rows);
    if (lines > 0) {
      kernel = each == 1   ? KernelFor<kRowsOfWeight, 1>(rows)
               : each == 2 ? KernelFor<kRowsOfWeight, 2>(rows)
                           : KernelFor<kRowsOfWeight, kRowsOfWeight>(rows);
    }
    kernel(x.numbers + begin * x.stride, x.stride, tile, out + begin * ldo, ldo);
    if (lines > 0) tile.ahead += each * tile.I, lines -= each;
  }
}

}  // namespace

void MultiplyHalfRows(const HalfRows& x, const BF16* weight, int64_t weight_rows, int64_t I,
                      float* out, int64_t ldo) {
  constexpr int64_t kAhead = 2 * kRowsOfWeight;
  for (int64_t r = 0; r < weight_rows;) {
    const bool whole = weight_rows - r >= kRowsOfWeight;
    const WeightTile tile{weight + r * I, I, weight + (r + kAhead) * I};
    if (whole && x.rows == 1) {
      MultiplyOne(x.numbers, tile, out + r);
    } else {
      MultiplyTile(x, tile, whole, out + r, ldo);
    }
    r += whole ? kRowsOfWeight : 1;
  }
}

}  // namespace folio::cpu

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#else

namespace folio::cpu {

void MultiplyHalfRows(const HalfRows&, const BF16*, int64_t, int64_t, float*, int64_t) {
  FOLIO_CHECK(false, "no AVX-512 here");
}

}  // namespace folio::cpu

#endif
