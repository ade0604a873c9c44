#include "folio/backend/cpu/linear_blocks_x86.h"

#if defined(__x86_64__)

// GCC 12 takes the undefined vectors of its own header for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <algorithm>
#include <cstring>
#include <string>

#include "folio/backend/cpu/avx512_sums.h"
#include "folio/backend/ops.h"
#include "folio/base/simd_targets.h"

namespace folio::cpu {
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

// ---- AVX-512 with VNNI -------------------------------------------------------------------------

// Two blocks as unsigned bytes: plus 128 or 8.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i TwoBlocks(const std::byte* block) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  if constexpr (dtype == Dtype::kQ8_0) {
    const auto* first = reinterpret_cast<const __m256i*>(block + kScaleBytes);
    const auto* second = reinterpret_cast<const __m256i*>(block + bytes + kScaleBytes);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(first)),
                                            _mm256_loadu_si256(second), 1);
    return _mm512_xor_si512(both, _mm512_set1_epi8(-128));
  } else {
    const auto* first = reinterpret_cast<const __m128i*>(block + kScaleBytes);
    const auto* second = reinterpret_cast<const __m128i*>(block + bytes + kScaleBytes);
    const __m512i pairs = _mm512_mask_broadcast_i32x4(
        _mm512_broadcast_i32x4(_mm_loadu_si128(first)), 0xFF00, _mm_loadu_si128(second));
    const __m512i halves = _mm512_srlv_epi64(pairs, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
    return _mm512_and_si512(halves, _mm512_set1_epi8(15));
  }
}

// Where the scales of two blocks go, that come first and last of a group's.
FOLIO_VNNI FOLIO_INLINE __m512i FirstScales() {
  return _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
}
FOLIO_VNNI FOLIO_INLINE __m512i LastScales() {
  return _mm512_add_epi32(FirstScales(), _mm512_set1_epi32(2));
}

// One row of x.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512 VnniGroup(const BlockedRows& x, const std::byte* group,
                                         int64_t block, __m512 sum) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const __m512i w0 = TwoBlocks<dtype>(group), w1 = TwoBlocks<dtype>(group + 2 * bytes);
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

// Part of some rows of a weight, unpacked once for all rows of x: they are multiplied by three of
// these at a time, so that the sums stay in registers.
constexpr int64_t kTileWeight = 4, kTileX = 3, kTileGroups = 16;
struct UnpackedTile {
  alignas(64) uint8_t numbers[kTileWeight][kTileGroups * kGroup * kBlock];
  alignas(64) float scales[kTileWeight][kTileGroups * kGroup];
};

template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void UnpackGroup(const std::byte* group, uint8_t* numbers, float* scales) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  _mm512_store_si512(numbers, TwoBlocks<dtype>(group));
  _mm512_store_si512(numbers + 2 * kBlock, TwoBlocks<dtype>(group + 2 * bytes));
  _mm_store_ps(scales, Scales<bytes>(group));
}

// `blocks` blocks of a row; what is missing of the last group is zero.
template <Dtype dtype>
FOLIO_VNNI void UnpackRow(const std::byte* row, int64_t blocks, uint8_t* numbers, float* scales) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t whole = blocks / kGroup * kGroup;
  for (int64_t b = 0; b < whole; b += kGroup) {
    UnpackGroup<dtype>(row + b * bytes, numbers + b * kBlock, scales + b);
  }
  if (whole < blocks) {
    const LastGroup<bytes> last(row + whole * bytes, blocks - whole);
    UnpackGroup<dtype>(last.bytes, numbers + whole * kBlock, scales + whole);
  }
}

// Memory that will be read soon, asked for while something is computed.
struct Ahead {
  const std::byte* at;
  int64_t lines;  // each time

  FOLIO_INLINE void Ask() {
    for (int64_t i = 0; i < lines; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// Rows n, n + 1... of x times a tile, from block `begin` of each row on; sums[kX][kTileWeight].
template <int kX>
FOLIO_VNNI void VnniTile(const BlockedRows& x, int64_t n, const UnpackedTile& w, int64_t begin,
                         int64_t groups, Ahead& ahead, __m512* all_sums) {
  const __m512i first = FirstScales(), last = LastScales();
  __m512 sums[kX][kTileWeight];
  for (int i = 0; i < kX; ++i) {
    for (int r = 0; r < kTileWeight; ++r) sums[i][r] = all_sums[i * kTileWeight + r];
  }
  for (int64_t g = 0; g < groups; ++g) {
    ahead.Ask();
    __m512i w0[kTileWeight], w1[kTileWeight];
    for (int r = 0; r < kTileWeight; ++r) {
      w0[r] = _mm512_load_si512(w.numbers[r] + g * kGroup * kBlock);
      w1[r] = _mm512_load_si512(w.numbers[r] + g * kGroup * kBlock + 2 * kBlock);
    }
    for (int i = 0; i < kX; ++i) {
      const int64_t at = (n + i) * x.stride + begin + g * kGroup;
      const __m512i x0 = _mm512_load_si512(x.numbers + at * kBlock);
      const __m512i x1 = _mm512_load_si512(x.numbers + (at + 2) * kBlock);
      const __m512i correction0 = _mm512_load_si512(x.corrections + at * kBlock / 4);
      const __m512i correction1 = _mm512_load_si512(x.corrections + (at + 2) * kBlock / 4);
      const __m128 x_scales = _mm_load_ps(x.scales + at);
      for (int r = 0; r < kTileWeight; ++r) {
        const __m512 scale =
            _mm512_castps128_ps512(_mm_mul_ps(_mm_load_ps(w.scales[r] + g * kGroup), x_scales));
        const __m512 dot0 = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(correction0, w0[r], x0));
        const __m512 dot1 = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(correction1, w1[r], x1));
        sums[i][r] = _mm512_fmadd_ps(_mm512_permutexvar_ps(first, scale), dot0, sums[i][r]);
        sums[i][r] = _mm512_fmadd_ps(_mm512_permutexvar_ps(last, scale), dot1, sums[i][r]);
      }
    }
  }
  for (int i = 0; i < kX; ++i) {
    for (int r = 0; r < kTileWeight; ++r) all_sums[i * kTileWeight + r] = sums[i][r];
  }
}

// Rows [begin, end) of x, at most kSomeRows, times up to kTileWeight rows of the weight.
constexpr int64_t kSomeRows = 64;
template <Dtype dtype>
FOLIO_VNNI void VnniTiles(const BlockedRows& x, int64_t begin, int64_t end, const std::byte* weight,
                          int64_t rows, float* out, int64_t stride) {
  constexpr int64_t bytes = kBlockBytes<dtype>, kBlocks = kTileGroups * kGroup;
  constexpr decltype(&VnniTile<1>) kTiles[] = {VnniTile<1>, VnniTile<2>, VnniTile<3>};
  const int64_t N = end - begin, tiles = (N + kTileX - 1) / kTileX;
  const int64_t row_bytes = x.blocks * bytes, all_groups = x.stride / kGroup;
  const int64_t lines = kTileWeight * row_bytes / 64;
  Ahead ahead{weight + kTileWeight * row_bytes, begin > 0 ? 0 : lines / (tiles * all_groups) + 1};
  __m512 sums[kSomeRows * kTileWeight];
  for (int64_t i = 0; i < N * kTileWeight; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t b = 0; b < x.blocks; b += kBlocks) {
    const int64_t blocks = std::min(kBlocks, x.blocks - b);
    UnpackedTile tile;
    for (int64_t r = 0; r < kTileWeight; ++r) {
      const std::byte* row = weight + std::min(r, rows - 1) * row_bytes;  // the last one again
      UnpackRow<dtype>(row + b * bytes, blocks, tile.numbers[r], tile.scales[r]);
    }
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first = t * N / tiles, count = (t + 1) * N / tiles - first;
      kTiles[count - 1](x, begin + first, tile, b, (blocks + kGroup - 1) / kGroup, ahead,
                        sums + first * kTileWeight);
    }
  }
  for (int64_t n = 0; n < N; ++n) {
    alignas(16) float totals[kTileWeight];
    _mm_store_ps(totals, JoinSums(sums + n * kTileWeight));
    std::copy_n(totals, rows, out + (begin + n) * stride);
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

// ---- AVX2 --------------------------------------------------------------------------------------

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

bool X86TakesAnyRows() {
  return false;
}

BlockKernel X86BlockKernel(Dtype, bool) {
  return nullptr;
}

}  // namespace folio::cpu

#endif
