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

// Rows that are asked for ahead: they lie far apart.
constexpr int64_t kAhead = 4;

HWY_INLINE void FetchRow(const HeadRows& x, int64_t row, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(float);
  if (row >= rows) return;
  const float* at = x.data + row * x.stride;
  for (int64_t i = 0; i < columns; i += kLine) hwy::Prefetch(at + i);
}

void ScoreKernel(const HeadGroup& group, const float* q, const HeadRows& k, int64_t keys,
                 float scale, float* scores, int64_t stride) {
  const hn::ScalableTag<float> d;
  const int64_t D = group.D;
  for (int64_t s = 0; s < keys; ++s) {
    const float* key = k.data + s * k.stride;
    FetchRow(k, s + kAhead, keys, group.key_heads * D);
    for (int64_t h = 0; h < group.key_heads * group.shared; ++h) {
      scores[h * stride + s] = scale * Dot(d, q + h * D, key + h / group.shared * D, D);
    }
  }
}

void CombineKernel(const HeadGroup& group, const float* weights, int64_t stride, const HeadRows& v,
                   int64_t keys, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t D = group.D, heads = group.key_heads * group.shared;
  std::fill_n(out, heads * D, 0.0f);
  for (int64_t s = 0; s < keys; ++s) {
    const float* value = v.data + s * v.stride;
    FetchRow(v, s + kAhead, keys, group.key_heads * D);
    for (int64_t h = 0; h < heads; ++h) {
      const auto weight = hn::Set(d, weights[h * stride + s]);
      float* to = out + h * D;
      Map(
          d, D, to, [=](auto sum, auto x) HWY_ATTR { return hn::MulAdd(weight, x, sum); },
          static_cast<const float*>(to), value + h / group.shared * D);
    }
  }
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

void ScoreRows(const HeadGroup& group, const float* q, const HeadRows& k, int64_t keys, float scale,
               float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoreKernel)(group, q, k, keys, scale, scores, stride);
}

void CombineRows(const HeadGroup& group, const float* weights, int64_t stride, const HeadRows& v,
                 int64_t keys, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineKernel)(group, weights, stride, v, keys, out);
}

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, keys, row);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
