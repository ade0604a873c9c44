#include "folio/base/math.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/base/math.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
//
#include <hwy/contrib/math/math-inl.h>  // for each target, so behind them

HWY_BEFORE_NAMESPACE();
namespace folio::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ExponentialsOf(double* x, size_t n) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Exp(d, hn::LoadU(d, x + i)), d, x + i);
  if (i == n) return;
  HWY_ALIGN double rest[HWY_MAX_BYTES / sizeof(double)] = {};
  for (size_t j = 0; i + j < n; ++j) rest[j] = x[i + j];
  hn::Store(hn::Exp(d, hn::Load(d, rest)), d, rest);
  for (size_t j = 0; i + j < n; ++j) x[i + j] = rest[j];
}

}  // namespace folio::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio {

HWY_EXPORT(ExponentialsOf);

namespace {

template <class T>
double DotOf(std::span<const T> a, std::span<const T> b) {
  constexpr size_t kLanes = 32 / sizeof(T);
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (size_t n = kLanes / 2; n > 0; n /= 2) {
    for (size_t lane = 0; lane < n; ++lane) sums[lane] = sums[2 * lane] + sums[2 * lane + 1];
  }
  return sums[0];
}

}  // namespace

void Exponentials(double* x, size_t n) {
  HWY_DYNAMIC_DISPATCH(ExponentialsOf)(x, n);
}

double Dot(std::span<const float> a, std::span<const float> b) {
  return DotOf(a, b);
}

double Dot(std::span<const double> a, std::span<const double> b) {
  return DotOf(a, b);
}

double Percentile(std::vector<double> values, double p) {
  FOLIO_CHECK(!values.empty(), "no values");
  std::ranges::sort(values,
                    [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
  const double at = p * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const double part = at - static_cast<double>(below);
  return part == 0 ? values[below] : (1 - part) * values[below] + part * values[below + 1];
}

double Median(std::vector<double> values) {
  return Percentile(std::move(values), 0.5);
}

}  // namespace folio
#endif  // HWY_ONCE
