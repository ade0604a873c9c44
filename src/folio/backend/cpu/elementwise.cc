#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/elementwise.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// out = residual + factor * x; residual may be null. A factor of 1 changes no bit, even of a NaN.
template <class In, class Out>
void ResidualSum(const float* residual, const In* x, float factor, int64_t n, Out* out) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  if (residual != nullptr) {
    Map(
        d, n, out, [&](auto r, auto a) HWY_ATTR { return hn::MulAdd(a, f, r); }, residual, x);
  } else if (factor != 1) {
    Map(
        d, n, out, [&](auto a) HWY_ATTR { return hn::Mul(a, f); }, x);
  } else {
    Map(
        d, n, out, [](auto a) HWY_ATTR { return a; }, x);
  }
}

// out = residual + factor * dropout(x) for rows [begin, end) of C columns; residual may be null.
template <class In, class Out>
void ResidualDropout(const Dropout& dropout, const float* residual, const In* x, float factor,
                     int64_t C, int64_t begin, int64_t end, Out* out) {
  const hn::ScalableTag<float> d;
  const auto every = hn::Set(d, factor);
  HWY_ALIGN float factors[64];
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < C; column += 64) {
      DropoutFactors(dropout, row, C, column, factors);
      const int64_t at = row * C + column, n = std::min<int64_t>(64, C - column);
      if (residual == nullptr) {
        Map(
            d, n, out + at, [&](auto a, auto f) HWY_ATTR { return hn::Mul(a, hn::Mul(f, every)); },
            x + at, factors);
      } else {
        Map(
            d, n, out + at,
            [&](auto r, auto a, auto f) HWY_ATTR { return hn::MulAdd(a, hn::Mul(f, every), r); },
            residual + at, x + at, factors);
      }
    }
  }
}

template <class In, class Out>
void ResidualOf(const Dropout& dropout, const float* residual, const Tensor& x, float factor,
                const Tensor& out, int64_t begin, int64_t end) {
  const int64_t C = x.dim(1);
  const In* from = x.data<In>();
  Out* to = out.data<Out>();
  if (dropout.active()) {
    return ResidualDropout(dropout, residual, from, factor, C, begin, end, to);
  }
  const int64_t at = begin * C;
  if (residual != nullptr) residual += at;
  ResidualSum(residual, from + at, factor, (end - begin) * C, to + at);
}

// out = residual + factor * dropout(x) for rows [begin, end); with a residual out is not BF16.
void ResidualRows(const Dropout& dropout, const float* residual, const Tensor& x, float factor,
                  const Tensor& out, int64_t begin, int64_t end) {
  WithNumber(x.dtype(), [&]<class In>(In) {
    WithNumber(out.dtype(), [&]<class Out>(Out) {
      ResidualOf<In, Out>(dropout, residual, x, factor, out, begin, end);
    });
  });
}

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
  WithNumber(op.x.dtype(), [&]<class T>(T) { ActivationOf<T>(op, begin, end); });
}

void ActivationGradientRange(const ActivationBackward& op, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype(), [&]<class T>(T) { ActivationGradientOf<T>(op, begin, end); });
}

// Rows [begin, end) of an array gate | up.
template <class T>
void GatedOf(const GatedForward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t F = op.out.dim(1);
  WithActivation<Activated>(op.kind, [&](auto activate) HWY_ATTR {
    for (int64_t n = begin; n < end; ++n) {
      const T* gate = op.x.data<T>() + n * 2 * F;
      Map(
          d, F, op.out.data<T>() + n * F,
          [=](auto g, auto u) HWY_ATTR { return hn::Mul(activate(d, g), u); }, gate, gate + F);
    }
  });
}

void GatedRows(const GatedForward& op, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype(), [&]<class T>(T) { GatedOf<T>(op, begin, end); });
}

// Computes the gradients of gate and up, with `g` the result's gradient.
template <Activation kind>
struct GateGradient {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void operator()(D d, V g, V& gate, V& up) const {
    const auto d_gate = ActivationGradient<kind>()(d, gate, hn::Mul(g, up));
    up = hn::Mul(g, Activated<kind>()(d, gate));
    gate = d_gate;
  }
};

template <class T>
void GatedGradientOf(const GatedBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), F = op.d_out.dim(1);
  WithActivation<GateGradient>(op.kind, [&](auto gradient) HWY_ATTR {
    for (int64_t n = begin; n < end; ++n) {
      const T *x = op.x.data<T>() + n * 2 * F, *d_out = op.d_out.data<T>() + n * F;
      T* d_x = op.d_x.data<T>() + n * 2 * F;
      int64_t f = 0;
      for (; f + lanes <= F; f += lanes) {
        auto gate = LoadU(d, x + f), up = LoadU(d, x + F + f);
        gradient(d, LoadU(d, d_out + f), gate, up);
        StoreU(gate, d, d_x + f);
        StoreU(up, d, d_x + F + f);
      }
      if (const int64_t rest = F - f; rest > 0) {
        auto gate = LoadPart(d, x + f, rest), up = LoadPart(d, x + F + f, rest);
        gradient(d, LoadPart(d, d_out + f, rest), gate, up);
        StorePart(gate, d, d_x + f, rest);
        StorePart(up, d, d_x + F + f, rest);
      }
    }
  });
}

void GatedGradientRows(const GatedBackward& op, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype(), [&]<class T>(T) { GatedGradientOf<T>(op, begin, end); });
}

double SumOfSquaresRange(const float* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kAhead = 1024;
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  const auto add = [d, df, x](auto sum, int64_t i) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
    return hn::MulAdd(v, v, sum);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (int64_t line = 0; line < 4 * lanes; line += 16) hwy::Prefetch(x + i + kAhead + line);
    a = add(a, i);
    b = add(b, i + lanes);
    c = add(c, i + 2 * lanes);
    e = add(e, i + 3 * lanes);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// Elements [begin, end) of x, times `factor`.
void ScaleRange(const Tensor& x, float factor, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  const auto scale = [&](auto* at) HWY_ATTR {
    Map(
        d, end - begin, at, [&](auto v) HWY_ATTR { return hn::Mul(v, f); },
        static_cast<const std::remove_pointer_t<decltype(at)>*>(at));
  };
  x.dtype() == Dtype::kBF16 ? scale(x.data<BF16>() + begin) : scale(x.data<float>() + begin);
}

// x = cap * tanh(x / cap), for elements [begin, end).
void CapRange(const Tensor& x, double cap, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto c = hn::Set(d, static_cast<float>(cap)),
             inverse = hn::Set(d, static_cast<float>(1 / cap));
  WithNumber(x.dtype(), [&]<class T>(T) HWY_ATTR {
    T* const at = x.data<T>() + begin;
    Map(
        d, end - begin, at,
        [&](auto v) HWY_ATTR { return hn::Mul(c, Tanh(d, hn::Mul(v, inverse))); },
        static_cast<const T*>(at));
  });
}

// Writes past the caches, since a large array would evict everything else.
void FillStream(float value, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v = hn::Set(d, value);
  int64_t i = 0;
  const size_t bytes = hn::Lanes(d) * sizeof(float);
  for (; i < n && reinterpret_cast<uintptr_t>(out + i) % bytes != 0; ++i) out[i] = value;
  for (; i + lanes <= n; i += lanes) hn::Stream(v, d, out + i);
  for (; i < n; ++i) out[i] = value;
  hwy::FlushStream();
}

// Factors are computed in double and rounded once.
void AdamWRange(const AdamWUpdate& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto set = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<float>(x)); };
  const double steps = static_cast<double>(op.step);
  const auto grad_scale = set(op.grad_scale), decay = set(op.lr * op.weight_decay);
  const auto beta1 = set(op.beta1), new1 = set(1 - op.beta1);
  const auto beta2 = set(op.beta2), new2 = set(1 - op.beta2);
  const auto step_size = set(op.lr / (1 - std::pow(op.beta1, steps)));
  const auto root_scale = set(1 / std::sqrt(1 - std::pow(op.beta2, steps))), eps = set(op.eps);
  const auto update = [&](V g, V& p, V& m, V& v) HWY_ATTR {
    g = hn::Mul(g, grad_scale);
    m = hn::MulAdd(beta1, m, hn::Mul(new1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(hn::Mul(new2, g), g));
    const auto root = hn::MulAdd(hn::Sqrt(v), root_scale, eps);
    p = hn::Sub(p, hn::MulAdd(decay, p, hn::Div(hn::Mul(step_size, m), root)));
  };
  const float* grad = op.grad.data<float>();
  float *param = op.param.data<float>(), *m = op.m.data<float>(), *v = op.v.data<float>();
  BF16* low = op.low.data<BF16>();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kAhead = 512;
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    for (const float* array : {grad, static_cast<const float*>(param), static_cast<const float*>(m),
                               static_cast<const float*>(v)}) {
      hwy::Prefetch(array + i + kAhead);
    }
    auto p = hn::LoadU(d, param + i), m1 = hn::LoadU(d, m + i), v1 = hn::LoadU(d, v + i);
    update(hn::LoadU(d, grad + i), p, m1, v1);
    hn::StoreU(p, d, param + i);
    if (low != nullptr) StoreU(p, d, low + i);
    hn::StoreU(m1, d, m + i);
    hn::StoreU(v1, d, v + i);
  }
  if (const int64_t rest = end - i; rest > 0) {
    auto p = LoadPart(d, param + i, rest), m1 = LoadPart(d, m + i, rest);
    auto v1 = LoadPart(d, v + i, rest);
    update(LoadPart(d, grad + i, rest), p, m1, v1);
    StorePart(p, d, param + i, rest);
    if (low != nullptr) StorePart(p, d, low + i, rest);
    StorePart(m1, d, m + i, rest);
    StorePart(v1, d, v + i, rest);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ResidualRows);
HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationGradientRange);

namespace {

void RunResidual(const Dropout& dropout, const Tensor& residual, const Tensor& x, double factor,
                 const Tensor& out) {
  if (!dropout.active() && !residual && factor == 1 && x.raw() == out.raw()) return;
  ParallelRange(x.dim(0), TaskRows(x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ResidualRows)
    (dropout, residual.data<float>(), x, static_cast<float>(factor), out, begin, end);
  });
}

}  // namespace

void Run(const ResidualForward& op, Scratch&) {
  RunResidual(op.dropout, op.residual, op.x, op.factor, op.out);
}

void Run(const ResidualBackward& op, Scratch&) {
  RunResidual(op.dropout, {}, op.d_out, op.factor, op.d_x);
}

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

HWY_EXPORT(GatedRows);
HWY_EXPORT(GatedGradientRows);

void Run(const GatedForward& op, Scratch&) {
  ParallelRange(op.out.dim(0), TaskRows(op.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(GatedRows)(op, begin, end);
  });
}

void Run(const GatedBackward& op, Scratch&) {
  ParallelRange(op.d_out.dim(0), TaskRows(op.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(GatedGradientRows)(op, begin, end);
  });
}

HWY_EXPORT(SumOfSquaresRange);
HWY_EXPORT(ScaleRange);
HWY_EXPORT(CapRange);
HWY_EXPORT(FillStream);
HWY_EXPORT(AdamWRange);

// One number after the other: arrays are short.
void Run(const SumOfElements& op, Scratch&) {
  double total = 0;
  for (int64_t i = 0; i < op.x.count(); ++i) {
    total += op.x.dtype() == Dtype::kF64 ? op.x.data<double>()[i] : op.x.data<float>()[i];
  }
  *op.out.data<double>() = total;
}

void Run(const SumOfSquares& op, Scratch& scratch) {
  const float* x = op.x.data<float>();
  if (op.block > 0) {
    double* out = op.out.data<double>();
    return ParallelRange(op.out.count(), CeilDiv(kTaskElements, op.block),
                         [&](int64_t first, int64_t last, int) {
                           for (int64_t i = first; i < last; ++i) {
                             const int64_t begin = i * op.block;
                             const int64_t size = std::min(op.block, op.x.count() - begin);
                             out[i] = HWY_DYNAMIC_DISPATCH(SumOfSquaresRange)(x + begin, size);
                           }
                         });
  }
  const int64_t n = op.x.count(), chunks = (n + kTaskElements - 1) / kTaskElements;
  double* sums = scratch.Get<double>(chunks);
  ParallelRange(n, kTaskElements, [&](int64_t begin, int64_t end, int) {
    sums[begin / kTaskElements] = HWY_DYNAMIC_DISPATCH(SumOfSquaresRange)(x + begin, end - begin);
  });
  double total = 0;
  for (int64_t i = 0; i < chunks; ++i) total += sums[i];
  *op.out.data<double>() = total;
}

void Run(const Scale& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ScaleRange)(op.x, static_cast<float>(op.factor), begin, end);
  });
}

void Run(const LogitCap& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(CapRange)(op.x, op.cap, begin, end);
  });
}

void Run(const CopyColumns& op, Scratch&) {
  const int64_t T = op.x.T, C = op.x.C;
  ParallelRange(op.x.B * T, TaskRows(C), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const float* x = op.x.row<float>(n / T, n % T);
      float* out = op.out.row<float>(n / T, n % T);
      for (int64_t c = 0; c < C; ++c) out[c] = op.accumulate ? out[c] + x[c] : x[c];
    }
  });
}

void Run(const Fill& op, Scratch&) {
  constexpr int64_t kLarge = 4 << 20;  // 16 MB: more than stays in a cache until it is read
  float* out = op.out.data<float>();
  const float value = static_cast<float>(op.value);
  const bool large = op.out.count() >= kLarge;
  ParallelRange(op.out.count(), kStreamElements, [&](int64_t begin, int64_t end, int) {
    if (large) {
      HWY_DYNAMIC_DISPATCH(FillStream)(value, end - begin, out + begin);
    } else {
      std::fill(out + begin, out + end, value);
    }
  });
}

void Run(const AdamWUpdate& op, Scratch&) {
  ParallelRange(op.param.count(), kStreamElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(AdamWRange)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
