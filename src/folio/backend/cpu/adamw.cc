#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#ifndef FOLIO_BACKEND_CPU_ADAMW_
#define FOLIO_BACKEND_CPU_ADAMW_
namespace folio::cpu {

// One step computes with AdamWFactors, each prepared in double and rounded once.
struct AdamWFactors {
  float grad_scale, beta1, new1, beta2, new2;  // new = 1 - beta
  float decay;                                 // lr * weight_decay
  float step_size;                             // lr / (1 - beta1^step)
  float root_scale;                            // 1 / sqrt(1 - beta2^step)
  float eps;
};

}  // namespace folio::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/adamw.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

template <class D, class V = hn::Vec<D>>
HWY_INLINE void AdamWVector(D d, const AdamWFactors& f, V g, V& p, V& m, V& v) {
  g = hn::Mul(g, hn::Set(d, f.grad_scale));
  m = hn::MulAdd(hn::Set(d, f.beta1), m, hn::Mul(hn::Set(d, f.new1), g));
  v = hn::MulAdd(hn::Set(d, f.beta2), v, hn::Mul(hn::Mul(hn::Set(d, f.new2), g), g));
  const auto root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_scale), hn::Set(d, f.eps));
  const auto step = hn::Div(hn::Mul(hn::Set(d, f.step_size), m), root);
  p = hn::Sub(p, hn::MulAdd(hn::Set(d, f.decay), p, step));
}

void AdamWRange(const AdamWFactors& factors, const float* grad, float* param, float* m, float* v,
                int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kAhead = 512;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (const float* array : {grad, static_cast<const float*>(param), static_cast<const float*>(m),
                               static_cast<const float*>(v)}) {
      hwy::Prefetch(array + i + kAhead);
    }
    auto p = hn::LoadU(d, param + i), m1 = hn::LoadU(d, m + i), v1 = hn::LoadU(d, v + i);
    AdamWVector(d, factors, hn::LoadU(d, grad + i), p, m1, v1);
    hn::StoreU(p, d, param + i);
    hn::StoreU(m1, d, m + i);
    hn::StoreU(v1, d, v + i);
  }
  if (const int64_t rest = n - i; rest > 0) {
    auto p = LoadPart(d, param + i, rest), m1 = LoadPart(d, m + i, rest);
    auto v1 = LoadPart(d, v + i, rest);
    AdamWVector(d, factors, LoadPart(d, grad + i, rest), p, m1, v1);
    StorePart(p, d, param + i, rest);
    StorePart(m1, d, m + i, rest);
    StorePart(v1, d, v + i, rest);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(AdamWRange);

void Run(const AdamWUpdate& op, Scratch&) {
  const double step = static_cast<double>(op.step);
  const AdamWFactors factors{
      .grad_scale = static_cast<float>(op.grad_scale),
      .beta1 = static_cast<float>(op.beta1),
      .new1 = static_cast<float>(1 - op.beta1),
      .beta2 = static_cast<float>(op.beta2),
      .new2 = static_cast<float>(1 - op.beta2),
      .decay = static_cast<float>(op.lr * op.weight_decay),
      .step_size = static_cast<float>(op.lr / (1 - std::pow(op.beta1, step))),
      .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(op.beta2, step))),
      .eps = static_cast<float>(op.eps)};
  const float* grad = op.grad.data<float>();
  float* param = op.param.data<float>();
  float* m = op.m.data<float>();
  float* v = op.v.data<float>();
  ParallelRange(op.param.count(), kStreamElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(AdamWRange)
    (factors, grad + begin, param + begin, m + begin, v + begin, end - begin);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
