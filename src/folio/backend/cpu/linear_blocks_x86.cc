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

// The scales of four blocks.
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

// One row of the weight after the other, so that memory is read in its own order, times all rows of
// x, four blocks at a time; where fewer are left, the last one stands for them, times nothing.
#define FOLIO_BLOCK_KERNEL(NAME, TARGET)                                                        \
  template <class Set, int64_t block_bytes>                                                     \
  TARGET void NAME(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,     \
                   int64_t stride) {                                                            \
    constexpr int64_t kBlock = BlockedRows::kBlock, kSums = BlockedRows::kSums;                 \
    for (int64_t r = 0; r < rows; ++r, weight += x.blocks * block_bytes) {                      \
      __m128 sums[LinearForward::kFewRows];                                                     \
      for (int64_t n = 0; n < x.rows; ++n) sums[n] = _mm_setzero_ps();                          \
      for (int64_t b = 0; b < x.blocks; b += kSums) {                                           \
        int64_t at[kSums];                                                                      \
        const std::byte* w[kSums];                                                              \
        for (int64_t i = 0; i < kSums; ++i) {                                                   \
          at[i] = std::min(b + i, x.blocks - 1);                                                \
          w[i] = weight + at[i] * block_bytes;                                                  \
        }                                                                                       \
        const __m256i w0 = Set::Load(w[0]), w1 = Set::Load(w[1]), w2 = Set::Load(w[2]),         \
                      w3 = Set::Load(w[3]);                                                     \
        const __m128 scales = Scales(w);                                                        \
        const auto dot = [&x](__m256i v, int64_t block) __attribute__((always_inline)) TARGET { \
          const auto* numbers = reinterpret_cast<const __m256i*>(x.numbers + block * kBlock);   \
          const auto* correction =                                                              \
              reinterpret_cast<const __m256i*>(x.corrections + block * kBlock / 4);             \
          return Set::Dot(v, _mm256_load_si256(numbers), _mm256_load_si256(correction));        \
        };                                                                                      \
        for (int64_t n = 0; n < x.rows; ++n) {                                                  \
          const int64_t first = n * x.blocks;                                                   \
          const __m128i dots = Sums(dot(w0, first + at[0]), dot(w1, first + at[1]),             \
                                    dot(w2, first + at[2]), dot(w3, first + at[3]));            \
          const __m128 there = _mm_loadu_ps(x.scales + n * x.scale_stride + b);                 \
          sums[n] = _mm_fmadd_ps(_mm_mul_ps(scales, there), _mm_cvtepi32_ps(dots), sums[n]);    \
        }                                                                                       \
      }                                                                                         \
      for (int64_t n = 0; n < x.rows; ++n) {                                                    \
        const __m128 pairs = _mm_hadd_ps(sums[n], sums[n]);                                     \
        out[n * stride + r] = _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));                         \
      }                                                                                         \
    }                                                                                           \
  }

FOLIO_BLOCK_KERNEL(VnniRows, FOLIO_VNNI)
FOLIO_BLOCK_KERNEL(Avx2Rows, FOLIO_AVX2)

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
