#include "folio/base/exponentials.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/base/exponentials.cc"
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

void Exponentials(double* x, size_t n) {
  HWY_DYNAMIC_DISPATCH(ExponentialsOf)(x, n);
}

}  // namespace folio
#endif  // HWY_ONCE
