#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/cross_entropy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

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

// d_logits = (exp(logits - lse) - onehot(target)) * scale
template <class T>
void CrossEntropyGradient(const float* logits, int64_t n, int32_t target, float lse, float scale,
                          T* d_logits) {
  const hn::ScalableTag<float> d;
  const auto shift = hn::Set(d, lse);
  const auto factor = hn::Set(d, scale);
  const auto softmax = [&](auto v) HWY_ATTR { return hn::Mul(Exp(d, hn::Sub(v, shift)), factor); };
  if (target == kElsewhere) return Map(d, n, d_logits, softmax, logits);
  // `of_target` is made before the target's logit may be overwritten, and in float32: it is rounded
  // once.
  const float of_target = hn::GetLane(softmax(hn::Set(d, logits[target]))) - scale;
  Map(d, n, d_logits, softmax, logits);
  Map(
      d, 1, d_logits + target, [](auto v) HWY_ATTR { return v; }, &of_target);
}

template <class T>
void CrossEntropyGradientOf(const CrossEntropyBackward& op, int64_t row) {
  const int64_t V = op.logits.dim(1);
  const int32_t target = op.targets.data<int32_t>()[row];
  T* d_logits = op.d_logits.data<T>() + row * V;
  if (target == CrossEntropyForward::kIgnore) {
    std::fill_n(d_logits, V, T{});
    return;
  }
  CrossEntropyGradient(op.logits.data<float>() + row * V, V, target, op.lse.data<float>()[row],
                       static_cast<float>(op.scale), d_logits);
}

void CrossEntropyGradientRow(const CrossEntropyBackward& op, int64_t row) {
  if (op.d_logits.dtype() == Dtype::kBF16) {
    CrossEntropyGradientOf<BF16>(op, row);
  } else {
    CrossEntropyGradientOf<float>(op, row);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(CrossEntropyGradientRow);

namespace {

void CheckTarget(int32_t target, int64_t V) {
  FOLIO_CHECK(
      (target >= 0 && target < V) || target == CrossEntropyForward::kIgnore || target == kElsewhere,
      "target outside the vocabulary");
}

}  // namespace

void Run(const CrossEntropyForward& op, Scratch&) {
  const int64_t N = op.logits.dim(0), V = op.logits.dim(1);
  const int32_t* targets = op.targets.data<int32_t>();
  ParallelRange(N, TaskRows(V), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = op.logits.data<float>() + row * V;
      const int32_t target = targets[row];
      CheckTarget(target, V);
      float largest = 0, sum = 0;
      HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(logits, V, &largest, &sum);
      const float log_sum = std::log(sum);
      op.lse.data<float>()[row] = largest + log_sum;
      op.losses.data<float>()[row] = target < 0 ? 0.0f : log_sum + (largest - logits[target]);
    }
  });
}

void Run(const CrossEntropyBackward& op, Scratch&) {
  const int64_t N = op.logits.dim(0), V = op.logits.dim(1);
  ParallelRange(N, TaskRows(V), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      CheckTarget(op.targets.data<int32_t>()[row], V);
      HWY_DYNAMIC_DISPATCH(CrossEntropyGradientRow)(op, row);
    }
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
