#include "folio/backend/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/attention_rows.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float SoftmaxKernel(float* scores, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  const float largest =
      MaxLane(d, Fold(d, n, hn::Set(d, -kInfinity), max, max, static_cast<const float*>(scores)));
  if (largest == -kInfinity) {
    // Max may lose a NaN, and what stood beside it; the row must not lose it.
    const bool none = std::all_of(scores, scores + n, [](float x) { return x == -kInfinity; });
    std::fill_n(scores, n, none ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    return none ? largest : std::numeric_limits<float>::quiet_NaN();
  }
  const auto shift = hn::Set(d, largest);
  Map(
      d, n, scores, [d, shift](auto v) HWY_ATTR { return Exp(d, hn::Sub(v, shift)); },
      static_cast<const float*>(scores));
  const float sum = Sum(d, scores, n);
  const auto inverse = hn::Set(d, 1.0f / sum);
  Map(
      d, n, scores, [inverse](auto v) HWY_ATTR { return hn::Mul(v, inverse); },
      static_cast<const float*>(scores));
  return largest + std::log(sum);
}

// Rows that are asked for ahead: of one head, they lie far apart.
constexpr int64_t kAhead = 8;

HWY_INLINE void FetchRow(const float* row, int64_t D) {
  for (int64_t i = 0; i < D; i += 16) hwy::Prefetch(row + i);
}

void ScoreKernel(const HeadRows& q, int64_t queries, const HeadRows& k, int64_t keys, int64_t D,
                 float scale, float* scores, int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t s = 0; s < keys; ++s) {
    const float* key = k.data + s * k.stride;
    if (s + kAhead < keys) FetchRow(key + kAhead * k.stride, D);
    for (int64_t t = 0; t < queries; ++t) {
      const float* query = q.data + t * q.stride;
      scores[t * stride + s] = scale * Dot(d, query, key, D);
    }
  }
}

// out (columns) = sums over rows of v, `vectors` of them at a time in registers.
template <int vectors>
HWY_INLINE void CombineColumns(const float* weights, const HeadRows& v, int64_t keys, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t s = 0; s < keys; ++s) {
    const float* row = v.data + s * v.stride;
    if (s + kAhead < keys) FetchRow(row + kAhead * v.stride, vectors * lanes);
    const auto weight = hn::Set(d, weights[s]);
    a = hn::MulAdd(weight, LoadU(d, row), a);
    if constexpr (vectors == 4) {
      b = hn::MulAdd(weight, LoadU(d, row + lanes), b);
      c = hn::MulAdd(weight, LoadU(d, row + 2 * lanes), c);
      e = hn::MulAdd(weight, LoadU(d, row + 3 * lanes), e);
    }
  }
  StoreU(a, d, out);
  if constexpr (vectors == 4) {
    StoreU(b, d, out + lanes);
    StoreU(c, d, out + 2 * lanes);
    StoreU(e, d, out + 3 * lanes);
  }
}

void CombineKernel(const float* weights, const HeadRows& v, int64_t keys, int64_t D, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= D; i += 4 * lanes) {
    CombineColumns<4>(weights, {v.data + i, v.stride}, keys, out + i);
  }
  for (; i + lanes <= D; i += lanes) {
    CombineColumns<1>(weights, {v.data + i, v.stride}, keys, out + i);
  }
  if (i == D) return;
  auto sum = hn::Zero(d);
  for (int64_t s = 0; s < keys; ++s) {
    sum = hn::MulAdd(hn::Set(d, weights[s]), LoadPart(d, v.data + s * v.stride + i, D - i), sum);
  }
  StorePart(sum, d, out + i, D - i);
}

void DropoutKernel(const Dropout& dropout, int64_t row, int64_t width, int64_t n, float* x) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float factors[64];
  for (int64_t column = 0; column < n; column += 64) {
    DropoutFactors(dropout, row, width, column, factors);
    Map(
        d, std::min<int64_t>(64, n - column), x + column,
        [](auto v, auto f) HWY_ATTR { return hn::Mul(v, f); },
        static_cast<const float*>(x + column), static_cast<const float*>(factors));
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(SoftmaxKernel);
HWY_EXPORT(DropoutKernel);
HWY_EXPORT(ScoreKernel);
HWY_EXPORT(CombineKernel);

namespace {

void HideMaskedKeys(float* scores, int64_t keys, const uint8_t* key_mask) {
  if (key_mask == nullptr) return;
  for (int64_t s = 0; s < keys; ++s) {
    if (key_mask[s] == 0) scores[s] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace

float SoftmaxRow(float* scores, int64_t keys, int64_t columns, const uint8_t* key_mask) {
  HideMaskedKeys(scores, keys, key_mask);
  std::fill(scores + keys, scores + columns, 0.0f);
  return HWY_DYNAMIC_DISPATCH(SoftmaxKernel)(scores, keys);
}

void ScoreRows(const HeadRows& q, int64_t queries, const HeadRows& k, int64_t keys, int64_t D,
               float scale, float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoreKernel)(q, queries, k, keys, D, scale, scores, stride);
}

void CombineRows(const float* weights, const HeadRows& v, int64_t keys, int64_t D, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineKernel)(weights, v, keys, D, out);
}

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, keys, row);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
