#include "folio/backend/cpu/linear_rows.h"
#include "folio/base/check.h"
#include "folio/base/simd_targets.h"

#if defined(__x86_64__)

// GCC 12 warns about the undefined vectors of its own header (its bug 105593).
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

constexpr int64_t kPairs = 32;                  // numbers in a vector
constexpr int kRowsOfX = 4, kRowsOfWeight = 4;  // rows whose sums stay in registers

#define FOLIO_HALVES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define FOLIO_HALVES_INLINE FOLIO_HALVES __attribute__((always_inline)) inline

FOLIO_HALVES_INLINE __m512bh Load(const BF16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}
// The first numbers of a vector, padded with zeros; reads nothing beyond.
FOLIO_HALVES_INLINE __m512bh LoadFirst(const BF16* p, int64_t count) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, p));
}

// The lower and upper halves of two vectors, added.
FOLIO_HALVES_INLINE __m512 AddHalves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

// The totals of four vectors of sixteen sums: sums eight apart are added, then four, two and one.
FOLIO_HALVES_INLINE __m128 JoinSums(const __m512* sums) {
  const __m512 ab = AddHalves(sums[0], sums[1]), cd = AddHalves(sums[2], sums[3]);
  __m512 all =
      _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xB1));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4E));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all));
}

// Rows of the weight of a product, and the memory to prefetch.
struct WeightTile {
  const BF16* weight;
  int64_t I;
  const BF16* ahead;
};

// kX rows of x times kW rows of the weight. Prefetches kLines cache lines with each vector of each
// of its rows, sequentially.
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

// One row of x: memory is read sequentially, which is faster than several streams.
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

// All rows of x times four rows of the weight, or one. Meanwhile prefetches the tile after the
// next, a little with each group of rows: the hardware would hardly prefetch rows side by side, nor
// during computation.
void MultiplyTile(const HalfRows& x, WeightTile tile, bool whole, float* out, int64_t ldo) {
  const int64_t groups = (x.rows + kRowsOfX - 1) / kRowsOfX;
  const int64_t each = groups == 1 ? kRowsOfWeight : groups < kRowsOfWeight ? 2 : 1;
  int64_t lines = whole ? kRowsOfWeight : 0;  // left to prefetch, of each vector's width
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

// Bytes of 32 numbers, or of 256 in blocks of 256.
template <Dtype dtype>
constexpr int64_t kBlockBytes = 0;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ8_0> = 34;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ4_0> = 18;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ4_1> = 20;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ4_K> = 144;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ5_K> = 176;
template <>
constexpr int64_t kBlockBytes<Dtype::kQ6_K> = 210;

// True for blocks of 256, in which each of eight parts counts as a block here.
template <Dtype dtype>
constexpr bool kLong = dtype == Dtype::kQ4_K || dtype == Dtype::kQ5_K || dtype == Dtype::kQ6_K;
constexpr int64_t kParts = 8;
template <Dtype dtype>
constexpr bool kMinima = dtype == Dtype::kQ4_1 || dtype == Dtype::kQ4_K || dtype == Dtype::kQ5_K;
// True if each half of a block has a scale of its own.
template <Dtype dtype>
constexpr bool kHalves = dtype == Dtype::kQ6_K;

template <Dtype dtype>
constexpr int64_t kRowBytes(int64_t blocks) {
  return (kLong<dtype> ? blocks / kParts : blocks) * kBlockBytes<dtype>;
}

// A group of blocks of a row: the first one, and which part it is of its block of 256.
struct Group {
  const std::byte* at;
  int64_t part;
};
template <Dtype dtype>
FOLIO_INLINE Group GroupAt(const std::byte* row, int64_t block) {
  return {row + kRowBytes<dtype>(block), kLong<dtype> ? block % kParts : 0};
}

// Reads an aligned binary16 number.
FOLIO_INLINE short HalfAt(const std::byte* at) {
  return *reinterpret_cast<const short*>(at);
}
FOLIO_AVX2 FOLIO_INLINE __m128 HalfEverywhere(const std::byte* at) {
  return _mm_cvtph_ps(_mm_set1_epi16(HalfAt(at)));
}

// One number from each block of a group.
template <int64_t block_bytes>
FOLIO_AVX2 FOLIO_INLINE __m128 HalvesOf(const std::byte* group) {
  const auto at = [=](int64_t block) { return HalfAt(group + block * block_bytes); };
  return _mm_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), 0, 0, 0, 0));
}

// Four bytes, as numbers.
FOLIO_AVX2 FOLIO_INLINE __m128 FourBytes(uint32_t bytes) {
  return _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(static_cast<int>(bytes))));
}

// Four scales and four minima of six bits each: for parts 0 to 3, or 4 to 7.
struct SixBits {
  uint32_t scales, minima;
};
FOLIO_INLINE SixBits SixBitsOf(const std::byte* block, int64_t part) {
  constexpr uint32_t kLow = 0x0F0F0F0F, kHigh = 0x30303030, kAll = kLow | kHigh;
  uint32_t word[3];
  std::memcpy(word, block + 4, sizeof word);
  if (part < kParts / 2) return {word[0] & kAll, word[1] & kAll};
  return {(word[2] & kLow) | (word[0] >> 2 & kHigh),
          (word[2] >> 4 & kLow) | (word[1] >> 2 & kHigh)};
}

// The scales of a group's four blocks, or of their eight halves; minima are added.
struct GroupScales {
  __m256 scales;
  __m128 minima;
};
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE GroupScales ScalesOf(Group group) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  if constexpr (dtype == Dtype::kQ6_K) {
    const auto eight =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(group.at + 192 + 2 * group.part));
    const __m128 scale = HalfEverywhere(group.at + 208);
    return {_mm256_mul_ps(_mm256_set_m128(scale, scale),
                          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight))),
            _mm_setzero_ps()};
  } else if constexpr (kLong<dtype>) {
    const SixBits six = SixBitsOf(group.at, group.part);
    const __m128 scales = _mm_mul_ps(HalfEverywhere(group.at), FourBytes(six.scales));
    const __m128 minima = _mm_mul_ps(HalfEverywhere(group.at + 2), FourBytes(six.minima));
    return {_mm256_castps128_ps256(scales), _mm_xor_ps(minima, _mm_set1_ps(-0.0f))};
  } else if constexpr (kMinima<dtype>) {
    return {_mm256_castps128_ps256(HalvesOf<bytes>(group.at)), HalvesOf<bytes>(group.at + 2)};
  } else {
    return {_mm256_castps128_ps256(HalvesOf<bytes>(group.at)), _mm_setzero_ps()};
  }
}

// The same times the scales of as many blocks of x.
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256 TimesScales(__m256 scales, const float* x) {
  if constexpr (kHalves<dtype>) {
    const __m256 twice = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_load_ps(x)),
                                                  _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    return _mm256_mul_ps(scales, twice);
  } else {
    return _mm256_castps128_ps256(_mm_mul_ps(_mm256_castps256_ps128(scales), _mm_load_ps(x)));
  }
}

// The last blocks of a row, fewer than a group, padded with zeros.
template <int64_t block_bytes>
struct LastGroup {
  LastGroup(const std::byte* from, int64_t blocks) {
    std::memcpy(bytes, from, static_cast<size_t>(blocks * block_bytes));
  }
  alignas(2) std::byte bytes[kGroup * block_bytes] = {};
};

// ---- Blocks, by AVX-512 with VNNI --------------------------------------------------------------
// Integers are unsigned bytes here, larger by the amount that BlockedRows::corrections subtract.

FOLIO_AVX2 FOLIO_INLINE __m256i Load32(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
FOLIO_VNNI FOLIO_INLINE __m512i Load64(const std::byte* first, const std::byte* second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(Load32(first)), Load32(second), 1);
}

// Offset of a block's integers, or of their lower four bits.
template <Dtype dtype>
constexpr int64_t kIntegers = dtype == Dtype::kQ4_1   ? 4
                              : dtype == Dtype::kQ4_K ? 16
                              : dtype == Dtype::kQ5_K ? 48
                              : dtype == Dtype::kQ6_K ? 0
                                                      : kScaleBytes;

// Two blocks of 32.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i TwoShort(const std::byte* first, const std::byte* second) {
  first += kIntegers<dtype>, second += kIntegers<dtype>;
  if constexpr (dtype == Dtype::kQ8_0) {
    return _mm512_xor_si512(Load64(first, second), _mm512_set1_epi8(-128));
  } else {
    const auto low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const auto high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
    const __m512i pairs = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(low), 0xFF00, high);
    const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    return _mm512_and_si512(_mm512_srlv_epi64(pairs, shifts), _mm512_set1_epi8(15));
  }
}

// Two adjacent blocks of a group: the first two, or the last.
template <Dtype dtype, bool last>
FOLIO_VNNI FOLIO_INLINE __m512i TwoOfGroup(Group group) {
  constexpr int64_t first = last ? 2 : 0;
  if constexpr (!kLong<dtype>) {
    const std::byte* at = group.at + first * kBlockBytes<dtype>;
    return TwoShort<dtype>(at, at + kBlockBytes<dtype>);
  } else if constexpr (dtype == Dtype::kQ6_K) {
    const std::byte* low = group.at + group.part / 4 * 64;
    const __m512i nibbles = _mm512_srli_epi16(Load64(low, low + kBlock), last ? 4 : 0);
    const __m512i high = _mm512_broadcast_i64x4(Load32(group.at + 128 + group.part / 4 * kBlock));
    const __m512i shifted =
        last ? _mm512_srlv_epi64(high, _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2))
             : _mm512_sllv_epi64(high, _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2));
    return _mm512_or_si512(_mm512_and_si512(nibbles, _mm512_set1_epi8(15)),
                           _mm512_and_si512(shifted, _mm512_set1_epi8(0x30)));
  } else {
    const int64_t part = group.part + first;
    const __m512i both =
        _mm512_broadcast_i64x4(Load32(group.at + kIntegers<dtype> + part / 2 * kBlock));
    const __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
    __m512i w = _mm512_and_si512(_mm512_srlv_epi64(both, shifts), _mm512_set1_epi8(15));
    if constexpr (dtype == Dtype::kQ5_K) {
      const __m512i bits = _mm512_broadcast_i64x4(Load32(group.at + 16));
      const __m512i one = _mm512_inserti64x4(_mm512_set1_epi8(1), _mm256_set1_epi8(2), 1);
      const __m512i asked = _mm512_sll_epi16(one, _mm_cvtsi64_si128(part));
      w = _mm512_mask_add_epi8(w, _mm512_test_epi8_mask(bits, asked), w, _mm512_set1_epi8(16));
    }
    return w;
  }
}

// A block of each of two rows.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i TwoRows(const std::byte* first, const std::byte* second,
                                        int64_t block) {
  const int64_t part = block % kParts;
  first += kRowBytes<dtype>(block), second += kRowBytes<dtype>(block);
  if constexpr (!kLong<dtype>) {
    return TwoShort<dtype>(first, second);
  } else {
    const bool six = dtype == Dtype::kQ6_K;
    const int64_t at = kIntegers<dtype> + (six ? part / 4 * 2 + part % 2 : part / 2) * kBlock;
    const __m512i both = Load64(first + at, second + at);
    const __m128i shift = _mm_cvtsi64_si128(4 * (six ? part % 4 / 2 : part % 2));
    const __m512i low = _mm512_and_si512(_mm512_srl_epi16(both, shift), _mm512_set1_epi8(15));
    if constexpr (dtype == Dtype::kQ4_K) return low;
    const int64_t above = six ? 128 + part / 4 * kBlock : 16;
    const __m512i bits = _mm512_srl_epi16(Load64(first + above, second + above),
                                          _mm_cvtsi64_si128(six ? part % 4 * 2 : part));
    const __m512i high = _mm512_and_si512(bits, _mm512_set1_epi8(six ? 3 : 1));
    return _mm512_or_si512(low, _mm512_slli_epi16(high, 4));
  }
}

// For the sums of the first and the last two blocks of a group, the indices of their scales.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i FirstScales() {
  if constexpr (kHalves<dtype>) {
    return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  } else {
    return _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  }
}
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512i LastScales() {
  return _mm512_add_epi32(FirstScales<dtype>(), _mm512_set1_epi32(kHalves<dtype> ? 4 : 2));
}

// The sums of one result: of products by fours, and of minima.
struct VnniSums {
  __m512 fours;
  __m128 minima;
};

// from + w (128 high + low), by fours.
FOLIO_VNNI FOLIO_INLINE __m512i VnniDot(__m512i from, __m512i w, __m512i high, __m512i low) {
  const __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, high);
  return _mm512_add_epi32(_mm512_slli_epi32(upper, 7), _mm512_dpbusd_epi32(from, w, low));
}

// Adds the products of one group of blocks, for one row of x.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void VnniGroup(const BlockedRows& x, Group group, int64_t block,
                                       VnniSums& sums) {
  const __m512i w0 = TwoOfGroup<dtype, false>(group), w1 = TwoOfGroup<dtype, true>(group);
  const GroupScales scales = ScalesOf<dtype>(group);
  const int8_t *high = x.high + block * kBlock, *low = x.low + block * kBlock;
  const int32_t* corrections = x.corrections + block * kBlock / 4;
  const __m512 scale = _mm512_castps256_ps512(TimesScales<dtype>(scales.scales, x.scales + block));
  const auto dot = [=](__m512i w, int64_t half) FOLIO_VNNI {
    const __m512i from =
        kMinima<dtype> ? _mm512_setzero_si512() : _mm512_load_si512(corrections + half * 16);
    return _mm512_cvtepi32_ps(VnniDot(from, w, _mm512_load_si512(high + half * 2 * kBlock),
                                      _mm512_load_si512(low + half * 2 * kBlock)));
  };
  sums.fours =
      _mm512_fmadd_ps(_mm512_permutexvar_ps(FirstScales<dtype>(), scale), dot(w0, 0), sums.fours);
  sums.fours =
      _mm512_fmadd_ps(_mm512_permutexvar_ps(LastScales<dtype>(), scale), dot(w1, 1), sums.fours);
  if constexpr (kMinima<dtype>) {
    sums.minima = _mm_fmadd_ps(scales.minima, _mm_load_ps(x.sums + block), sums.minima);
  }
}

// Joins eight sums.
FOLIO_AVX2 FOLIO_INLINE float Total(__m256 sums) {
  const __m128 fours = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
  const __m128 pairs = _mm_hadd_ps(fours, fours);
  return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
}

FOLIO_AVX2 FOLIO_INLINE float TotalOfFour(__m128 sums) {
  const __m128 pairs = _mm_hadd_ps(sums, sums);
  return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
}

template <Dtype dtype>
FOLIO_VNNI void VnniRow(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                        int64_t) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t whole = x.blocks / kGroup * kGroup;
  for (int64_t r = 0; r < rows; ++r, weight += kRowBytes<dtype>(x.blocks)) {
    VnniSums sums{_mm512_setzero_ps(), _mm_setzero_ps()};
    for (int64_t b = 0; b < whole; b += kGroup) {
      VnniGroup<dtype>(x, GroupAt<dtype>(weight, b), b, sums);
    }
    if (!kLong<dtype> && whole < x.blocks) {
      const LastGroup<bytes> last(weight + whole * bytes, x.blocks - whole);
      VnniGroup<dtype>(x, {last.bytes, 0}, whole, sums);
    }
    out[r] = Total(
        _mm256_add_ps(_mm512_castps512_ps256(sums.fours), _mm512_extractf32x8_ps(sums.fours, 1)));
    if constexpr (kMinima<dtype>) out[r] += TotalOfFour(sums.minima);
  }
}

// Part of sixteen rows of a weight, unpacked once for all rows of x: block by block, with four
// numbers of each row side by side, so that a vector's sums belong to sixteen results and the
// product of scales serves a whole block.
constexpr int64_t kTileWeight = 16, kFours = kBlock / 4, kTileBlocks = 32;
struct UnpackedTile {
  alignas(64) uint8_t numbers[kTileBlocks][kFours][kTileWeight][4];
  alignas(64) float scales[kTileBlocks][2][kTileWeight];  // of half blocks, if these have their own
  alignas(64) float minima[kTileBlocks][kTileWeight];     // if there are any
};

// Transposes each half of eight vectors as a matrix of eight by eight.
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

FOLIO_VNNI FOLIO_INLINE __m512 Widened(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves)));
}
// Byte i of each word, as a signed number.
FOLIO_VNNI FOLIO_INLINE __m512 ByteOf(const uint32_t* words, int i) {
  const __m512i high = _mm512_sllv_epi32(_mm512_load_si512(words), _mm512_set1_epi32(24 - 8 * i));
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(high, 24));
}

// Scales and minima of a block in each of the rows that begin there.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void UnpackShortScales(const std::byte* const* rows, int64_t block,
                                               int64_t to, UnpackedTile& tile) {
  alignas(32) uint16_t halves[2][kTileWeight];
  for (int r = 0; r < kTileWeight; ++r) {
    const std::byte* at = rows[r] + kRowBytes<dtype>(block);
    std::memcpy(halves[0] + r, at, kScaleBytes);
    if (kMinima<dtype>) std::memcpy(halves[1] + r, at + kScaleBytes, kScaleBytes);
  }
  _mm512_store_ps(tile.scales[to][0], Widened(halves[0]));
  if constexpr (kMinima<dtype>) _mm512_store_ps(tile.minima[to], Widened(halves[1]));
}

// The same for a group of parts of blocks of 256.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void UnpackLongScales(const std::byte* const* rows, int64_t block,
                                              int64_t to, UnpackedTile& tile) {
  alignas(32) uint16_t halves[2][kTileWeight];
  alignas(64) uint32_t words[2][kTileWeight];
  for (int r = 0; r < kTileWeight; ++r) {
    const auto [at, part] = GroupAt<dtype>(rows[r], block);
    if constexpr (kHalves<dtype>) {
      std::memcpy(halves[0] + r, at + 208, kScaleBytes);
      for (int i = 0; i < 2; ++i) std::memcpy(words[i] + r, at + 192 + 2 * part + 4 * i, 4);
    } else {
      for (int i = 0; i < 2; ++i) std::memcpy(halves[i] + r, at + i * kScaleBytes, kScaleBytes);
      const SixBits six = SixBitsOf(at, part);
      words[0][r] = six.scales, words[1][r] = six.minima;
    }
  }
  const __m512 scale = Widened(halves[0]);
  for (int i = 0; i < kGroup; ++i) {
    if constexpr (kHalves<dtype>) {
      for (int half = 0; half < 2; ++half) {
        _mm512_store_ps(tile.scales[to + i][half],
                        _mm512_mul_ps(scale, ByteOf(words[i / 2], i % 2 * 2 + half)));
      }
    } else {
      const __m512 minima = _mm512_mul_ps(Widened(halves[1]), ByteOf(words[1], i));
      _mm512_store_ps(tile.scales[to + i][0], _mm512_mul_ps(scale, ByteOf(words[0], i)));
      _mm512_store_ps(tile.minima[to + i], _mm512_xor_ps(minima, _mm512_set1_ps(-0.0f)));
    }
  }
}

template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void UnpackBlock(const std::byte* const* rows, int64_t block, int64_t to,
                                         UnpackedTile& tile) {
  __m512i v[kFours];
  for (int r = 0; r < kFours; ++r) v[r] = TwoRows<dtype>(rows[r], rows[r + 8], block);
  TurnHalves(v);
  uint8_t* numbers = &tile.numbers[to][0][0][0];
  for (int i = 0; i < kFours; ++i) _mm512_store_si512(numbers + i * 64, v[i]);
  if constexpr (!kLong<dtype>) {
    UnpackShortScales<dtype>(rows, block, to, tile);
  } else if (block % kGroup == 0) {
    UnpackLongScales<dtype>(rows, block, to, tile);
  }
}

// Memory to prefetch during a computation.
struct Ahead {
  const std::byte* at;
  int64_t lines;  // per call

  FOLIO_INLINE void Ask() {
    for (int64_t i = 0; i < lines; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// The sums of sixteen results for one row of x: by fours in every second block, and then, for types
// with minima, of these in every fourth.
template <Dtype dtype>
constexpr int64_t kSums = 2 * kFours + (kMinima<dtype> ? kGroup : 0);

// Rows n, n + 1... of x times a tile, from block `begin` of each row on: all_sums[kX][kSums].
template <Dtype dtype, int kX>
FOLIO_VNNI void VnniTile(const BlockedRows& x, int64_t n, const UnpackedTile& w, int64_t begin,
                         int64_t blocks, Ahead& ahead, __m512* all_sums) {
  for (int64_t parity = 0; parity < 2; ++parity) {
    __m512 sums[kX][kFours];
    for (int i = 0; i < kX; ++i) {
      for (int j = 0; j < kFours; ++j) {
        sums[i][j] = all_sums[i * kSums<dtype> + parity * kFours + j];
      }
    }
    for (int64_t b = parity; b < blocks; b += 2) {
      ahead.Ask();
      const __m512 w_scales = _mm512_load_ps(w.scales[b][0]);
      const __m512 w_seconds = kHalves<dtype> ? _mm512_load_ps(w.scales[b][1]) : w_scales;
      for (int i = 0; i < kX; ++i) {
        const int64_t at = (n + i) * x.stride + begin + b;
        const __m512 scale = _mm512_mul_ps(w_scales, _mm512_set1_ps(x.scales[at]));
        const __m512 second =
            kHalves<dtype> ? _mm512_mul_ps(w_seconds, _mm512_set1_ps(x.scales[at])) : scale;
        const int32_t* corrections = x.corrections + at * kFours;
        const auto* high = reinterpret_cast<const int32_t*>(x.high + at * kBlock);
        const auto* low = reinterpret_cast<const int32_t*>(x.low + at * kBlock);
        for (int j = 0; j < kFours; ++j) {
          const __m512i from =
              kMinima<dtype> ? _mm512_setzero_si512() : _mm512_set1_epi32(corrections[j]);
          const __m512i dot = VnniDot(from, _mm512_load_si512(w.numbers[b][j]),
                                      _mm512_set1_epi32(high[j]), _mm512_set1_epi32(low[j]));
          sums[i][j] =
              _mm512_fmadd_ps(j < kFours / 2 ? scale : second, _mm512_cvtepi32_ps(dot), sums[i][j]);
        }
      }
    }
    for (int i = 0; i < kX; ++i) {
      for (int j = 0; j < kFours; ++j) {
        all_sums[i * kSums<dtype> + parity * kFours + j] = sums[i][j];
      }
    }
  }
  for (int64_t b = 0; kMinima<dtype> && b < blocks; ++b) {
    const __m512 minima = _mm512_load_ps(w.minima[b]);
    for (int i = 0; i < kX; ++i) {
      __m512& sum = all_sums[i * kSums<dtype> + 2 * kFours + b % kGroup];
      sum = _mm512_fmadd_ps(minima, _mm512_set1_ps(x.sums[(n + i) * x.stride + begin + b]), sum);
    }
  }
}

// Joins the sums of sixteen results, in the same order as Total and TotalOfFour.
template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE __m512 Totals(const __m512* sums) {
  __m512 fours[4];
  for (int i = 0; i < 4; ++i) {
    fours[i] = _mm512_add_ps(_mm512_add_ps(sums[i], sums[kFours + i]),
                             _mm512_add_ps(sums[i + 4], sums[kFours + i + 4]));
  }
  const __m512 total =
      _mm512_add_ps(_mm512_add_ps(fours[0], fours[1]), _mm512_add_ps(fours[2], fours[3]));
  if constexpr (!kMinima<dtype>) return total;
  const __m512* minima = sums + 2 * kFours;
  return _mm512_add_ps(total, _mm512_add_ps(_mm512_add_ps(minima[0], minima[1]),
                                            _mm512_add_ps(minima[2], minima[3])));
}

// Rows [begin, end) of x, at most kSomeRows, times up to kTileWeight rows of the weight.
constexpr int64_t kSomeRows = 32;
template <Dtype dtype>
FOLIO_VNNI void VnniTiles(const BlockedRows& x, int64_t begin, int64_t end, const std::byte* weight,
                          int64_t rows, float* out, int64_t stride) {
  const int64_t N = end - begin, row_bytes = kRowBytes<dtype>(x.blocks);
  const int64_t lines = kTileWeight * row_bytes / 64, times = (N + 1) / 2 * x.blocks;
  Ahead ahead{weight + kTileWeight * row_bytes, begin > 0 ? 0 : lines / times + 1};
  const std::byte* starts[kTileWeight];
  for (int64_t r = 0; r < kTileWeight; ++r) {
    starts[r] = weight + std::min(r, rows - 1) * row_bytes;  // repeats the last row
  }
  const auto there = static_cast<__mmask16>((1u << rows) - 1);
  // Beyond the first ones only if a row takes several tiles.
  __m512 all_sums[kSomeRows * kSums<dtype>];
  for (int64_t b = 0; b < x.blocks; b += kTileBlocks) {
    const int64_t blocks = std::min(kTileBlocks, x.blocks - b);
    UnpackedTile tile;
    for (int64_t i = 0; i < blocks; ++i) UnpackBlock<dtype>(starts, b + i, i, tile);
    for (int64_t n = 0; n < N; n += 2) {
      const int64_t count = std::min<int64_t>(2, N - n);
      __m512* sums = all_sums + (blocks < x.blocks ? n * kSums<dtype> : 0);
      for (int64_t i = 0; b == 0 && i < count * kSums<dtype>; ++i) sums[i] = _mm512_setzero_ps();
      const auto multiply = count == 2 ? VnniTile<dtype, 2> : VnniTile<dtype, 1>;
      multiply(x, begin + n, tile, b, blocks, ahead, sums);
      for (int64_t i = 0; b + blocks == x.blocks && i < count; ++i) {
        _mm512_mask_storeu_ps(out + (begin + n + i) * stride, there,
                              Totals<dtype>(sums + i * kSums<dtype>));
      }
    }
  }
}

template <Dtype dtype>
void VnniRows(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
              int64_t stride) {
  const int64_t row_bytes = kRowBytes<dtype>(x.blocks);
  for (int64_t r = 0; r < rows; r += kTileWeight) {
    for (int64_t n = 0; n < x.rows; n += kSomeRows) {
      VnniTiles<dtype>(x, n, std::min(n + kSomeRows, x.rows), weight + r * row_bytes,
                       std::min(kTileWeight, rows - r), out + r, stride);
    }
  }
}

// ---- Blocks, by AVX2
// --------------------------------------------------------------------------------------

// Block i of a group, and its products with 32 numbers of x: eight sums of four products.
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256i OneBlock(Group group, int64_t i) {
  const __m256i four_bits = _mm256_set1_epi8(15);
  if constexpr (!kLong<dtype>) {
    const std::byte* at = group.at + i * kBlockBytes<dtype> + kIntegers<dtype>;
    if constexpr (dtype == Dtype::kQ8_0) return Load32(at);
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs), four_bits);
  } else if constexpr (dtype == Dtype::kQ6_K) {
    const std::byte* low = group.at + group.part / 4 * 64 + i % 2 * kBlock;
    const __m256i high = Load32(group.at + 128 + group.part / 4 * kBlock);
    const __m256i nibbles = _mm256_srl_epi16(Load32(low), _mm_cvtsi64_si128(i / 2 * 4));
    const __m256i two =
        _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi64_si128(i * 2)), _mm256_set1_epi8(3));
    return _mm256_or_si256(_mm256_and_si256(nibbles, four_bits), _mm256_slli_epi16(two, 4));
  } else {
    const int64_t part = group.part + i;
    const __m256i both = Load32(group.at + kIntegers<dtype> + part / 2 * kBlock);
    const __m256i low =
        _mm256_and_si256(_mm256_srl_epi16(both, _mm_cvtsi64_si128(i % 2 * 4)), four_bits);
    if constexpr (dtype == Dtype::kQ4_K) return low;
    const __m256i one = _mm256_and_si256(
        _mm256_srl_epi16(Load32(group.at + 16), _mm_cvtsi64_si128(part)), _mm256_set1_epi8(1));
    return _mm256_or_si256(low, _mm256_slli_epi16(one, 4));
  }
}
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256i BytesDot(__m256i w, const int8_t* bytes) {
  const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
  // The sum of two products is at most 2 * 128 * 64, which fits 16 bits.
  const __m256i pairs = dtype == Dtype::kQ8_0
                            ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                            : _mm256_maddubs_epi16(w, x);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE __m256i Dots(__m256i w, const BlockedRows& x, int64_t block) {
  const __m256i upper = _mm256_slli_epi32(BytesDot<dtype>(w, x.high + block * kBlock), 7);
  const __m256i dots = _mm256_add_epi32(upper, BytesDot<dtype>(w, x.low + block * kBlock));
  if constexpr (dtype == Dtype::kQ8_0 || kMinima<dtype>) return dots;
  const auto* corrections = reinterpret_cast<const __m256i*>(x.corrections + block * kBlock / 4);
  return _mm256_add_epi32(_mm256_load_si256(corrections), dots);
}

// The sums of one result: by fours in every second block, and of minima.
struct Avx2Sums {
  __m256 fours[2];
  __m128 minima;
};

template <Dtype dtype>
FOLIO_AVX2 FOLIO_INLINE void Avx2Group(const BlockedRows& x, int64_t N, Group group, int64_t block,
                                       Avx2Sums* sums) {
  const GroupScales scales = ScalesOf<dtype>(group);
  for (int64_t i = 0; i < kGroup; ++i) {
    const __m256i w = OneBlock<dtype>(group, i);
    for (int64_t n = 0; n < N; ++n) {
      const int64_t at = n * x.stride + block;
      const __m256 products = TimesScales<dtype>(scales.scales, x.scales + at);
      const int first = static_cast<int>(kHalves<dtype> ? 2 * i : i);
      const int second = first + (kHalves<dtype> ? 1 : 0);
      const __m256 scale = _mm256_permutevar8x32_ps(
          products, _mm256_setr_epi32(first, first, first, first, second, second, second, second));
      const __m256i dots = Dots<dtype>(w, x, at + i);
      __m256& sum = sums[n].fours[i % 2];
      sum = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dots), sum);
    }
  }
  for (int64_t n = 0; kMinima<dtype> && n < N; ++n) {
    const __m128 x_sums = _mm_load_ps(x.sums + n * x.stride + block);
    sums[n].minima = _mm_fmadd_ps(scales.minima, x_sums, sums[n].minima);
  }
}

template <Dtype dtype, bool one>
FOLIO_AVX2 void Avx2Rows(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                         int64_t stride) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t N = one ? 1 : x.rows, whole = x.blocks / kGroup * kGroup;
  for (int64_t r = 0; r < rows; ++r, weight += kRowBytes<dtype>(x.blocks)) {
    Avx2Sums sums[one ? 1 : LinearForward::kFewRows];
    for (int64_t n = 0; n < N; ++n) {
      sums[n] = {{_mm256_setzero_ps(), _mm256_setzero_ps()}, _mm_setzero_ps()};
    }
    for (int64_t b = 0; b < whole; b += kGroup) {
      Avx2Group<dtype>(x, N, GroupAt<dtype>(weight, b), b, sums);
    }
    if (!kLong<dtype> && whole < x.blocks) {
      const LastGroup<bytes> last(weight + whole * bytes, x.blocks - whole);
      Avx2Group<dtype>(x, N, {last.bytes, 0}, whole, sums);
    }
    for (int64_t n = 0; n < N; ++n) {
      float& to = out[n * stride + r];
      to = Total(_mm256_add_ps(sums[n].fours[0], sums[n].fours[1]));
      if constexpr (kMinima<dtype>) to += TotalOfFour(sums[n].minima);
    }
  }
}

bool HasVnni(const std::string& target) {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
  return has && target == "AVX3";
}

template <Dtype dtype>
BlockKernel KernelOf(const std::string& target, bool one) {
  if (HasVnni(target)) return one ? VnniRow<dtype> : VnniRows<dtype>;
  if (target != "AVX3" && target != "AVX2") return nullptr;
  return one ? Avx2Rows<dtype, true> : Avx2Rows<dtype, false>;
}

}  // namespace

bool X86TakesAnyRows() {
  return HasVnni(VectorTarget());
}

BlockKernel X86BlockKernel(Dtype weight, bool one) {
  return ForBlockDtype(weight, [target = VectorTarget(), one]<Dtype dtype>(DtypeIs<dtype>) {
    return KernelOf<dtype>(target, one);
  });
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
