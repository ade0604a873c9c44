#include "folio/bench/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>

#include "folio/backend/operands.h"
#include "folio/backend/ops.h"
#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/model/config.h"
#include "folio/model/decoder.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/optimizer.h"

namespace folio {
namespace {

// Elements that a thread takes at a time: they fit in any cache, and are worth the synchronisation.
constexpr int64_t kPassGrain = 1 << 15;

constexpr MatmulShape kGpt2[] = {
    {1024, 768, 2304}, {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}, {256, 768, 50257}};
constexpr MatmulShape kSmall[] = {{768, 128, 384}, {768, 128, 128}, {768, 128, 512},
                                  {768, 512, 128}, {768, 128, 65},  {1, 128, 512}};

// Growing, so that each shape predicts the time of the next.
constexpr MatmulShape kPeak[] = {{64, 256, 256},     {256, 768, 768},    {1024, 1024, 1024},
                                 {1024, 1024, 4096}, {1024, 4096, 1024}, {2048, 2048, 2048}};

// A plan of these arrays, with ids 0, 1, ...
MemoryPlan PlanOf(std::initializer_list<std::pair<Dtype, Shape>> arrays) {
  MemoryPlan plan;
  for (const auto& [dtype, shape] : arrays) plan.Add("array", dtype, shape);
  plan.Place();
  return plan;
}

// Numbers in [-0.5, 0.5], of either sign: float32 or bfloat16.
void FillArray(const Tensor& tensor) {
  constexpr int64_t kDistinct = 1009, kStep = 7;
  const HostEdit edit(tensor, HostEdit::kDiscard);
  const Tensor& numbers = edit.tensor();
  ParallelRange(tensor.count(), kPassGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float x = static_cast<float>(i * kStep % kDistinct) / (kDistinct - 1) - 0.5f;
      if (tensor.dtype() == Dtype::kBF16) {
        numbers.host<BF16>()[i] = ToBF16(x);
      } else {
        numbers.host<float>()[i] = x;
      }
    }
  });
  edit.Send();
}

// Runs rounds, each of which adds to the timings that it gets: one that does not count, then at
// least three, for at least `seconds`.
template <class Timings, class Round>
Timings TakeTurns(Timings timings, double seconds, const Round& round) {
  constexpr int kFewestRounds = 3;
  Timings warm_up = timings;
  round(warm_up);
  const double begin = SteadySeconds();
  for (int i = 0; i < kFewestRounds || SteadySeconds() - begin < seconds; ++i) round(timings);
  return timings;
}

template <class F>
void Time(Timing& timing, F&& run) {
  timing.seconds.push_back(SecondsOf(run));
}

// The time until operations that run() begins are done.
template <class F>
void Time(Backend& backend, Timing& timing, F&& run) {
  Time(timing, [&] {
    run();
    backend.Wait();
  });
}

double FlopsOf(const MatmulShape& shape) {
  return 2.0 * static_cast<double>(shape.N) * static_cast<double>(shape.I) *
         static_cast<double>(shape.O);
}

// The three products of one shape and dtype.
class Products {
 public:
  static constexpr std::string_view kNames[] = {"x W", "d_out W^T", "x^T d_out"};

  Products(Backend& backend, const MatmulShape& shape, Dtype dtype) {
    const auto& [N, I, O] = shape;
    const MemoryPlan plan = PlanOf({{dtype, {N, I}},
                                    {Dtype::kF32, {I, O}},
                                    {dtype, {N, O}},
                                    {dtype, {N, I}},
                                    {dtype, {N, O}},
                                    {Dtype::kF32, {I, O}}});
    arena_ = Arena(plan, backend.memory());
    MemoryPlan::Id id = 0;
    for (Tensor* array : {&x_, &weight_, &out_, &d_x_, &d_out_, &d_weight_}) {
      *array = arena_.Get(plan, id++);
      FillArray(*array);
    }
  }

  void Run(Backend& backend, size_t product) const {
    if (product == 0) backend.Run(LinearForward{.x = x_, .weight = weight_, .out = out_});
    if (product == 1) {
      backend.Run(LinearBackward{.weight = weight_, .d_out = d_out_, .d_x = d_x_});
    }
    if (product == 2) {
      backend.Run(
          LinearBackward{.x = x_, .weight = weight_, .d_out = d_out_, .d_weight = d_weight_});
    }
  }

 private:
  Arena arena_;
  Tensor x_, weight_, out_, d_x_, d_out_, d_weight_;
};

// `shape`, or on a slow backend one with fewer rows.
MatmulShape FitToSpeed(Backend& backend, MatmulShape shape) {
  constexpr double kTooLong = 1;
  constexpr int64_t kFewRows = 16;
  if (shape.N <= kFewRows) return shape;
  // The rate of a little product, as its weight alone may be too much for a slow backend.
  constexpr MatmulShape kLittle = {kFewRows, 128, 128};
  const Products probe(backend, kLittle, Dtype::kF32);
  probe.Run(backend, 0);
  backend.Wait();
  Timing timing;
  Time(backend, timing, [&] { probe.Run(backend, 0); });
  const double seconds = timing.seconds.front();
  if (FlopsOf(shape) / FlopsOf(kLittle) * seconds > kTooLong) shape.N = kFewRows;
  return shape;
}

// The arrays qkv, out, lse, d_out and d_qkv.
MemoryPlan AttentionPlan(const AttentionShape& shape) {
  const HeadLayout heads{shape.H, shape.H, shape.D};
  const int64_t N = shape.B * shape.T;
  return PlanOf({{shape.dtype, {N, heads.qkv_width()}},
                 {shape.dtype, {N, heads.q_width()}},
                 {Dtype::kF32, {shape.B, shape.H, shape.T}},
                 {shape.dtype, {N, heads.q_width()}},
                 {shape.dtype, {N, heads.qkv_width()}}});
}

// Reads an array on all threads; the sum keeps the compiler from leaving that out.
uint32_t ReadAll(const float* x, int64_t n) {
  std::atomic<uint32_t> total = 0;
  ParallelRange(n, kPassGrain, [&](int64_t begin, int64_t end, int) {
    uint32_t sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, x + i, sizeof(bits));
      sum += bits;
    }
    total.fetch_add(sum, std::memory_order_relaxed);
  });
  return total;
}

// Copies an array to another one of its size on all threads.
void CopyAll(const Tensor& from, const Tensor& to) {
  if (!from.on_host()) return CopyElements(from, to);
  ParallelRange(static_cast<int64_t>(from.bytes()), kPassGrain * int64_t{sizeof(float)},
                [&](int64_t begin, int64_t end, int) {
                  std::memcpy(to.host_bytes() + begin, from.host_bytes() + begin,
                              static_cast<size_t>(end - begin));
                });
}

MemoryPlan RowPlan(const RowShape& s) {
  const Shape channels = {s.N, s.C}, both = {s.N, 2 * s.F};
  return PlanOf({{Dtype::kF32, channels},          // x
                 {Dtype::kF32, channels},          // d_x
                 {s.dtype, channels},              // a norm's result, or the gradient of that
                 {s.dtype, channels},              // heads
                 {s.dtype, channels},              // heads as they were
                 {s.dtype, both},                  // gate and up
                 {s.dtype, both},                  // their gradients
                 {s.dtype, {s.N, s.F}},            // what the gate lets through, or its gradient
                 {Dtype::kF32, {s.N}},             // mean
                 {Dtype::kF32, {s.N}},             // rstd
                 {Dtype::kF32, {s.N, s.C / s.D}},  // rstd of heads
                 {Dtype::kF32, {s.N, s.D}},        // angles
                 {Dtype::kF32, {s.C}},             // weight
                 {Dtype::kF32, {s.C}},             // d_weight
                 {Dtype::kF32, {s.C}}});           // d_bias
}

Shards OneBucket(int64_t parameters) {
  return Shards({{.begin = 0, .end = parameters}}, /*ranks=*/1);
}

MemoryPlan ParametersAndGradients(int64_t parameters) {
  return PlanOf({{Dtype::kF32, {parameters}}, {Dtype::kF32, {parameters}}});
}

// The bytes of the matrices that each token multiplies with: without embeddings, unless they are
// the head too.
double WeightBytes(const GptWeights& weights) {
  double bytes = 0;
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const ParamKind kind = weights.table().params()[i].kind;
    if (kind == ParamKind::kEmbedding) continue;
    bytes += static_cast<double>(weights.tensors()[i].bytes());
  }
  return bytes;
}

}  // namespace

std::span<const MatmulShape> Gpt2Matmuls() {
  return kGpt2;
}

std::span<const MatmulShape> SmallMatmuls() {
  return kSmall;
}

std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds) {
  FOLIO_CHECK(!dtypes.empty(), "no dtypes");
  std::vector<MatmulRate> all;
  for (const MatmulShape& asked : shapes) {
    const MatmulShape shape = FitToSpeed(backend, asked);
    std::vector<Products> products;
    std::vector<MatmulRate> rates;
    for (const Dtype dtype : dtypes) {
      products.emplace_back(backend, shape, dtype);
      for (const std::string_view name : Products::kNames) {
        rates.push_back({shape, name, dtype, {.work = FlopsOf(shape)}});
      }
    }
    const double together = seconds * static_cast<double>(rates.size());
    rates = TakeTurns(std::move(rates), together, [&](std::vector<MatmulRate>& to) {
      for (size_t i = 0; i < to.size(); ++i) {
        Time(backend, to[i].timing, [&] { products[i / 3].Run(backend, i % 3); });
      }
    });
    std::ranges::move(rates, std::back_inserter(all));
  }
  return all;
}

double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds) {
  constexpr double kRuns = 5;
  const double begin = SteadySeconds();
  double peak = 0;
  for (const MatmulShape& shape : kPeak) {
    // A run that does not count comes first.
    const double expected = peak > 0 ? FlopsOf(shape) / peak : 0;
    if (peak > 0 && SteadySeconds() - begin + expected * (kRuns + 1) > seconds) break;
    const Products products(backend, shape, dtype);
    products.Run(backend, 0);
    backend.Wait();
    Timing timing{.work = FlopsOf(shape)};
    for (int i = 0; i < kRuns; ++i) Time(backend, timing, [&] { products.Run(backend, 0); });
    peak = std::max(peak, timing.rate());
  }
  return peak;
}

uint64_t AttentionBytes(const AttentionShape& shape) {
  return AttentionPlan(shape).arena_bytes();
}

AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds) {
  const HeadLayout heads{shape.H, shape.H, shape.D};
  const MemoryPlan plan = AttentionPlan(shape);
  const Arena arena(plan, backend.memory());
  const auto array = [&](MemoryPlan::Id id) { return arena.Get(plan, id); };
  const auto columns = [&](MemoryPlan::Id id, const ColumnRange& range) {
    return View(array(id), shape.B, shape.T, range);
  };
  FillArray(array(0));
  FillArray(array(3));
  const Dropout dropout{.p = shape.dropout, .seed = 1};
  const AttentionForward forward{.q = columns(0, heads.q()),
                                 .k = columns(0, heads.k()),
                                 .v = columns(0, heads.v()),
                                 .out = columns(1, heads.q()),
                                 .lse = array(2),
                                 .H = shape.H,
                                 .dropout = dropout};
  const AttentionBackward backward{.q = forward.q,
                                   .k = forward.k,
                                   .v = forward.v,
                                   .out = forward.out,
                                   .lse = forward.lse,
                                   .d_out = columns(3, heads.q()),
                                   .d_q = columns(4, heads.q()),
                                   .d_k = columns(4, heads.k()),
                                   .d_v = columns(4, heads.v()),
                                   .H = shape.H,
                                   .dropout = dropout};
  const AttentionRate rate{.shape = shape,
                           .forward = {.work = forward.Flops()},
                           .backward = {.work = backward.Flops()},
                           .planned_bytes = plan.arena_bytes()};
  return TakeTurns(rate, seconds, [&](AttentionRate& to) {
    Time(backend, to.forward, [&] { backend.Run(forward); });
    Time(backend, to.backward, [&] { backend.Run(backward); });
  });
}

uint64_t RowBytes(const RowShape& shape) {
  return RowPlan(shape).arena_bytes();
}

std::vector<RowRate> MeasureRows(Backend& backend, const RowShape& shape, double seconds) {
  const auto& [N, C, D, F, dtype] = shape;
  const MemoryPlan plan = RowPlan(shape);
  const Arena arena(plan, backend.memory());
  Tensor x, d_x, out, heads, raw, gates, d_gates, gated, mean, rstd, head_rstd, angles, weight,
      d_weight, d_bias;
  MemoryPlan::Id id = 0;
  for (Tensor* array : {&x, &d_x, &out, &heads, &raw, &gates, &d_gates, &gated, &mean, &rstd,
                        &head_rstd, &angles, &weight, &d_weight, &d_bias}) {
    *array = arena.Get(plan, id++);
    FillArray(*array);
  }
  backend.Run(Fill{.out = weight, .value = 1});  // repeated results keep their magnitude
  std::vector<float> inv_freq(static_cast<size_t>(D / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = static_cast<float>(std::pow(1e4, -2.0 * static_cast<double>(i) / D));
  }
  const SequenceView rows(heads, 1, N, 0, C);
  std::vector<RowRate> rates;
  std::vector<std::function<void()>> runs;
  const auto add = [&, dtype = dtype](const auto& op) {
    double bytes = 0;
    for (const Operand& operand : Operands(op)) {
      bytes += static_cast<double>(operand.bytes()) * (operand.access == Access::kUpdate ? 2 : 1);
    }
    rates.push_back({std::decay_t<decltype(op)>::kName, dtype, {bytes}});
    runs.emplace_back([&backend, op] { backend.Run(op); });
  };
  add(LayerNormForward{
      .x = x, .weight = weight, .bias = d_bias, .out = out, .mean = mean, .rstd = rstd});
  add(LayerNormBackward{.x = x,
                        .weight = weight,
                        .mean = mean,
                        .rstd = rstd,
                        .d_out = out,
                        .d_x = d_x,
                        .d_weight = d_weight,
                        .d_bias = d_bias});
  add(RmsNormForward{.x = x, .weight = weight, .out = out, .rstd = rstd});
  add(RmsNormBackward{
      .x = x, .weight = weight, .rstd = rstd, .d_out = out, .d_x = d_x, .d_weight = d_weight});
  add(HeadNormForward{
      .x = rows, .weight = weight.Slice(0, D), .raw = raw, .rstd = head_rstd, .group = D});
  add(HeadNormBackward{.raw = raw,
                       .weight = weight.Slice(0, D),
                       .rstd = head_rstd,
                       .d_x = rows,
                       .d_weight = d_weight.Slice(0, D),
                       .group = D});
  add(RotaryAngles{.inv_freq = inv_freq, .out = angles});
  add(Rotary{.x = rows, .table = angles, .D = D});
  add(GatedForward{.x = gates, .out = gated});
  add(GatedBackward{.x = gates, .d_out = gated, .d_x = d_gates});
  add(ResidualForward{.residual = x, .x = out, .out = x});
  add(LogitCap{.x = x, .cap = 30});
  rates.push_back({"copy", dtype, {2 * static_cast<double>(gates.bytes())}});
  runs.emplace_back([&] { CopyAll(gates, d_gates); });
  return TakeTurns(std::move(rates), seconds, [&](std::vector<RowRate>& to) {
    for (size_t i = 0; i < runs.size(); ++i) Time(backend, to[i].timing, runs[i]);
  });
}

uint64_t OptimizerBytes(int64_t parameters) {
  MemoryPlan plan = ParametersAndGradients(parameters);
  Optimizer::AddTo(plan, {}, Dtype::kF32, OneBucket(parameters));
  plan.Place();
  return plan.arena_bytes();
}

OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds) {
  const MemoryPlan plan = ParametersAndGradients(parameters);
  const Arena arena(plan, backend.memory());
  const Tensor param = arena.Get(plan, 0), grad = arena.Get(plan, 1);
  Optimizer optimizer(backend, {}, Dtype::kF32, OneBucket(parameters));
  FillArray(param);
  const HostCopy numbers(grad);
  double sum = 0;
  const DeviceCopy squares(Tensor(&sum, {1}), "squares", backend.memory());
  int64_t step = 0;
  const double array = static_cast<double>(parameters) * sizeof(float);
  const int64_t passes = UpdatePasses(optimizer.settings(), ParamGroup::kDecayed);
  const OptimizerRates rates{.norm = {array},
                             .adamw = {static_cast<double>(passes) * array},
                             .read = {array},
                             .copy = {2 * array}};
  return TakeTurns(rates, seconds, [&](OptimizerRates& to) {
    // Copying makes the gradients, so that they are never zero where AdamW sees them.
    Time(to.copy, [&] { CopyAll(param, grad); });
    Time(to.read, [&] { ReadAll(numbers.elements<float>().data(), parameters); });
    Time(backend, to.norm, [&] { backend.Run(SumOfSquares{.x = grad, .out = squares.tensor()}); });
    Time(backend, to.adamw, [&] { optimizer.Step({.lr = 1e-5, .step = ++step}, 0, param, grad); });
  });
}

GenerationTimings MeasureGeneration(Backend& backend, const GptWeights& weights,
                                    const BenchGenerateOptions& options) {
  constexpr int64_t kTokens = 8, kBehind = 10, kSteps = 4;
  const GptConfig& config = weights.config();
  const int64_t P = config.n_positions;
  const double weight_bytes = WeightBytes(weights);
  GenerationTimings timings{.cache = options.cache.value_or(Dtype::kF32),
                            .prompt = {static_cast<double>(std::min(options.prompt_tokens, P))},
                            .read = {weight_bytes}};
  for (const int64_t position : options.positions) {
    FOLIO_CHECK(position >= 0 && position < P, "position outside of the context");
    const int64_t cached = 2 * config.n_layer * config.head_layout().kv_width() * position;
    timings.tokens.push_back(
        {position, {weight_bytes + static_cast<double>(DtypeBytes(timings.cache, cached))}});
  }
  for (const int64_t sequences : options.batches) {
    timings.batches.push_back({static_cast<double>(sequences)});
  }
  std::vector<int32_t> ids(static_cast<size_t>(P));  // any do
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * 7919 + 1) % static_cast<size_t>(config.vocab_size));
  }
  const auto first = [&](int64_t count) {
    return std::span(ids).first(static_cast<size_t>(count));
  };
  const auto read_floats = static_cast<int64_t>(weight_bytes) / int64_t{sizeof(float)} + 1;
  const auto memory = std::make_unique<float[]>(static_cast<size_t>(read_floats));
  const int64_t most = options.batches.empty() ? 1 : std::ranges::max(options.batches);
  Decoder decoder(backend, weights,
                  {.cache = options.cache, .pages = KvCache::PagesOf(config, P) + most});
  return TakeTurns(std::move(timings), options.seconds, [&](GenerationTimings& to) {
    Time(to.read, [&] { ReadAll(memory.get(), read_floats); });
    {
      CachedSequence text(decoder.cache());
      Time(to.prompt, [&] { decoder.Append(text, first(static_cast<int64_t>(to.prompt.work))); });
    }
    for (auto& [position, timing] : to.tokens) {
      CachedSequence text(decoder.cache());
      text.Recall(first(position));
      decoder.Read(text, first(position).subspan(static_cast<size_t>(text.size())));
      for (int64_t i = 0; i < kTokens && text.size() < P; ++i) {
        Time(timing, [&] { decoder.Append(text, first(1)); });
      }
    }
    for (Timing& timing : to.batches) {
      std::vector<CachedSequence> texts;
      std::vector<SequencePiece> pieces;
      for (int64_t i = 0; i < static_cast<int64_t>(timing.work); ++i) {
        texts.emplace_back(decoder.cache());
        decoder.Read(texts.back(), first(std::min(kBehind, P - 1)));
      }
      for (CachedSequence& text : texts) pieces.push_back({&text, first(1)});
      for (int64_t i = 0; i < kSteps && texts[0].size() < P; ++i) {
        Time(timing, [&] { decoder.Append(pieces); });
      }
    }
  });
}

std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend) {
  FOLIO_CHECK(name == "fp32" || name == "bf16" || name == "both", "another dtype");
  std::vector<Dtype> dtypes;
  if (name != "bf16") dtypes.push_back(Dtype::kF32);
  if (name != "fp32" && backend.Supports(Dtype::kBF16)) dtypes.push_back(Dtype::kBF16);
  if (dtypes.empty()) {
    throw UsageError(fmt::format("backend {} does not support {}", backend.name(), name), {},
                     "use --dtype fp32, or --backend cpu");
  }
  return dtypes;
}

}  // namespace folio
