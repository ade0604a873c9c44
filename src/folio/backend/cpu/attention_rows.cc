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

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, keys, row);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
