#pragma once

// Cross-entropy and its gradient, as ops.h says. A warp has a row.

#include "folio/backend/device/numbers.h"
#include "folio/backend/ops.h"

namespace folio::device {

template <class Logit, class Gradient>
struct CrossEntropyArgs {
  const Logit* logits;  // (N,W), of which V columns are the vocabulary
  const int32_t* targets;
  Gradient* d_logits;  // (N,W), null if nobody wants it; may be logits
  int64_t N, V, W;
  float scale, cap;
};

// The gradient of row n. Each lane writes elements that it alone has read.
template <class Logit, class Gradient>
FOLIO_DEVICE void CrossEntropyRowBackward(const CrossEntropyArgs<Logit, Gradient>& a, int64_t n,
                                          float lse) {
  const int32_t target = a.targets[n];
  for (int64_t v = Lane(); v < a.W; v += kWarp) {
    float d = 0;
    if (v < a.V && target != CrossEntropy::kIgnore) {
      const float logit = Load(a.logits[n * a.W + v]);
      d = (expf(logit - lse) - (v == target ? 1.0f : 0.0f)) * a.scale;
      if (a.cap > 0) d *= 1 - (logit / a.cap) * (logit / a.cap);
    }
    Store(a.d_logits[n * a.W + v], d);
  }
}

// A target that is none gives a loss of NaN.
template <class Logit, class Gradient>
FOLIO_KERNEL void CrossEntropyKernel(CrossEntropyArgs<Logit, Gradient> a, float* losses,
                                     float* lse) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const Logit* row = a.logits + n * a.W;
  float max = -INFINITY;
  for (int64_t v = Lane(); v < a.V; v += kWarp) max = fmaxf(max, Load(row[v]));
  max = WarpMax(max);
  float total = 0;
  for (int64_t v = Lane(); v < a.V; v += kWarp) total += expf(Load(row[v]) - max);
  const float row_lse = max + logf(WarpSum(total));
  const int32_t target = a.targets[n];
  if (Lane() == 0) lse[n] = row_lse;
  if (target >= 0 && target < a.V) {
    // The lane that may overwrite the logit.
    if (target % kWarp == Lane()) losses[n] = row_lse - Load(row[target]);
  } else if (Lane() == 0) {
    losses[n] = target == CrossEntropy::kIgnore || target == kElsewhere ? 0.0f : NAN;
  }
  if (a.d_logits != nullptr) CrossEntropyRowBackward(a, n, row_lse);
}

template <class Logit, class Gradient>
FOLIO_KERNEL void CrossEntropyBackwardKernel(CrossEntropyArgs<Logit, Gradient> a,
                                             const float* lse) {
  const int64_t n = WarpInGrid();
  if (n < a.N) CrossEntropyRowBackward(a, n, lse[n]);
}

}  // namespace folio::device
