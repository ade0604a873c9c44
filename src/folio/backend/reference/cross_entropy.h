#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "folio/backend/ops.h"
#include "folio/backend/reference/number.h"
#include "folio/base/check.h"

namespace folio::reference {

// logits (N,V); losses and lse (N). lse is that of the logits also where the target is kIgnore.
template <class Number>
void CrossEntropyForward(const Number* logits, const int32_t* targets, Number* losses, Number* lse,
                         int64_t N, int64_t V) {
  using std::exp, std::log;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, logits += V) {
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < V; ++v) max = std::max<double>(max, std::real(logits[v]));
    W total = 0;
    for (int64_t v = 0; v < V; ++v) total += exp(W(logits[v]) - max);
    const W row_lse = max + log(total);
    lse[n] = Number(row_lse);
    losses[n] = 0;
    if (targets[n] == folio::CrossEntropyForward::kIgnore || targets[n] == kElsewhere) continue;
    FOLIO_CHECK(targets[n] >= 0 && targets[n] < V, "target outside the vocabulary");
    losses[n] = Number(row_lse - W(logits[targets[n]]));
  }
}

template <class Number>
void CrossEntropyBackward(const Number* logits, const int32_t* targets, const Number* lse,
                          Number* d_logits, int64_t N, int64_t V, double scale) {
  using std::exp;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    const bool ignored = targets[n] == folio::CrossEntropyForward::kIgnore;
    FOLIO_CHECK(ignored || targets[n] == kElsewhere || (targets[n] >= 0 && targets[n] < V),
                "target outside the vocabulary");
    for (int64_t v = 0; v < V; ++v) {
      const W p = exp(W(logits[n * V + v]) - W(lse[n]));
      const W d = (p - (v == targets[n] ? 1.0 : 0.0)) * scale;
      d_logits[n * V + v] = ignored ? Number(0) : Number(d);
    }
  }
}

}  // namespace folio::reference
