#include "folio/backend/cpu/linear_rows.h"
#include "folio/base/check.h"
#include "folio/base/simd_targets.h"

#if defined(__x86_64__)

// GCC 12 takes the undefined vectors of its own header for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace folio::cpu {

// ---- Halves, by AVX-512 ------------------------------------------------------------------------

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

// ---- Blocks ------------------------------------------------------------------------------------

namespace {

constexpr int64_t kBlock = BlockedRows::kBlock, kGroup = BlockedRows::kGroup;
constexpr int64_t kScaleBytes = BlockedRows::kScaleBytes;

#define FOLIO_AVX2 __attribute__((target("avx2,fma,f16c")))
#define FOLIO_VNNI \
  __attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")))
#define FOLIO_INLINE __attribute__((always_inline)) inline

template <Dtype dtype>
constexpr int64_t kBlockBytes = kScaleBytes + (dtype == Dtype::kQ8_0 ? kBlock : kBlock / 2);

// The scales of a group of blocks.
template <int64_t block_bytes>
FOLIO_AVX2 FOLIO_INLINE __m128 Scales(const std::byte* group) {
  const auto at = [=](int64_t block) {
    return *reinterpret_cast<const short*>(group + block * block_bytes);  // aligned, as blocks are
  };
  return _mm_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), 0, 0, 0, 0));
}

// The last blocks of a row, fewer than a group, with zeros behind them.
template <int64_t block_bytes>
struct LastGroup {
  LastGroup(const std::byte* from, int64_t blocks) {
    std::memcpy(bytes, from, static_cast<size_t>(blocks * block_bytes));
  }
  alignas(2) std::byte bytes[kGroup * block_bytes] = {};
};

// ---- Blocks, by AVX-512 with VNNI
// -------------------------------------------------------------------------

// Two blocks as unsigned bytes: plus 128 or 8.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i TwoBlocks(const std::byte* first, const std::byte* second) {
  first += kScaleBytes, second += kScaleBytes;
  if constexpr (dtype == Dtype::kQ8_0) {
    const auto low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
    const auto high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second));
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1),
                            _mm512_set1_epi8(-128));
  } else {
    const auto low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const auto high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
    const __m512i pairs = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(low), 0xFF00, high);
    const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    return _mm512_and_si512(_mm512_srlv_epi64(pairs, shifts), _mm512_set1_epi8(15));
  }
}

// FirstScales and LastScales hold, for the sums of the first and of the last two blocks of a group,
// the index of the scale that each is multiplied with.
FOLIO_VNNI FOLIO_INLINE __m512i FirstScales() {
  return _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
}
FOLIO_VNNI FOLIO_INLINE __m512i LastScales() {
  return _mm512_add_epi32(FirstScales(), _mm512_set1_epi32(2));
}

// VnniGroup adds the products of one group of blocks to `sum`, for one row of x.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512 VnniGroup(const BlockedRows& x, const std::byte* group,
                                         int64_t block, __m512 sum) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const __m512i w0 = TwoBlocks<dtype>(group, group + bytes);
  const __m512i w1 = TwoBlocks<dtype>(group + 2 * bytes, group + 3 * bytes);
  const int8_t* numbers = x.numbers + block * kBlock;
  const int32_t* corrections = x.corrections + block * kBlock / 4;
  const __m512 scale =
      _mm512_castps128_ps512(_mm_mul_ps(Scales<bytes>(group), _mm_load_ps(x.scales + block)));
  const __m512i dot0 =
      _mm512_dpbusd_epi32(_mm512_load_si512(corrections), w0, _mm512_load_si512(numbers));
  const __m512i dot1 = _mm512_dpbusd_epi32(_mm512_load_si512(corrections + 16), w1,
                                           _mm512_load_si512(numbers + 2 * kBlock));
  sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(FirstScales(), scale), _mm512_cvtepi32_ps(dot0), sum);
  return _mm512_fmadd_ps(_mm512_permutexvar_ps(LastScales(), scale), _mm512_cvtepi32_ps(dot1), sum);
}

// Joins eight sums.
FOLIO_AVX2 FOLIO_INLINE float Total(__m256 sums) {
  const __m128 fours = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
  const __m128 pairs = _mm_hadd_ps(fours, fours);
  return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
}

template <Dtype dtype>
FOLIO_VNNI void VnniRow(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                        int64_t) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t whole = x.blocks / kGroup * kGroup;
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks * bytes) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t b = 0; b < whole; b += kGroup) {
      sum = VnniGroup<dtype>(x, weight + b * bytes, b, sum);
    }
    if (whole < x.blocks) {
      const LastGroup<bytes> last(weight + whole * bytes, x.blocks - whole);
      sum = VnniGroup<dtype>(x, last.bytes, whole, sum);
    }
    out[r] = Total(_mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1)));
  }
}

// Part of sixteen rows of a weight, unpacked once for all rows of x: block by block, four numbers
// of each row beside those of the others, so that a vector's sums belong to sixteen results and the
// product of scales serves a whole block.
constexpr int64_t kTileWeight = 16, kFours = kBlock / 4, kTileBlocks = 32;
struct UnpackedTile {
  alignas(64) uint8_t numbers[kTileBlocks][kFours][kTileWeight][4];
  alignas(64) float scales[kTileBlocks][kTileWeight];
};

// Turns each half of eight vectors as a matrix of eight by eight.
FOLIO_VNNI FOLIO_INLINE void TurnHalves(__m512i* v) {
  __m512i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  __m512i u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_permutex2var_epi64(u[i], low, u[i + 4]);
    v[i + 4] = _mm512_permutex2var_epi64(u[i], high, u[i + 4]);
  }
}

// A block of each of the rows that begin there.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void UnpackBlock(const std::byte* const* rows, int64_t offset,
                                         uint8_t* numbers, float* scales) {
  __m512i v[kFours];
  alignas(32) uint16_t halves[kTileWeight];
  for (int r = 0; r < kTileWeight; ++r) std::memcpy(halves + r, rows[r] + offset, kScaleBytes);
  for (int r = 0; r < kFours; ++r) v[r] = TwoBlocks<dtype>(rows[r] + offset, rows[r + 8] + offset);
  TurnHalves(v);
  for (int i = 0; i < kFours; ++i) _mm512_store_si512(numbers + i * 64, v[i]);
  _mm512_store_ps(scales, _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<__m256i*>(halves))));
}

// Memory that will be read soon, asked for while something is computed.
struct Ahead {
  const std::byte* at;
  int64_t lines;  // each time

  FOLIO_INLINE void Ask() {
    for (int64_t i = 0; i < lines; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// Rows n, n + 1... of x times a tile, from block `begin` of each row on. Every second block has
// sums of its own: all_sums[kX][2][kFours].
template <int kX>
FOLIO_VNNI void VnniTile(const BlockedRows& x, int64_t n, const UnpackedTile& w, int64_t begin,
                         int64_t blocks, Ahead& ahead, __m512* all_sums) {
  for (int64_t parity = 0; parity < 2; ++parity) {
    __m512 sums[kX][kFours];
    for (int i = 0; i < kX; ++i) {
      for (int j = 0; j < kFours; ++j) sums[i][j] = all_sums[(i * 2 + parity) * kFours + j];
    }
    for (int64_t b = parity; b < blocks; b += 2) {
      ahead.Ask();
      const __m512 w_scales = _mm512_load_ps(w.scales[b]);
      for (int i = 0; i < kX; ++i) {
        const int64_t at = (n + i) * x.stride + begin + b;
        const __m512 scale = _mm512_mul_ps(w_scales, _mm512_set1_ps(x.scales[at]));
        const int32_t* corrections = x.corrections + at * kFours;
        const auto* fours = reinterpret_cast<const int32_t*>(x.numbers + at * kBlock);
        for (int j = 0; j < kFours; ++j) {
          const __m512i dot =
              _mm512_dpbusd_epi32(_mm512_set1_epi32(corrections[j]),
                                  _mm512_load_si512(w.numbers[b][j]), _mm512_set1_epi32(fours[j]));
          sums[i][j] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(dot), sums[i][j]);
        }
      }
    }
    for (int i = 0; i < kX; ++i) {
      for (int j = 0; j < kFours; ++j) all_sums[(i * 2 + parity) * kFours + j] = sums[i][j];
    }
  }
}

// Joins the sixteen sums of sixteen results, in the same order as Total.
FOLIO_VNNI FOLIO_INLINE __m512 Totals(const __m512* sums) {
  __m512 fours[4];
  for (int i = 0; i < 4; ++i) {
    fours[i] = _mm512_add_ps(_mm512_add_ps(sums[i], sums[kFours + i]),
                             _mm512_add_ps(sums[i + 4], sums[kFours + i + 4]));
  }
  return _mm512_add_ps(_mm512_add_ps(fours[0], fours[1]), _mm512_add_ps(fours[2], fours[3]));
}

// Rows [begin, end) of x, at most kSomeRows, times up to kTileWeight rows of the weight.
constexpr int64_t kSomeRows = 32, kSums = 2 * kFours;
template <Dtype dtype>
FOLIO_VNNI void VnniTiles(const BlockedRows& x, int64_t begin, int64_t end, const std::byte* weight,
                          int64_t rows, float* out, int64_t stride) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t N = end - begin, row_bytes = x.blocks * bytes;
  const int64_t lines = kTileWeight * row_bytes / 64, times = (N + 1) / 2 * x.blocks;
  Ahead ahead{weight + kTileWeight * row_bytes, begin > 0 ? 0 : lines / times + 1};
  const std::byte* starts[kTileWeight];
  for (int64_t r = 0; r < kTileWeight; ++r) {
    starts[r] = weight + std::min(r, rows - 1) * row_bytes;  // the last one again
  }
  const auto there = static_cast<__mmask16>((1u << rows) - 1);
  __m512 all_sums[kSomeRows * kSums];  // beyond the first ones only where a row takes several tiles
  for (int64_t b = 0; b < x.blocks; b += kTileBlocks) {
    const int64_t blocks = std::min(kTileBlocks, x.blocks - b);
    UnpackedTile tile;
    for (int64_t i = 0; i < blocks; ++i) {
      UnpackBlock<dtype>(starts, (b + i) * bytes, &tile.numbers[i][0][0][0], tile.scales[i]);
    }
    for (int64_t n = 0; n < N; n += 2) {
      const int64_t count = std::min<int64_t>(2, N - n);
      __m512* sums = all_sums + (blocks < x.blocks ? n * kSums : 0);
      for (int64_t i = 0; b == 0 && i < count * kSums; ++i) sums[i] = _mm512_setzero_ps();
      const auto multiply = count == 2 ? VnniTile<2> : VnniTile<1>;
      multiply(x, begin + n, tile, b, blocks, ahead, sums);
      for (int64_t i = 0; b + blocks == x.blocks && i < count; ++i) {
        _mm512_mask_storeu_ps(out + (begin + n + i) * stride, there, Totals(sums + i * kSums));
      }
    }
  }
}

template <Dtype dtype>
void VnniRows(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
              int64_t stride) {
  const int64_t row_bytes = x.blocks * kBlockBytes<dtype>;
  for (int64_t r = 0; r < rows; r += kTileWeight) {
    for (int64_t n = 0; n < x.rows; n += kSomeRows) {
      VnniTiles<dtype>(x, n, std::min(n + kSomeRows, x.rows), weight + r * row_bytes,
                       std::min(kTileWeight, rows - r), out + r, stride);
    }
  }
}

// ---- Blocks, by AVX2
// --------------------------------------------------------------------------------------

// A block, and what it and 32 numbers of x make: eight sums of four products.
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256i OneBlock(const std::byte* block) {
  if constexpr (dtype == Dtype::kQ8_0) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + kScaleBytes));
  } else {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + kScaleBytes));
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
  }
}
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256i Dots(__m256i w, __m256i x, const int32_t* corrections) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (dtype == Dtype::kQ8_0) {
    // Two products add up to 2 * 128 * 127 at most, which 16 bits hold.
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, ones);
  } else {
    const __m256i correction = _mm256_load_si256(reinterpret_cast<const __m256i*>(corrections));
    return _mm256_add_epi32(correction, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
  }
}

template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE void Avx2Group(const BlockedRows& x, int64_t N, const std::byte* group,
                                       int64_t block, __m256 (*sums)[2]) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const __m128 scales = Scales<bytes>(group);
  for (int64_t i = 0; i < kGroup; ++i) {
    const __m256i w = OneBlock<dtype>(group + i * bytes);
    for (int64_t n = 0; n < N; ++n) {
      const int64_t at = n * x.stride + block;
      const __m128 products = _mm_mul_ps(scales, _mm_load_ps(x.scales + at));
      const __m256 scale =
          _mm256_permutevar8x32_ps(_mm256_castps128_ps256(products), _mm256_set1_epi32(int(i)));
      const auto* numbers = reinterpret_cast<const __m256i*>(x.numbers + (at + i) * kBlock);
      const __m256i dots =
          Dots<dtype>(w, _mm256_load_si256(numbers), x.corrections + (at + i) * kBlock / 4);
      sums[n][i % 2] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dots), sums[n][i % 2]);
    }
  }
}

template <Dtype dtype, bool one>
FOLIO_AVX2 void Avx2Rows(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                         int64_t stride) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t N = one ? 1 : x.rows, whole = x.blocks / kGroup * kGroup;
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks * bytes) {
    __m256 sums[one ? 1 : LinearForward::kFewRows][2];
    for (int64_t n = 0; n < N; ++n) sums[n][0] = sums[n][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < whole; b += kGroup) Avx2Group<dtype>(x, N, weight + b * bytes, b, sums);
    if (whole < x.blocks) {
      const LastGroup<bytes> last(weight + whole * bytes, x.blocks - whole);
      Avx2Group<dtype>(x, N, last.bytes, whole, sums);
    }
    for (int64_t n = 0; n < N; ++n) {
      out[n * stride + r] = Total(_mm256_add_ps(sums[n][0], sums[n][1]));
    }
  }
}

bool HasVnni(const std::string& target) {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
  return has && target == "AVX3";
}

template <Dtype dtype, bool one>
BlockKernel KernelOf(const std::string& target) {
  if (HasVnni(target)) return one ? VnniRow<dtype> : VnniRows<dtype>;
  return target == "AVX3" || target == "AVX2" ? Avx2Rows<dtype, one> : nullptr;
}

}  // namespace

bool X86TakesAnyRows() {
  return HasVnni(VectorTarget());
}

BlockKernel X86BlockKernel(Dtype weight, bool one) {
  const std::string target = VectorTarget();
  if (weight == Dtype::kQ8_0) {
    return one ? KernelOf<Dtype::kQ8_0, true>(target) : KernelOf<Dtype::kQ8_0, false>(target);
  }
  return one ? KernelOf<Dtype::kQ4_0, true>(target) : KernelOf<Dtype::kQ4_0, false>(target);
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

bool X86TakesAnyRows() {
  return false;
}

BlockKernel X86BlockKernel(Dtype, bool) {
  return nullptr;
}

}  // namespace folio::cpu

#endif
