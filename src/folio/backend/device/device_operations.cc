// The C++ compiler compiles this file for the executor, and nvcc compiles it for a GPU.

#include "folio/backend/device/device_operations.h"

#include <algorithm>
#include <cmath>

#include "folio/backend/device/elementwise.h"
#include "folio/backend/device/embedding.h"
#include "folio/backend/device/loss.h"
#include "folio/backend/device/mixes.h"
#include "folio/backend/device/norms.h"
#include "folio/backend/device/optimizer.h"
#include "folio/backend/device/rotary.h"
#include "folio/backend/device/sums.h"

namespace folio::device {

namespace {

template <class Op>
constexpr const char* NameOf() {
  return Op::kName.data();  // of a literal
}

// Calls f with a number of that dtype: F32 or BF16.
template <class F>
void ForLow(Dtype dtype, F f) {
  if (dtype == Dtype::kBF16) {
    f(BF16());
  } else {
    f(float());
  }
}

LaunchShape Grid(const char* name, int64_t count, int64_t per_block, int threads) {
  return {.kernel = name, .blocks = (count + per_block - 1) / per_block, .threads = threads};
}
// With a thread for each of `count` elements, or a warp for each of `count` rows.
LaunchShape ThreadsFor(const char* name, int64_t count, int threads) {
  return Grid(name, count, threads, threads);
}
LaunchShape WarpsFor(const char* name, int64_t count, int threads) {
  return Grid(name, count, threads / kWarp, threads);
}

// Launches a kernel, unless it has nothing to do.
template <class... Parameters, class... Arguments>
void Begin(Queue& queue, const LaunchShape& shape, void (*kernel)(Parameters...),
           const Arguments&... arguments) {
  if (shape.blocks > 0) Launch(queue, shape, kernel, arguments...);
}

template <class T>
RowsOf<T> Rows(const SequenceView& x) {
  return {reinterpret_cast<T*>(x.data), x.T, x.batch_stride, x.row_stride};
}

float Factor(double x) {
  return static_cast<float>(x);
}

// sums += terms over N rows of C columns, if there are sums.
template <class Terms>
void AddColumnSums(Queue& queue, const char* name, const Terms& terms, const Tensor& sums,
                   int64_t N, int64_t C, int threads) {
  if (!sums) return;
  Begin(queue, Grid(name, C, kWarp, threads), AddColumnSumsKernel<Terms>, terms, sums.data<float>(),
        N, C);
}

// The sums of terms over blocks of n elements.
template <class Terms, class Result>
void BlockSums(Queue& queue, const char* name, const Terms& terms, const Result& result, int64_t n,
               int64_t block, int threads) {
  const int parts = SumParts(block);
  LaunchShape shape = Grid(name, n, block, std::min(threads, parts));
  shape.blocks = std::max<int64_t>(shape.blocks, 1);  // the sum of nothing is 0
  shape.shared_bytes = static_cast<size_t>(parts) * sizeof(double);
  Begin(queue, shape, BlockSumsKernel<Terms, Result>, terms, result, n, block, parts);
}

template <class Op>
NormFactor FactorOf(const Op& op, double scale = 1) {
  NormFactor factor = {op.weight.template data<float>(), 0, Factor(scale)};
  if constexpr (requires { op.weight_offset; }) factor.offset = Factor(op.weight_offset);
  return factor;
}

// The dropout of an array of that many columns, whose other elements are multiplied by `factor`.
DropoutArgs DropoutOf(const Dropout& dropout, int64_t columns, double factor) {
  const int64_t first = dropout.Index(0, 0, columns);
  return {.active = dropout.active(),
          .threshold = dropout.threshold(),
          .factor = Factor(dropout.active() ? dropout.scale() * factor : factor),
          .seed = dropout.seed,
          .stream = dropout.stream,
          .first = first,
          .stride = dropout.Index(1, 0, columns) - first};
}

}  // namespace

// ---- Embedding ---------------------------------------------------------------------------------

void BeginKernels(Queue& queue, const EmbeddingForward& op, int threads) {
  ForLow(op.wte.dtype(), [&](auto low) {
    using Weight = decltype(low);
    const EmbeddingForwardArgs<Weight> args = {
        .ids = op.ids.data<int32_t>(),
        .wte = op.wte.data<Weight>(),
        .wpe = op.wpe.data<float>(),
        .out = op.out.data<float>(),
        .N = op.ids.count(),
        .C = op.wte.dim(1),
        .V = op.wte.dim(0),
        .places = {op.positions.data<int32_t>(), op.ids.dim(1)}};
    Begin(queue, ThreadsFor(NameOf<EmbeddingForward>(), op.out.count(), threads),
          EmbeddingForwardKernel<Weight>, args);
  });
}

void BeginKernels(Queue& queue, const EmbeddingBackward& op, int threads) {
  const auto add = [&](const Tensor& sums, const int32_t* positions) {
    if (!sums) return;
    const int64_t rows = sums.dim(0), N = op.ids.count(), C = sums.dim(1);
    const int64_t warps = rows * ((C + kWarp - 1) / kWarp);
    Begin(queue, WarpsFor(NameOf<EmbeddingBackward>(), warps, threads), AddRowsByPlaceKernel,
          Places{positions, op.ids.dim(1)}, op.d_out.data<float>(), sums.data<float>(), rows, N, C);
  };
  add(op.d_wte, op.ids.data<int32_t>());
  add(op.d_wpe, op.positions.data<int32_t>());
}

// ---- Norms -------------------------------------------------------------------------------------

namespace {

template <class Op>
void BeginNorm(Queue& queue, const Op& op, int threads) {
  Tensor bias, mean;  // RMSNorm has none
  if constexpr (requires { op.mean; }) bias = op.bias, mean = op.mean;
  ForLow(op.out.dtype(), [&](auto low) {
    using Low = decltype(low);
    const NormForwardArgs<Low> args = {.x = op.x.template data<float>(),
                                       .factor = FactorOf(op),
                                       .bias = bias.data<float>(),
                                       .out = op.out.template data<Low>(),
                                       .mean = mean.data<float>(),
                                       .rstd = op.rstd.template data<float>(),
                                       .N = op.x.dim(0),
                                       .C = op.x.dim(1),
                                       .eps = Factor(op.eps)};
    Begin(queue, WarpsFor(NameOf<Op>(), args.N, threads), NormForwardKernel<Low>, args);
  });
}

// The sums over rows come first: d_x may be d_out.
template <class Op>
void BeginNormBackward(Queue& queue, const Op& op, int threads) {
  constexpr const char* kName = NameOf<Op>();
  Tensor mean, d_bias;
  if constexpr (requires { op.mean; }) mean = op.mean, d_bias = op.d_bias;
  ForLow(op.d_out.dtype(), [&](auto low) {
    using Low = decltype(low);
    const NormBackwardArgs<Low> args = {.x = op.x.template data<float>(),
                                        .factor = FactorOf(op),
                                        .mean = mean.data<float>(),
                                        .rstd = op.rstd.template data<float>(),
                                        .d_out = op.d_out.template data<Low>(),
                                        .d_x = op.d_x.template data<float>(),
                                        .d_x_low = op.d_x_low.template data<BF16>(),
                                        .N = op.x.dim(0),
                                        .C = op.x.dim(1),
                                        .accumulate = op.accumulate_d_x};
    AddColumnSums(queue, kName, NormWeightTerms<Low>{args}, op.d_weight, args.N, args.C, threads);
    AddColumnSums(queue, kName, NormBiasTerms<Low>{args}, d_bias, args.N, args.C, threads);
    Begin(queue, WarpsFor(kName, args.N, threads), NormBackwardKernel<Low>, args);
  });
}

}  // namespace

void BeginKernels(Queue& queue, const LayerNormForward& op, int threads) {
  BeginNorm(queue, op, threads);
}
void BeginKernels(Queue& queue, const LayerNormBackward& op, int threads) {
  BeginNormBackward(queue, op, threads);
}
void BeginKernels(Queue& queue, const RmsNormForward& op, int threads) {
  BeginNorm(queue, op, threads);
}
void BeginKernels(Queue& queue, const RmsNormBackward& op, int threads) {
  BeginNormBackward(queue, op, threads);
}

namespace {

template <class Low, class Op>
HeadNormArgs<Low> HeadsOf(const Op& op, const SequenceView& x) {
  HeadNormArgs<Low> args = {};
  args.x = Rows<Low>(x);
  args.factor = FactorOf(op, op.scale);
  args.raw = op.raw.template data<Low>();
  args.N = x.B * x.T;
  args.C = args.group = x.C;
  if constexpr (requires { op.rstd; }) {
    args.rstd = op.rstd.template data<float>();
    args.sums = op.sums.template data<float>();
    args.group = op.group;
    args.whole = op.whole;
  }
  if constexpr (requires { op.eps; }) args.eps = Factor(op.eps);
  return args;
}

}  // namespace

void BeginKernels(Queue& queue, const HeadNormForward& op, int threads) {
  ForLow(op.x.dtype, [&](auto low) {
    using Low = decltype(low);
    const HeadNormArgs<Low> args = HeadsOf<Low>(op, op.x);
    Begin(queue, WarpsFor(NameOf<HeadNormForward>(), args.N * (args.C / args.group), threads),
          HeadNormForwardKernel<Low>, args);
  });
}

void BeginKernels(Queue& queue, const HeadNormBackward& op, int threads) {
  constexpr const char* kName = NameOf<HeadNormBackward>();
  ForLow(op.d_x.dtype, [&](auto low) {
    using Low = decltype(low);
    const HeadNormArgs<Low> args = HeadsOf<Low>(op, op.d_x);
    const int64_t groups = args.N * (args.C / args.group);
    AddColumnSums(queue, kName, HeadNormWeightTerms<Low>{args}, op.d_weight, groups, args.group,
                  threads);
    Begin(queue, WarpsFor(kName, groups, threads), HeadNormBackwardKernel<Low>, args);
  });
}

void BeginKernels(Queue& queue, const HeadNormSums& op, int threads) {
  ForLow(op.x.dtype, [&](auto low) {
    using Low = decltype(low);
    const HeadNormArgs<Low> args = HeadsOf<Low>(op, op.x);
    Begin(queue, WarpsFor(NameOf<HeadNormSums>(), args.N, threads), HeadNormSumsKernel<Low>, args,
          op.sums.data<float>());
  });
}

// ---- Rotary positions --------------------------------------------------------------------------

void BeginKernels(Queue& queue, const RotaryAngles& op, int threads) {
  RotaryAnglesArgs args = {};
  args.positions = op.positions.data<int32_t>();
  args.out = op.out.data<float>();
  args.N = op.out.dim(0);
  args.pairs = static_cast<int64_t>(op.inv_freq.size());
  args.factor = op.attention_factor;
  for (; args.first < args.pairs; args.first += args.count) {
    args.count = std::min<int64_t>(kFrequencies, args.pairs - args.first);
    std::copy_n(op.inv_freq.data() + args.first, args.count, args.frequencies.values);
    Begin(queue, ThreadsFor(NameOf<RotaryAngles>(), args.N * args.count, threads),
          RotaryAnglesKernel, args);
  }
}

void BeginKernels(Queue& queue, const Rotary& op, int threads) {
  ForLow(op.x.dtype, [&](auto low) {
    using Low = decltype(low);
    const RotaryArgs<Low> args = {.x = Rows<Low>(op.x),
                                  .table = op.table.data<float>(),
                                  .N = op.x.B * op.x.T,
                                  .H = op.x.C / op.D,
                                  .D = op.D,
                                  .r = op.table.dim(1),
                                  .shared = op.table.dim(0) == op.x.T,
                                  .inverse = op.inverse};
    Begin(queue, ThreadsFor(NameOf<Rotary>(), args.N * args.H * (args.r / 2), threads),
          RotaryKernel<Low>, args);
  });
}

// ---- Activation functions ----------------------------------------------------------------------

void BeginKernels(Queue& queue, const ActivationForward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<ActivationForward>(), op.x.count(), threads),
          ActivationForwardKernel<Low>, op.kind, op.x.data<Low>(), op.out.data<Low>(),
          op.x.count());
  });
}

void BeginKernels(Queue& queue, const ActivationBackward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<ActivationBackward>(), op.x.count(), threads),
          ActivationBackwardKernel<Low>, op.kind, op.x.data<Low>(), op.d_out.data<Low>(),
          op.d_x.data<Low>(), op.x.count());
  });
}

void BeginKernels(Queue& queue, const GatedForward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<GatedForward>(), op.out.count(), threads),
          GatedForwardKernel<Low>, op.kind, op.x.data<Low>(), op.out.data<Low>(), op.out.dim(0),
          op.out.dim(1));
  });
}

void BeginKernels(Queue& queue, const GatedBackward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<GatedBackward>(), op.d_out.count(), threads),
          GatedBackwardKernel<Low>, op.kind, op.x.data<Low>(), op.d_out.data<Low>(),
          op.d_x.data<Low>(), op.d_out.dim(0), op.d_out.dim(1));
  });
}

// ---- Residual ----------------------------------------------------------------------------------

namespace {

// out = residual + dropout(x), or without a residual.
void LaunchResidual(Queue& queue, const char* name, const Tensor& residual, const Tensor& x,
                    const Tensor& out, const DropoutArgs& dropout, int threads) {
  ForLow(x.dtype(), [&](auto in) {
    ForLow(out.dtype(), [&](auto low) {
      using In = decltype(in);
      using Out = decltype(low);
      const ResidualArgs<In, Out> args = {
          residual.data<float>(), x.data<In>(), out.data<Out>(), x.dim(0), x.dim(1), dropout};
      Begin(queue, ThreadsFor(name, x.count(), threads), ResidualKernel<In, Out>, args);
    });
  });
}

}  // namespace

void BeginKernels(Queue& queue, const ResidualForward& op, int threads) {
  LaunchResidual(queue, NameOf<ResidualForward>(), op.residual, op.x, op.out,
                 DropoutOf(op.dropout, op.x.dim(1), op.factor), threads);
}

void BeginKernels(Queue& queue, const ResidualBackward& op, int threads) {
  LaunchResidual(queue, NameOf<ResidualBackward>(), {}, op.d_out, op.d_x,
                 DropoutOf(op.dropout, op.d_out.dim(1), op.factor), threads);
}

// ---- Mix ---------------------------------------------------------------------------------------

namespace {

template <class Op>
MixArgs MixOf(const Op& op) {
  return {.x = op.x.template data<float>(),
          .y = op.y.template data<float>(),
          .x_factor = op.x_factor.template data<float>(),
          .y_factor = op.y_factor.template data<float>(),
          .sign = Factor(op.sign),
          .count = op.x.count()};
}

}  // namespace

void BeginKernels(Queue& queue, const MixForward& op, int threads) {
  Begin(queue, ThreadsFor(NameOf<MixForward>(), op.x.count(), threads), MixForwardKernel, MixOf(op),
        op.out.data<float>());
}

// The sums come first: d_x may be d_out.
void BeginKernels(Queue& queue, const MixBackward& op, int threads) {
  constexpr const char* kName = NameOf<MixBackward>();
  const int64_t count = op.x.count();
  const auto add = [&](const Tensor& x, double sign, const Tensor& sum) {
    if (!sum) return;
    BlockSums(queue, kName, Products{op.d_out.data<float>(), x.data<float>(), sign},
              SumAddedTo{sum.data<float>()}, count, std::max<int64_t>(count, 1), threads);
  };
  add(op.x, 1, op.d_x_factor);
  add(op.y, op.sign, op.d_y_factor);
  Begin(queue, ThreadsFor(kName, count, threads), MixBackwardKernel, MixOf(op),
        op.d_out.data<float>(), op.d_x.data<float>(), op.d_y.data<float>(), op.accumulate_d_y);
}

namespace {

template <class Low, class Op>
GatedAddArgs<Low> GatesOf(const Op& op) {
  const int64_t G = op.weight.dim(0);
  return {.x = op.x.template data<Low>(),
          .weight = op.weight.template data<float>(),
          .y = op.y.template data<float>(),
          .factor = op.factor.template data<float>(),
          .N = op.y.dim(0),
          .X = op.x.dim(1),
          .G = G,
          .J = op.weight.dim(1),
          .D = op.y.dim(1) / G,
          .scale = Factor(op.scale)};
}

}  // namespace

void BeginKernels(Queue& queue, const GatedAddForward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    ForLow(op.out.dtype, [&](auto sum) {
      using Low = decltype(low);
      using Sum = decltype(sum);
      const GatedAddArgs<Low> args = GatesOf<Low>(op);
      Begin(queue, WarpsFor(NameOf<GatedAddForward>(), args.N * args.G, threads),
            GatedAddForwardKernel<Low, Sum>, args, Rows<Sum>(op.out));
    });
  });
}

namespace {

// The sums come first: d_x may be d_out, and d_y may be y.
template <class Low, class Sum, class Input>
void LaunchGatedAddBackward(Queue& queue, const GatedAddBackward& op, int threads) {
  constexpr const char* kName = NameOf<GatedAddBackward>();
  const GatedAddArgs<Low> args = GatesOf<Low>(op);
  const GatedAddGradients<Low, Sum> d = {args, Rows<const Sum>(op.d_out)};
  AddColumnSums(queue, kName, GateWeightTerms<Low, Sum>{d}, op.d_weight, args.N, args.G * args.J,
                threads);
  if (op.d_factor) {
    const int64_t gates = args.N * args.G;
    BlockSums(queue, kName, GateFactorTerms<Low, Sum>{d}, SumAddedTo{op.d_factor.data<float>()},
              gates, std::max<int64_t>(gates, 1), threads);
  }
  LaunchShape shape = WarpsFor(kName, args.N, threads);
  shape.shared_bytes = static_cast<size_t>(threads / kWarp * args.G) * sizeof(float);
  Begin(queue, shape, GatedAddBackwardKernel<Low, Sum, Input>, args, d.d_out, op.d_y.data<float>(),
        op.d_x.data<Input>());
}

}  // namespace

void BeginKernels(Queue& queue, const GatedAddBackward& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    ForLow(op.d_out.dtype, [&](auto sum) {
      ForLow(op.d_x.dtype(), [&](auto input) {
        LaunchGatedAddBackward<decltype(low), decltype(sum), decltype(input)>(queue, op, threads);
      });
    });
  });
}

// ---- Loss --------------------------------------------------------------------------------------

void BeginKernels(Queue& queue, const LogitCap& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<LogitCap>(), op.x.count(), threads), LogitCapKernel<Low>,
          op.x.data<Low>(), op.x.count(), Factor(op.cap));
  });
}

namespace {

// Calls f with the arguments of a loss, for its dtypes.
template <class Op, class F>
void ForLoss(const Op& op, F f) {
  ForLow(op.logits.dtype(), [&](auto logit) {
    ForLow(op.d_logits ? op.d_logits.dtype() : Dtype::kF32, [&](auto gradient) {
      const int64_t W = op.logits.dim(1);
      f(CrossEntropyArgs<decltype(logit), decltype(gradient)>{
          .logits = op.logits.template data<decltype(logit)>(),
          .targets = op.targets.template data<int32_t>(),
          .d_logits = op.d_logits.template data<decltype(gradient)>(),
          .N = op.logits.dim(0),
          .V = op.V > 0 ? op.V : W,
          .W = W,
          .scale = Factor(op.scale),
          .cap = Factor(op.cap)});
    });
  });
}

}  // namespace

void BeginKernels(Queue& queue, const CrossEntropy& op, int threads) {
  ForLoss(op, [&]<class Logit, class Gradient>(const CrossEntropyArgs<Logit, Gradient>& args) {
    Begin(queue, WarpsFor(NameOf<CrossEntropy>(), args.N, threads),
          CrossEntropyKernel<Logit, Gradient>, args, op.losses.data<float>(), op.lse.data<float>());
  });
}

void BeginKernels(Queue& queue, const CrossEntropyBackward& op, int threads) {
  ForLoss(op, [&]<class Logit, class Gradient>(const CrossEntropyArgs<Logit, Gradient>& args) {
    Begin(queue, WarpsFor(NameOf<CrossEntropyBackward>(), args.N, threads),
          CrossEntropyBackwardKernel<Logit, Gradient>, args, op.lse.data<float>());
  });
}

// ---- Optimizer, and what else goes through an array --------------------------------------------

void BeginKernels(Queue& queue, const AdamWUpdate& op, int threads) {
  const auto step = static_cast<double>(op.step);
  const AdamWArgs args = {.param = op.param.data<float>(),
                          .grad = op.grad.data<float>(),
                          .m = op.m.data<float>(),
                          .v = op.v.data<float>(),
                          .low = op.low.data<BF16>(),
                          .count = op.param.count(),
                          .lr = Factor(op.lr),
                          .beta1 = Factor(op.beta1),
                          .beta2 = Factor(op.beta2),
                          .eps = Factor(op.eps),
                          .rest1 = Factor(1 - op.beta1),
                          .rest2 = Factor(1 - op.beta2),
                          .decay = Factor(1 - op.lr * op.weight_decay),
                          .m_correction = Factor(1 - std::pow(op.beta1, step)),
                          .v_correction = Factor(1 - std::pow(op.beta2, step)),
                          .grad_scale = Factor(op.grad_scale)};
  Begin(queue, ThreadsFor(NameOf<AdamWUpdate>(), args.count, threads), AdamWKernel, args);
}

void BeginKernels(Queue& queue, const SumOfElements& op, int threads) {
  constexpr const char* kName = NameOf<SumOfElements>();
  const int64_t n = op.x.count(), block = std::max<int64_t>(n, 1);
  const SumsInto result = {op.out.data<double>()};
  if (op.x.dtype() == Dtype::kF64) {
    BlockSums(queue, kName, Elements<double>{op.x.data<double>()}, result, n, block, threads);
  } else {
    BlockSums(queue, kName, Elements<float>{op.x.data<float>()}, result, n, block, threads);
  }
}

void BeginKernels(Queue& queue, const SumOfSquares& op, int threads) {
  const int64_t n = op.x.count();
  BlockSums(queue, NameOf<SumOfSquares>(), Squares{op.x.data<float>()},
            SumsInto{op.out.data<double>()}, n, op.block > 0 ? op.block : std::max<int64_t>(n, 1),
            threads);
}

void BeginKernels(Queue& queue, const Scale& op, int threads) {
  ForLow(op.x.dtype(), [&](auto low) {
    using Low = decltype(low);
    Begin(queue, ThreadsFor(NameOf<Scale>(), op.x.count(), threads), ScaleKernel<Low>,
          op.x.data<Low>(), op.x.count(), Factor(op.factor));
  });
}

void BeginKernels(Queue& queue, const CopyColumns& op, int threads) {
  const int64_t N = op.x.B * op.x.T;
  Begin(queue, ThreadsFor(NameOf<CopyColumns>(), N * op.x.C, threads), CopyColumnsKernel,
        Rows<const float>(op.x), Rows<float>(op.out), N, op.x.C, op.accumulate);
}

void BeginKernels(Queue& queue, const Fill& op, int threads) {
  Begin(queue, ThreadsFor(NameOf<Fill>(), op.out.count(), threads), FillKernel,
        op.out.data<float>(), op.out.count(), Factor(op.value));
}

}  // namespace folio::device
