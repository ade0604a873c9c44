#include "folio/backend/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/attention_rows.cc"
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

template <class T>
void Scores(const float* q, int64_t heads, int64_t D, KeyRows<T> k, int64_t keys, float scale,
            float* scores, int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t s = 0; s < keys; ++s) {
    for (int64_t h = 0; h < heads; ++h) {
      scores[h * stride + s] = scale * Dot(d, q + h * D, k.data + s * k.stride, D);
    }
  }
}

// Columns [begin, begin + kVectors * Lanes) of one head, or where `rest` is not 0 so many at most
// one vector; the sums stay in registers.
template <int kVectors, class T>
HWY_INLINE void CombineColumns(const float* weights, KeyRows<T> v, int64_t keys, int64_t begin,
                               int64_t rest, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [=](const auto* at)
                        HWY_ATTR { return rest == 0 ? LoadU(d, at) : LoadPart(d, at, rest); };
  hn::Vec<decltype(d)> sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = load(out + begin + i * lanes);
  for (int64_t s = 0; s < keys; ++s) {
    const auto weight = hn::Set(d, weights[s]);
    const T* row = v.data + s * v.stride + begin;
    for (int i = 0; i < kVectors; ++i) {
      sums[i] = hn::MulAdd(weight, load(row + i * lanes), sums[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    float* to = out + begin + i * lanes;
    rest == 0 ? hn::StoreU(sums[i], d, to) : StorePart(sums[i], d, to, rest);
  }
}

template <class T>
void Combine(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<T> v,
             int64_t keys, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t h = 0; h < heads; ++h) {
    const float* row = weights + h * stride;
    float* to = out + h * D;
    int64_t c = 0;
    for (; c + 4 * lanes <= D; c += 4 * lanes) CombineColumns<4>(row, v, keys, c, 0, to);
    for (; c + lanes <= D; c += lanes) CombineColumns<1>(row, v, keys, c, 0, to);
    if (c < D) CombineColumns<1>(row, v, keys, c, D - c, to);
  }
}

void ScoresOfFloats(const float* q, int64_t heads, int64_t D, KeyRows<float> k, int64_t keys,
                    float scale, float* scores, int64_t stride) {
  Scores(q, heads, D, k, keys, scale, scores, stride);
}
void ScoresOfBf16(const float* q, int64_t heads, int64_t D, KeyRows<BF16> k, int64_t keys,
                  float scale, float* scores, int64_t stride) {
  Scores(q, heads, D, k, keys, scale, scores, stride);
}
void CombineFloats(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<float> v,
                   int64_t keys, float* out) {
  Combine(weights, stride, heads, D, v, keys, out);
}
void CombineBf16(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<BF16> v,
                 int64_t keys, float* out) {
  Combine(weights, stride, heads, D, v, keys, out);
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
HWY_EXPORT(ScoresOfFloats);
HWY_EXPORT(ScoresOfBf16);
HWY_EXPORT(CombineFloats);
HWY_EXPORT(CombineBf16);

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

void ScoreRows(const float* q, int64_t heads, int64_t D, KeyRows<float> k, int64_t keys,
               float scale, float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoresOfFloats)(q, heads, D, k, keys, scale, scores, stride);
}
void ScoreRows(const float* q, int64_t heads, int64_t D, KeyRows<BF16> k, int64_t keys, float scale,
               float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoresOfBf16)(q, heads, D, k, keys, scale, scores, stride);
}

void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<float> v,
                 int64_t keys, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineFloats)(weights, stride, heads, D, v, keys, out);
}
void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<BF16> v,
                 int64_t keys, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineBf16)(weights, stride, heads, D, v, keys, out);
}

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, keys, row);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
