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
#include "folio/backend/cpu/transpose-inl.h"
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

void ScoresKernel(const float* q, int64_t heads, int64_t D, const KeyRows& k, int64_t keys,
                  float scale, float* scores, int64_t stride) {
  const hn::ScalableTag<float> d;
  const auto score = [&](const auto* row) HWY_ATTR {
    for (int64_t s = 0; s < keys; ++s, row += k.stride) {
      for (int64_t h = 0; h < heads; ++h)
        scores[h * stride + s] = scale * Dot(d, q + h * D, row, D);
    }
  };
  k.dtype == Dtype::kBF16 ? score(static_cast<const BF16*>(k.data))
                          : score(static_cast<const float*>(k.data));
}

// Columns [begin, begin + kVectors * Lanes) of one head, or where `rest` is not 0 so many at most
// one vector; the sums stay in registers.
template <int kVectors, class T>
HWY_INLINE void CombineColumns(const float* weights, const T* v, int64_t v_stride, int64_t keys,
                               int64_t begin, int64_t rest, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [=](const auto* at)
                        HWY_ATTR { return rest == 0 ? LoadU(d, at) : LoadPart(d, at, rest); };
  hn::Vec<decltype(d)> sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = load(out + begin + i * lanes);
  for (int64_t s = 0; s < keys; ++s) {
    const auto weight = hn::Set(d, weights[s]);
    const T* row = v + s * v_stride + begin;
    for (int i = 0; i < kVectors; ++i) {
      sums[i] = hn::MulAdd(weight, load(row + i * lanes), sums[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    float* to = out + begin + i * lanes;
    rest == 0 ? hn::StoreU(sums[i], d, to) : StorePart(sums[i], d, to, rest);
  }
}

void CombineKernel(const float* weights, int64_t stride, int64_t heads, int64_t D, const KeyRows& v,
                   int64_t keys, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto combine = [&](const auto* rows) HWY_ATTR {
    for (int64_t h = 0; h < heads; ++h) {
      const float* row = weights + h * stride;
      float* to = out + h * D;
      int64_t c = 0;
      for (; c + 4 * lanes <= D; c += 4 * lanes)
        CombineColumns<4>(row, rows, v.stride, keys, c, 0, to);
      for (; c + lanes <= D; c += lanes) CombineColumns<1>(row, rows, v.stride, keys, c, 0, to);
      if (c < D) CombineColumns<1>(row, rows, v.stride, keys, c, D - c, to);
    }
  };
  v.dtype == Dtype::kBF16 ? combine(static_cast<const BF16*>(v.data))
                          : combine(static_cast<const float*>(v.data));
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

void ScaleKernel(const float* factors, int64_t rows, int64_t columns, float* x) {
  const hn::CappedTag<float, 16> d;
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + c), hn::LoadU(d, factors + c)), d, x + c);
    }
  }
}

void TransposeKernel(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                     int64_t to_stride) {
  CopyTransposed(x, stride, rows, columns, to, to_stride);
}

template <class T>
HWY_INLINE void CopyAll(const float* x, int64_t stride, int64_t rows, int64_t columns, T* to,
                        int64_t to_stride) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r) {
    Map(
        d, columns, to + r * to_stride, [](auto v) HWY_ATTR { return v; }, x + r * stride);
  }
}
void CopyFloats(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                int64_t to_stride) {
  CopyAll(x, stride, rows, columns, to, to_stride);
}
void CopyRounded(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
                 int64_t to_stride) {
  CopyAll(x, stride, rows, columns, to, to_stride);
}

void DotKernel(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
               float* dots) {
  const hn::ScalableTag<float> d;
  const auto dot = [&]<class T>(T) HWY_ATTR {
    for (int64_t t = 0; t < x.T; ++t) {
      const T *left = x.row<T>(b, t) + column, *right = y.row<T>(b, t) + column;
      dots[t] = Dot(d, left, right, D);
    }
  };
  x.dtype == Dtype::kBF16 ? dot(BF16()) : dot(float());
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(SoftmaxKernel);
HWY_EXPORT(DropoutKernel);
HWY_EXPORT(ScoresKernel);
HWY_EXPORT(CombineKernel);
HWY_EXPORT(ScaleKernel);
HWY_EXPORT(TransposeKernel);
HWY_EXPORT(CopyFloats);
HWY_EXPORT(CopyRounded);
HWY_EXPORT(DotKernel);

float SoftmaxRow(float* scores, int64_t keys, const uint8_t* key_mask) {
  for (int64_t s = 0; key_mask != nullptr && s < keys; ++s) {
    if (key_mask[s] == 0) scores[s] = -std::numeric_limits<float>::infinity();
  }
  return HWY_DYNAMIC_DISPATCH(SoftmaxKernel)(scores, keys);
}

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, keys, row);
}

void ScoreRows(const float* q, int64_t heads, int64_t D, const KeyRows& k, int64_t keys,
               float scale, float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoresKernel)(q, heads, D, k, keys, scale, scores, stride);
}

void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, const KeyRows& v,
                 int64_t keys, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineKernel)(weights, stride, heads, D, v, keys, out);
}

void ScaleColumns(const float* factors, int64_t rows, int64_t columns, float* x) {
  HWY_DYNAMIC_DISPATCH(ScaleKernel)(factors, rows, columns, x);
}

void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeKernel)(x, stride, rows, columns, to, to_stride);
}
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
               int64_t to_stride, float* scratch) {
  Transpose(x, stride, rows, columns, scratch, rows);
  CopyRows(scratch, rows, columns, rows, to, to_stride);
}

void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyFloats)(x, stride, rows, columns, to, to_stride);
}
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyRounded)(x, stride, rows, columns, to, to_stride);
}

void DotRows(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
             float* dots) {
  HWY_DYNAMIC_DISPATCH(DotKernel)(x, y, b, column, D, dots);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
