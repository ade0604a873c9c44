#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// to = a + b
void EmbeddingSum(const float* a, const float* b, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, to, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

// Adds columns [begin, end) of the rows of d_out, in order, to the rows that they came from.
void EmbeddingScatter(const EmbeddingBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto add = [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); };
  const int64_t T = op.ids.dim(1), C = op.d_wte.dim(1), N = op.ids.count(), n = end - begin;
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  for (int64_t row = 0; row < N; ++row) {
    const float* from = op.d_out.data<float>() + row * C + begin;
    if (ids[row] != kElsewhere) {
      float* token = op.d_wte.data<float>() + ids[row] * C + begin;
      Map(d, n, token, add, token, from);
    }
    if (op.d_wpe) {
      float* position = op.d_wpe.data<float>() + (at != nullptr ? at[row] : row % T) * C + begin;
      Map(d, n, position, add, position, from);
    }
  }
}

// The largest of n logits and the sum of exp(logit - largest).
void CrossEntropyRow(const float* logits, int64_t n, float* largest, float* sum) {
  const hn::ScalableTag<float> d;
  const auto join_max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  const auto max =
      Fold(d, n, hn::Set(d, -std::numeric_limits<float>::infinity()), join_max, join_max, logits);
  *largest = MaxLane(d, max);
  const auto shift = hn::Set(d, *largest);
  const auto total = Fold(
      d, n, hn::Zero(d),
      [&](auto acc, auto v) HWY_ATTR { return hn::Add(acc, Exp(d, hn::Sub(v, shift))); },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, logits);
  *sum = SumLanes(d, total);
}

// d_logits = (exp(logits - lse) - onehot(target)) * scale * slope(logits)
template <class T, class F>
HWY_INLINE void CrossEntropyGradient(const float* logits, int64_t n, int32_t target, float lse,
                                     float scale, const F& slope, T* d_logits) {
  const hn::ScalableTag<float> d;
  const auto shift = hn::Set(d, lse);
  const auto factor = hn::Set(d, scale);
  const auto softmax = [&](auto v) HWY_ATTR { return hn::Mul(Exp(d, hn::Sub(v, shift)), factor); };
  const auto gradient = [&](auto v) HWY_ATTR { return slope(v, softmax(v)); };
  if (target == kElsewhere) return Map(d, n, d_logits, gradient, logits);
  // Computed before the target's logit may be overwritten, and in float32: it is rounded once.
  const auto logit = hn::Set(d, logits[target]);
  const float of_target = hn::GetLane(slope(logit, hn::Sub(softmax(logit), factor)));
  Map(d, n, d_logits, gradient, logits);
  Map(
      d, 1, d_logits + target, [](auto v) HWY_ATTR { return v; }, &of_target);
}

// The gradient of `logits`, a row of V numbers, into a row of `width` numbers.
template <class T>
void CrossEntropyGradientOf(const CrossEntropyBackward& op, const float* logits, int64_t V,
                            int64_t row) {
  const int64_t width = op.logits.dim(1);
  const int32_t target = op.targets.data<int32_t>()[row];
  T* d_logits = op.d_logits.data<T>() + row * width;
  if (target == CrossEntropy::kIgnore) {
    std::fill_n(d_logits, width, T{});
    return;
  }
  std::fill(d_logits + V, d_logits + width, T{});
  const float lse = op.lse.data<float>()[row], scale = static_cast<float>(op.scale);
  if (op.cap == 0) {
    const auto as_it_is = [](auto, auto g) HWY_ATTR { return g; };
    return CrossEntropyGradient(logits, V, target, lse, scale, as_it_is, d_logits);
  }
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f), inverse = hn::Set(d, static_cast<float>(1 / op.cap));
  const auto slope = [&](auto v, auto g) HWY_ATTR {
    const auto u = hn::Mul(v, inverse);
    return hn::Mul(g, hn::NegMulAdd(u, u, one));
  };
  CrossEntropyGradient(logits, V, target, lse, scale, slope, d_logits);
}

void CrossEntropyGradientRow(const CrossEntropyBackward& op, const float* logits, int64_t V,
                             int64_t row) {
  WithNumber(op.d_logits.dtype(),
             [&]<class T>(T) { CrossEntropyGradientOf<T>(op, logits, V, row); });
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(EmbeddingSum);
HWY_EXPORT(EmbeddingScatter);

namespace {

void CheckTokens(const Tensor& ids, int64_t V) {
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.count(); ++i) {
    FOLIO_CHECK((id[i] >= 0 && id[i] < V) || id[i] == kElsewhere, "token outside the vocabulary");
  }
}

void CheckPositions(const Tensor& positions, int64_t P) {
  const int32_t* at = positions.data<int32_t>();
  for (int64_t i = 0; i < positions.count(); ++i) {
    FOLIO_CHECK(at[i] >= 0 && at[i] < P, "position outside the context");
  }
}

// Checks tokens and positions before they are used as indices.
template <class Op>
void CheckRows(const Op& op, const Tensor& wte, const Tensor& wpe) {
  CheckTokens(op.ids, wte.dim(0));
  if (wpe && op.positions) CheckPositions(op.positions, wpe.dim(0));
}

}  // namespace

void Run(const EmbeddingForward& op, Scratch&) {
  CheckRows(op, op.wte, op.wpe);
  const int64_t T = op.ids.dim(1), C = op.wte.dim(1);
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  const float* wpe = op.wpe.data<float>();
  float* out = op.out.data<float>();
  ParallelRange(op.ids.count(), TaskRows(C), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = out + row * C;
      if (ids[row] == kElsewhere) {
        std::fill_n(to, C, 0.0f);
      } else {
        DecodeFloats(op.wte.raw() + DtypeBytes(op.wte.dtype(), ids[row] * C), op.wte.dtype(),
                     std::span(to, static_cast<size_t>(C)));
      }
      if (wpe == nullptr) continue;
      const float* position = wpe + (at != nullptr ? at[row] : row % T) * C;
      HWY_DYNAMIC_DISPATCH(EmbeddingSum)(to, position, C, to);
    }
  });
}

// Tokens repeat, so threads divide columns instead of rows.
void Run(const EmbeddingBackward& op, Scratch&) {
  CheckRows(op, op.d_wte, op.d_wpe);
  constexpr int64_t kColumns = 64;
  ParallelRange(op.d_wte.dim(1), kColumns, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(EmbeddingScatter)(op, begin, end);
  });
}

HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(CrossEntropyGradientRow);

namespace {

void CheckTarget(int32_t target, int64_t V) {
  FOLIO_CHECK(
      (target >= 0 && target < V) || target == CrossEntropy::kIgnore || target == kElsewhere,
      "target outside the vocabulary");
}

}  // namespace

namespace {

// Calls f(row, logits, V) for each row, of V float32 numbers.
template <class Op, class F>
void ForEachRow(const Op& op, Scratch& scratch, const F& f) {
  const int64_t N = op.logits.dim(0), width = op.logits.dim(1), V = op.V > 0 ? op.V : width;
  const bool low = op.logits.dtype() == Dtype::kBF16;
  float* const widened = low ? scratch.Get<float>(Threads() * V) : nullptr;
  ParallelRange(N, TaskRows(width), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      CheckTarget(op.targets.template data<int32_t>()[row], V);
      if (!low) {
        f(row, op.logits.template data<float>() + row * width, V);
        continue;
      }
      float* const logits = widened + thread * V;
      DecodeFloats(op.logits.raw() + DtypeBytes(Dtype::kBF16, row * width), Dtype::kBF16,
                   std::span(logits, static_cast<size_t>(V)));
      f(row, logits, V);
    }
  });
}

}  // namespace

void Run(const CrossEntropy& op, Scratch& scratch) {
  const CrossEntropyBackward backward{.logits = op.logits,
                                      .targets = op.targets,
                                      .lse = op.lse,
                                      .d_logits = op.d_logits,
                                      .scale = op.scale,
                                      .cap = op.cap};
  ForEachRow(op, scratch, [&](int64_t row, const float* logits, int64_t V) {
    const int32_t target = op.targets.data<int32_t>()[row];
    float largest = 0, sum = 0;
    HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(logits, V, &largest, &sum);
    const float log_sum = std::log(sum);
    op.lse.data<float>()[row] = largest + log_sum;
    op.losses.data<float>()[row] = target < 0 ? 0.0f : log_sum + (largest - logits[target]);
    if (op.d_logits) HWY_DYNAMIC_DISPATCH(CrossEntropyGradientRow)(backward, logits, V, row);
  });
}

void Run(const CrossEntropyBackward& op, Scratch& scratch) {
  ForEachRow(op, scratch, [&](int64_t row, const float* logits, int64_t V) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyGradientRow)(op, logits, V, row);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
