#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/activation-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

template <class T>
void ActivationOf(const ActivationForward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  WithActivation<Activated>(op.kind, [&](auto activate) HWY_ATTR {
    Map(
        d, end - begin, op.out.data<T>() + begin, [=](auto v) HWY_ATTR { return activate(d, v); },
        static_cast<const T*>(op.x.data<T>() + begin));
  });
}

template <class T>
void ActivationGradientOf(const ActivationBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  WithActivation<ActivationGradient>(op.kind, [&](auto gradient) HWY_ATTR {
    Map(
        d, end - begin, op.d_x.data<T>() + begin,
        [=](auto v, auto g) HWY_ATTR { return gradient(d, v, g); },
        static_cast<const T*>(op.x.data<T>() + begin),
        static_cast<const T*>(op.d_out.data<T>() + begin));
  });
}

void ActivationRange(const ActivationForward& op, int64_t begin, int64_t end) {
  op.x.dtype() == Dtype::kBF16 ? ActivationOf<BF16>(op, begin, end)
                               : ActivationOf<float>(op, begin, end);
}

void ActivationGradientRange(const ActivationBackward& op, int64_t begin, int64_t end) {
  op.x.dtype() == Dtype::kBF16 ? ActivationGradientOf<BF16>(op, begin, end)
                               : ActivationGradientOf<float>(op, begin, end);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationGradientRange);

void Run(const ActivationForward& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationRange)(op, begin, end);
  });
}

void Run(const ActivationBackward& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationGradientRange)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
