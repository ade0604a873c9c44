#include <algorithm>
#include <cmath>
#include <cstdint>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/mixes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// out = a x + b y
void MixRange(const float* x, const float* y, float a, float b, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const auto of_x = hn::Set(d, a), of_y = hn::Set(d, b);
  Map(
      d, n, out, [&](auto v, auto w) HWY_ATTR { return hn::MulAdd(of_x, v, hn::Mul(of_y, w)); }, x,
      y);
}

// Elements [begin, end). Adds the sums of d_out x and of d_out y to `sums`.
void MixGradientRange(const MixBackward& op, float a, float b, int64_t begin, int64_t end,
                      double* sums) {
  const hn::ScalableTag<float> d;
  const int64_t n = end - begin;
  const float* d_out = op.d_out.data<float>() + begin;
  sums[0] += static_cast<double>(Dot(d, d_out, op.x.data<float>() + begin, n));
  sums[1] += static_cast<double>(Dot(d, d_out, op.y.data<float>() + begin, n));
  const auto of_x = hn::Set(d, a), of_y = hn::Set(d, b);
  float* d_y = op.d_y.data<float>() + begin;
  if (op.accumulate_d_y) {
    Map(
        d, n, d_y, [&](auto g, auto v) HWY_ATTR { return hn::MulAdd(of_y, g, v); }, d_out,
        static_cast<const float*>(d_y));
  } else {
    Map(
        d, n, d_y, [&](auto g) HWY_ATTR { return hn::Mul(of_y, g); }, d_out);
  }
  Map(
      d, n, op.d_x.data<float>() + begin, [&](auto g) HWY_ATTR { return hn::Mul(of_x, g); }, d_out);
}

template <class X>
HWY_INLINE float GateOfRow(const X* x, const float* weight, int64_t J) {
  const hn::ScalableTag<float> d;
  return 1 / (1 + std::exp(-Dot(d, x, weight, J)));
}

template <class X, class Out>
void GatedAddOf(const GatedAddForward& op, float factor, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t G = op.weight.dim(0), J = op.weight.dim(1), C = op.out.C, D = C / G;
  const float* weight = op.weight.data<float>();
  for (int64_t n = begin; n < end; ++n) {
    const X* x = op.x.data<X>() + n * op.x.dim(1);
    const float* y = op.y.data<float>() + n * C;
    Out* out = op.out.row<Out>(n / op.out.T, n % op.out.T);
    for (int64_t g = 0; g < G; ++g) {
      const auto gate = hn::Set(d, factor * GateOfRow(x, weight + g * J, J));
      Map(
          d, D, out + g * D, [&](auto v, auto w) HWY_ATTR { return hn::MulAdd(gate, w, v); },
          static_cast<const Out*>(out + g * D), y + g * D);
    }
  }
}

void GatedAddRows(const GatedAddForward& op, float factor, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype(), [&]<class X>(X) {
    WithNumber(op.out.dtype, [&]<class Out>(Out) { GatedAddOf<X, Out>(op, factor, begin, end); });
  });
}

template <class X, class Out, class DX>
void GatedAddGradientOf(const GatedAddBackward& op, float scale, float factor, int64_t begin,
                        int64_t end, double* sums) {
  const hn::ScalableTag<float> d;
  const int64_t G = op.weight.dim(0), J = op.weight.dim(1), C = op.d_out.C, D = C / G;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* weight = op.weight.data<float>();
  for (int64_t n = begin; n < end; ++n) {
    const X* x = op.x.data<X>() + n * op.x.dim(1);
    const float* y = op.y.data<float>() + n * C;
    const Out* d_out = op.d_out.row<Out>(n / op.d_out.T, n % op.d_out.T);
    DX* d_x = op.d_x.data<DX>() + n * op.d_x.dim(1);
    float* d_y = op.d_y.data<float>() + n * C;
    // d_x may be d_out, which every group reads first.
    float* const opened = reinterpret_cast<float*>(sums + 1 + G * J);
    for (int64_t g = 0; g < G; ++g) {
      const float gate = GateOfRow(x, weight + g * J, J);
      const float through = scale * Dot(d, d_out + g * D, y + g * D, D);
      sums[0] += static_cast<double>(gate * through);
      opened[g] = factor * through * gate * (1 - gate);
      const auto back = hn::Set(d, scale * factor * gate);
      Map(
          d, D, d_y + g * D, [&](auto v) HWY_ATTR { return hn::Mul(back, v); }, d_out + g * D);
      for (int64_t j = 0; j < J; ++j) {
        float number;
        Map(
            d, 1, &number, [](auto v) HWY_ATTR { return v; }, x + j);
        sums[1 + g * J + j] += static_cast<double>(opened[g] * number);
      }
    }
    // Rounded once, whatever the number of groups.
    const auto with_gates = [&](auto v, int64_t j, auto load) HWY_ATTR {
      for (int64_t g = 0; g < G; ++g) {
        v = hn::MulAdd(hn::Set(d, opened[g]), load(weight + g * J + j), v);
      }
      return v;
    };
    int64_t j = 0;
    for (; j + lanes <= J; j += lanes) {
      const auto load = [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); };
      StoreU(with_gates(LoadU(d, d_x + j), j, load), d, d_x + j);
    }
    if (const int64_t rest = J - j; rest > 0) {
      const auto load = [&](const float* p) HWY_ATTR { return LoadPart(d, p, rest); };
      StorePart(with_gates(LoadPart(d, d_x + j, rest), j, load), d, d_x + j, rest);
    }
  }
}

// `sums` are those of d_factor and of d_weight, followed by room for G numbers.
void GatedAddGradientRows(const GatedAddBackward& op, float scale, float factor, int64_t begin,
                          int64_t end, double* sums) {
  WithNumber(op.x.dtype(), [&]<class X>(X) {
    WithNumber(op.d_out.dtype, [&]<class Out>(Out) {
      WithNumber(op.d_x.dtype(), [&]<class DX>(DX) {
        GatedAddGradientOf<X, Out, DX>(op, scale, factor, begin, end, sums);
      });
    });
  });
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(MixRange);
HWY_EXPORT(MixGradientRange);
HWY_EXPORT(GatedAddRows);
HWY_EXPORT(GatedAddGradientRows);

namespace {

float FactorOf(const Tensor& factor) {
  return factor ? *factor.data<float>() : 1.0f;
}

// Each chunk of `grain` items sums `count` gradients of its own, in `room` doubles, which are added
// to `to` in order: add(i, sum of the i-th).
template <class Run, class Add>
void SumInChunks(int64_t n, int64_t grain, int64_t count, int64_t room, Scratch& scratch,
                 const Run& run, const Add& add) {
  const int64_t chunks = CeilDiv(n, grain);
  double* parts = scratch.Get<double>(chunks * room);
  ParallelRange(n, grain, [&](int64_t begin, int64_t end, int) {
    double* sums = parts + begin / grain * room;
    std::fill_n(sums, room, 0.0);
    run(begin, end, sums);
  });
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += parts[chunk * room + i];
    add(i, sum);
  }
}

void AddTo(const Tensor& to, int64_t i, double sum) {
  if (to) to.data<float>()[i] = static_cast<float>(static_cast<double>(to.data<float>()[i]) + sum);
}

}  // namespace

void Run(const MixForward& op, Scratch&) {
  const float a = FactorOf(op.x_factor), b = static_cast<float>(op.sign) * FactorOf(op.y_factor);
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(MixRange)
    (op.x.data<float>() + begin, op.y.data<float>() + begin, a, b, end - begin,
     op.out.data<float>() + begin);
  });
}

void Run(const MixBackward& op, Scratch& scratch) {
  const float a = FactorOf(op.x_factor), b = static_cast<float>(op.sign) * FactorOf(op.y_factor);
  SumInChunks(
      op.x.count(), kTaskElements, 2, 2, scratch,
      [&](int64_t begin, int64_t end, double* sums) {
        HWY_DYNAMIC_DISPATCH(MixGradientRange)(op, a, b, begin, end, sums);
      },
      [&](int64_t i, double sum) {
        i == 0 ? AddTo(op.d_x_factor, 0, sum) : AddTo(op.d_y_factor, 0, op.sign * sum);
      });
}

void Run(const GatedAddForward& op, Scratch&) {
  const float factor = static_cast<float>(op.scale) * FactorOf(op.factor);
  ParallelRange(op.x.dim(0), TaskRows(op.out.C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(GatedAddRows)(op, factor, begin, end);
  });
}

void Run(const GatedAddBackward& op, Scratch& scratch) {
  const float scale = static_cast<float>(op.scale), factor = FactorOf(op.factor);
  const int64_t N = op.x.dim(0), G = op.weight.dim(0), count = 1 + op.weight.count();
  constexpr int64_t kChunks = 256;
  const int64_t rows = std::max({TaskRows(op.d_out.C), CeilDiv(N, kChunks), int64_t{16}});
  SumInChunks(
      N, rows, count, count + G, scratch,
      [&](int64_t begin, int64_t end, double* sums) {
        HWY_DYNAMIC_DISPATCH(GatedAddGradientRows)(op, scale, factor, begin, end, sums);
      },
      [&](int64_t i, double sum) {
        i == 0 ? AddTo(op.d_factor, 0, sum) : AddTo(op.d_weight, i - 1, sum);
      });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
