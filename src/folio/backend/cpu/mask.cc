#include <algorithm>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/mask.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void MaskKernel(const float* x, const uint8_t* mask, float fill, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> du8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto filled = hn::Set(d, fill);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto hidden = hn::Eq(hn::PromoteTo(du, hn::LoadU(du8, mask + i)), hn::Zero(du));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hidden), filled, hn::LoadU(d, x + i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = mask[i] != 0 ? x[i] : fill;
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(MaskKernel);

void RunMask(const MaskForward& op) {
  const int64_t H = op.x.dim(1), matrix = op.x.dim(2) * op.x.dim(3);
  const int64_t mask_B = op.mask.dim(0), mask_H = op.mask.dim(1);
  const int64_t pieces = (matrix + kTaskElements - 1) / kTaskElements;
  const float fill = static_cast<float>(op.fill);
  ParallelFor(op.x.dim(0) * H * pieces, [&](int64_t task, int) {
    const int64_t head = task / pieces, begin = task % pieces * kTaskElements;
    const int64_t mask_head = head / H % mask_B * mask_H + head % H % mask_H;
    HWY_DYNAMIC_DISPATCH(MaskKernel)
    (op.x.data<float>() + head * matrix + begin,
     op.mask.data<uint8_t>() + mask_head * matrix + begin, fill,
     std::min(kTaskElements, matrix - begin), op.out.data<float>() + head * matrix + begin);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
