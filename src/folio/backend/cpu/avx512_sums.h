#pragma once

// For x86 sources that use AVX-512 themselves, beside Highway.

#include <immintrin.h>

namespace folio::cpu {

#define FOLIO_AVX512_INLINE __attribute__((target("avx512f"), always_inline)) inline

// The lower and upper halves of two vectors, added.
FOLIO_AVX512_INLINE __m512 AddHalves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

// The totals of four vectors of sixteen sums: those eight apart are added, then four, one and two.
FOLIO_AVX512_INLINE __m128 JoinSums(const __m512* sums) {
  const __m512 ab = AddHalves(sums[0], sums[1]), cd = AddHalves(sums[2], sums[3]);
  __m512 all =
      _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xB1));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4E));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all));
}

}  // namespace folio::cpu
