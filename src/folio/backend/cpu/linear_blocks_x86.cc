#include "folio/backend/cpu/linear_blocks_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

#include "folio/backend/ops.h"
#include "folio/base/simd_targets.h"

namespace folio::cpu {
namespace {

constexpr int64_t kRows = 4;  // of the weight that go together

#define FOLIO_AVX2 __attribute__((target("avx2,fma,f16c")))
#define FOLIO_VNNI __attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512vnni")))
#define FOLIO_INLINE __attribute__((always_inline)) inline

// The integers of a block of Q4_0 as 0 to 15.
FOLIO_AVX2 FOLIO_INLINE __m256i Nibbles(const std::byte* block) {
  const __m128i pairs =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + BlockedRows::kScaleBytes));
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
FOLIO_AVX2 FOLIO_INLINE __m256i Bytes(const std::byte* block) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + BlockedRows::kScaleBytes));
}

FOLIO_AVX2 FOLIO_INLINE __m128 Scales(const std::byte* const* blocks) {
  const auto at = [](const std::byte* block) {
    return *reinterpret_cast<const short*>(block);  // aligned, as blocks are
  };
  return _mm_cvtph_ps(
      _mm_setr_epi16(at(blocks[0]), at(blocks[1]), at(blocks[2]), at(blocks[3]), 0, 0, 0, 0));
}

// The sums of four vectors.
FOLIO_AVX2 FOLIO_INLINE __m128i Sums(__m256i a, __m256i b, __m256i c, __m256i e) {
  const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, e));
  return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

// What an instruction set has for a dtype: how a block becomes a vector, and what that and a block
// of x make: eight partial sums.
struct Vnni8 {
  FOLIO_VNNI static FOLIO_INLINE __m256i Load(const std::byte* block) {
    return _mm256_xor_si256(Bytes(block), _mm256_set1_epi8(-128));  // plus 128, unsigned
  }
  FOLIO_VNNI static FOLIO_INLINE __m256i Dot(__m256i w, __m256i x, __m256i correction) {
    return _mm256_dpbusd_epi32(correction, w, x);
  }
};
struct Vnni4 {
  FOLIO_VNNI static FOLIO_INLINE __m256i Load(const std::byte* block) { return Nibbles(block); }
  FOLIO_VNNI static FOLIO_INLINE __m256i Dot(__m256i w, __m256i x, __m256i correction) {
    return _mm256_dpbusd_epi32(correction, w, x);
  }
};
// Two products add up to 2 * 128 * 127 at most, which 16 bits hold.
struct Avx2Q8 {
  FOLIO_AVX2 static FOLIO_INLINE __m256i Load(const std::byte* block) { return Bytes(block); }
  FOLIO_AVX2 static FOLIO_INLINE __m256i Dot(__m256i w, __m256i x, __m256i) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};
struct Avx2Q4 {
  FOLIO_AVX2 static FOLIO_INLINE __m256i Load(const std::byte* block) { return Nibbles(block); }
  FOLIO_AVX2 static FOLIO_INLINE __m256i Dot(__m256i w, __m256i x, __m256i correction) {
    const __m256i pairs = _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(correction, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

// Four rows of the weight, the last ones perhaps the same, times all rows of x: results of `rows`.
#define FOLIO_FOUR_ROWS(NAME, TARGET)                                                             \
  template <class Set, int64_t block_bytes>                                                       \
  TARGET void NAME(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,       \
                   int64_t stride) {                                                              \
    const int64_t row_bytes = x.blocks * block_bytes;                                             \
    for (int64_t r = 0; r < rows; r += kRows) {                                                   \
      const std::byte* at[kRows];                                                                 \
      for (int64_t i = 0; i < kRows; ++i) at[i] = weight + std::min(r + i, rows - 1) * row_bytes; \
      __m128 sums[LinearForward::kFewRows];                                                       \
      for (int64_t n = 0; n < x.rows; ++n) sums[n] = _mm_setzero_ps();                            \
      for (int64_t b = 0; b < x.blocks; ++b) {                                                    \
        const __m256i w0 = Set::Load(at[0]), w1 = Set::Load(at[1]), w2 = Set::Load(at[2]),        \
                      w3 = Set::Load(at[3]);                                                      \
        const __m128 scales = Scales(at);                                                         \
        for (int64_t n = 0; n < x.rows; ++n) {                                                    \
          const int64_t block = n * x.blocks + b;                                                 \
          const __m256i v = _mm256_load_si256(                                                    \
              reinterpret_cast<const __m256i*>(x.numbers + block * BlockedRows::kBlock));         \
          const __m256i c = _mm256_load_si256(                                                    \
              reinterpret_cast<const __m256i*>(x.corrections + block * BlockedRows::kBlock / 4)); \
          const __m128i dots = Sums(Set::Dot(w0, v, c), Set::Dot(w1, v, c), Set::Dot(w2, v, c),   \
                                    Set::Dot(w3, v, c));                                          \
          const __m128 scale = _mm_mul_ps(scales, _mm_set1_ps(x.scales[block]));                  \
          sums[n] = _mm_fmadd_ps(scale, _mm_cvtepi32_ps(dots), sums[n]);                          \
        }                                                                                         \
        for (int64_t i = 0; i < kRows; ++i) {                                                     \
          __builtin_prefetch(at[i] + kRows * row_bytes);                                          \
          at[i] += block_bytes;                                                                   \
        }                                                                                         \
      }                                                                                           \
      for (int64_t n = 0; n < x.rows; ++n) {                                                      \
        alignas(16) float results[kRows];                                                         \
        _mm_store_ps(results, sums[n]);                                                           \
        std::copy_n(results, std::min(kRows, rows - r), out + n * stride + r);                    \
      }                                                                                           \
    }                                                                                             \
  }

FOLIO_FOUR_ROWS(VnniRows, FOLIO_VNNI)
FOLIO_FOUR_ROWS(Avx2Rows, FOLIO_AVX2)

bool HasVnni() {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
  return has;
}

}  // namespace

BlockKernel X86BlockKernel(Dtype weight) {
  constexpr int64_t kQ8Bytes = BlockedRows::kScaleBytes + BlockedRows::kBlock,
                    kQ4Bytes = BlockedRows::kScaleBytes + BlockedRows::kBlock / 2;
  const std::string target = VectorTarget();
  if (target == "AVX3" && HasVnni()) {
    return weight == Dtype::kQ8_0 ? VnniRows<Vnni8, kQ8Bytes> : VnniRows<Vnni4, kQ4Bytes>;
  }
  if (target == "AVX3" || target == "AVX2") {
    return weight == Dtype::kQ8_0 ? Avx2Rows<Avx2Q8, kQ8Bytes> : Avx2Rows<Avx2Q4, kQ4Bytes>;
  }
  return nullptr;
}

}  // namespace folio::cpu

#else

namespace folio::cpu {

BlockKernel X86BlockKernel(Dtype) {
  return nullptr;
}

}  // namespace folio::cpu

#endif
