#include "folio/backend/cpu/linear_blocks_x86.h"

#if defined(__x86_64__)

// GCC 12 takes the undefined vectors of its own header for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstring>
#include <string>

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

template <Dtype dtype>
FOLIO_VNNI FOLIO_INLINE void VnniGroup(const BlockedRows& x, int64_t N, const std::byte* group,
                                       int64_t block, __m512* sums) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const __m512i w0 = TwoBlocks<dtype>(group), w1 = TwoBlocks<dtype>(group + 2 * bytes);
  const __m128 scales = Scales<bytes>(group);
  const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  for (int64_t n = 0; n < N; ++n) {
    const int64_t at = n * x.stride + block;
    const int8_t* numbers = x.numbers + at * kBlock;
    const int32_t* corrections = x.corrections + at * kBlock / 4;
    const __m512 scale = _mm512_castps128_ps512(_mm_mul_ps(scales, _mm_load_ps(x.scales + at)));
    const __m512i dot0 =
        _mm512_dpbusd_epi32(_mm512_load_si512(corrections), w0, _mm512_load_si512(numbers));
    const __m512i dot1 = _mm512_dpbusd_epi32(_mm512_load_si512(corrections + 16), w1,
                                             _mm512_load_si512(numbers + 2 * kBlock));
    sums[n] =
        _mm512_fmadd_ps(_mm512_permutexvar_ps(first, scale), _mm512_cvtepi32_ps(dot0), sums[n]);
    sums[n] =
        _mm512_fmadd_ps(_mm512_permutexvar_ps(second, scale), _mm512_cvtepi32_ps(dot1), sums[n]);
  }
}

// Joins eight sums.
FOLIO_AVX2 FOLIO_INLINE float Total(__m256 sums) {
  const __m128 fours = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
  const __m128 pairs = _mm_hadd_ps(fours, fours);
  return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
}

template <Dtype dtype, bool one>
FOLIO_VNNI void VnniRows(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                         int64_t stride) {
  constexpr int64_t bytes = kBlockBytes<dtype>;
  const int64_t N = one ? 1 : x.rows, whole = x.blocks / kGroup * kGroup;
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks * bytes) {
    __m512 sums[one ? 1 : LinearForward::kFewRows];
    for (int64_t n = 0; n < N; ++n) sums[n] = _mm512_setzero_ps();
    for (int64_t b = 0; b < whole; b += kGroup) VnniGroup<dtype>(x, N, weight + b * bytes, b, sums);
    if (whole < x.blocks) {
      const LastGroup<bytes> last(weight + whole * bytes, x.blocks - whole);
      VnniGroup<dtype>(x, N, last.bytes, whole, sums);
    }
    for (int64_t n = 0; n < N; ++n) {
      out[n * stride + r] =
          Total(_mm256_add_ps(_mm512_castps512_ps256(sums[n]), _mm512_extractf32x8_ps(sums[n], 1)));
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

bool HasVnni() {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
  return has;
}

template <Dtype dtype, bool one>
BlockKernel KernelOf(const std::string& target) {
  if (target == "AVX3" && HasVnni()) return VnniRows<dtype, one>;
  return target == "AVX3" || target == "AVX2" ? Avx2Rows<dtype, one> : nullptr;
}

}  // namespace

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

BlockKernel X86BlockKernel(Dtype, bool) {
  return nullptr;
}

}  // namespace folio::cpu

#endif
