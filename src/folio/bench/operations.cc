#include "folio/bench/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/plan.h"
#include "folio/train/config.h"
#include "folio/train/optimizer.h"

namespace folio {
namespace {

constexpr size_t kFewestRuns = 3;  // of each operation
// Elements that one thread takes at a time: small beside any cache, large beside the taking.
constexpr int64_t kPassGrain = 1 << 15;

constexpr MatmulShape kGpt2[] = {
    {1024, 768, 2304}, {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}, {256, 768, 50257}};
constexpr MatmulShape kSmall[] = {{768, 128, 384}, {768, 128, 128}, {768, 128, 512},
                                  {768, 512, 128}, {768, 128, 65},  {1, 128, 512}};

// Growing, each near what the one before it lets expect.
constexpr MatmulShape kPeak[] = {{64, 256, 256},     {256, 768, 768},    {1024, 1024, 1024},
                                 {1024, 1024, 4096}, {1024, 4096, 1024}, {2048, 2048, 2048}};

// In [-0.5, 0.5], of either sign.
float NumberAt(size_t i, size_t step) {
  constexpr size_t kDistinct = 1009;
  return static_cast<float>(i * step % kDistinct) / (kDistinct - 1) - 0.5f;
}

// Sets each element, float32 or bfloat16, to number_at of its index.
template <class F>
void Fill(const Tensor& tensor, const F& number_at) {
  const auto count = static_cast<size_t>(tensor.count());
  for (size_t i = 0; i < count; ++i) {
    if (tensor.dtype() == Dtype::kBF16) {
      tensor.data<BF16>()[i] = ToBF16(number_at(i));
    } else {
      tensor.data<float>()[i] = number_at(i);
    }
  }
}

// An array of float32 or bfloat16 numbers.
class Numbers {
 public:
  Numbers(Dtype dtype, Shape shape, size_t step)
      : memory_(
            std::make_unique<std::byte[]>(static_cast<size_t>(shape.count()) * DtypeSize(dtype))),
        tensor_(memory_.get(), dtype, shape) {
    Fill(tensor_, [&](size_t i) { return NumberAt(i, step); });
  }

  const Tensor& tensor() const { return tensor_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Tensor tensor_;
};

// The operands of the products of one shape and dtype.
class MatmulOperands {
 public:
  MatmulOperands(MatmulShape shape, Dtype dtype)
      : shape_(shape),
        dtype_(dtype),
        x_(dtype, {shape.N, shape.I}, 7),
        weight_(Dtype::kF32, {shape.I, shape.O}, 11),
        out_(dtype, {shape.N, shape.O}, 1),
        d_x_(dtype, {shape.N, shape.I}, 1),
        d_out_(dtype, {shape.N, shape.O}, 13),
        d_weight_(Dtype::kF32, {shape.I, shape.O}, 17) {}

  // Seconds of one run.
  double Run(Backend& backend, MatmulKind kind) const {
    const double begin = SteadySeconds();
    switch (kind) {
      case MatmulKind::kForward:
        backend.Run(
            LinearForward{.x = x_.tensor(), .weight = weight_.tensor(), .out = out_.tensor()});
        break;
      case MatmulKind::kInputGradient:
        backend.Run(LinearBackward{
            .weight = weight_.tensor(), .d_out = d_out_.tensor(), .d_x = d_x_.tensor()});
        break;
      case MatmulKind::kWeightGradient:
        backend.Run(LinearBackward{.x = x_.tensor(),
                                   .weight = weight_.tensor(),
                                   .d_out = d_out_.tensor(),
                                   .d_weight = d_weight_.tensor()});
        break;
    }
    return SteadySeconds() - begin;
  }

  Matmul product(MatmulKind kind) const { return {shape_, kind, dtype_}; }

 private:
  MatmulShape shape_;
  Dtype dtype_;
  Numbers x_, weight_, out_, d_x_, d_out_, d_weight_;
};

// `shape`, or on a slow backend one with fewer rows.
MatmulShape FitToSpeed(Backend& backend, MatmulShape shape) {
  constexpr double kTooLong = 1;
  constexpr int64_t kFewRows = 16;
  if (shape.N <= kFewRows) return shape;
  // The rate of a little product, as its weight alone may be too much for a slow backend.
  const MatmulOperands probe({kFewRows, 128, 128}, Dtype::kF32);
  probe.Run(backend, MatmulKind::kForward);
  const double rate =
      probe.product(MatmulKind::kForward).flops() / probe.Run(backend, MatmulKind::kForward);
  if (Matmul{.shape = shape}.flops() / rate > kTooLong) shape.N = kFewRows;
  return shape;
}

MatmulRate RateOf(const Matmul& product, const std::vector<double>& runs) {
  return {product, Median(runs), Percentile(runs, 0)};
}

void MeasureShape(Backend& backend, MatmulShape shape, std::span<const Dtype> dtypes,
                  double seconds, std::vector<MatmulRate>& rates) {
  struct Entrant {
    const MatmulOperands* operands;
    MatmulKind kind;
    std::vector<double> runs;
  };
  std::vector<std::unique_ptr<MatmulOperands>> operands;
  std::vector<Entrant> entrants;
  for (const Dtype dtype : dtypes) {
    operands.push_back(std::make_unique<MatmulOperands>(shape, dtype));
    for (const MatmulKind kind : kMatmulKinds)
      entrants.push_back({operands.back().get(), kind, {}});
  }
  for (const Entrant& entrant : entrants) entrant.operands->Run(backend, entrant.kind);
  const double enough = seconds * static_cast<double>(entrants.size());
  for (double sum = 0; sum < enough || entrants.back().runs.size() < kFewestRuns;) {
    for (Entrant& entrant : entrants) {
      entrant.runs.push_back(entrant.operands->Run(backend, entrant.kind));
      sum += entrant.runs.back();
    }
  }
  for (const Entrant& entrant : entrants) {
    rates.push_back(RateOf(entrant.operands->product(entrant.kind), entrant.runs));
  }
}

}  // namespace

std::string_view MatmulKindName(MatmulKind kind) {
  static constexpr std::string_view kNames[] = {"x W", "d_out W^T", "x^T d_out"};
  return kNames[static_cast<int>(kind)];
}

double Matmul::flops() const {
  return 2.0 * static_cast<double>(shape.N) * static_cast<double>(shape.I) *
         static_cast<double>(shape.O);
}

std::span<const MatmulShape> Gpt2Matmuls() {
  return kGpt2;
}

std::span<const MatmulShape> SmallMatmuls() {
  return kSmall;
}

std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds) {
  FOLIO_CHECK(!dtypes.empty(), "no dtypes");
  std::vector<MatmulRate> rates;
  for (const MatmulShape& shape : shapes) {
    MeasureShape(backend, FitToSpeed(backend, shape), dtypes, seconds, rates);
  }
  return rates;
}

double PeakOf(Dtype dtype, std::span<const MatmulRate> rates) {
  double peak = 0;
  for (const MatmulRate& rate : rates) {
    if (rate.product.dtype == dtype) peak = std::max(peak, rate.flops_per_second());
  }
  return peak;
}

double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds) {
  constexpr double kRuns = 5;
  const double begin = SteadySeconds();
  double peak = 0;
  for (const MatmulShape& shape : kPeak) {
    // A run that does not count comes first.
    const double expected = peak > 0 ? Matmul{.shape = shape}.flops() / peak : 0;
    if (peak > 0 && SteadySeconds() - begin + expected * (kRuns + 1) > seconds) break;
    const MatmulOperands operands(shape, dtype);
    operands.Run(backend, MatmulKind::kForward);
    std::vector<double> runs;
    for (int i = 0; i < kRuns; ++i) runs.push_back(operands.Run(backend, MatmulKind::kForward));
    peak = std::max(peak, RateOf(operands.product(MatmulKind::kForward), runs).flops_per_second());
  }
  return peak;
}

namespace {

// The arrays, and the operations on them.
class AttentionBench {
 public:
  explicit AttentionBench(const AttentionShape& shape)
      : shape_(shape), heads_{shape.H, shape.H, shape.D} {
    const int64_t N = shape.B * shape.T;
    qkv_ = plan_.Add("qkv", shape.dtype, {N, heads_.qkv_width()});
    out_ = plan_.Add("out", shape.dtype, {N, heads_.q_width()});
    lse_ = plan_.Add("lse", Dtype::kF32, {shape.B, shape.H, shape.T});
    d_out_ = plan_.Add("d_out", shape.dtype, {N, heads_.q_width()});
    d_qkv_ = plan_.Add("d_qkv", shape.dtype, {N, heads_.qkv_width()});
    plan_.Place();
  }

  uint64_t bytes() const { return plan_.arena_bytes(); }

  void Allocate() {
    arena_ = Arena(plan_);
    FillRandom(arena_.Get(plan_, qkv_), 1);
    FillRandom(arena_.Get(plan_, d_out_), 2);
  }

  AttentionForward Forward() const {
    return {.q = Columns(qkv_, heads_.q()),
            .k = Columns(qkv_, heads_.k()),
            .v = Columns(qkv_, heads_.v()),
            .out = Columns(out_, heads_.q()),
            .lse = arena_.Get(plan_, lse_),
            .H = shape_.H,
            .dropout = DropoutHere()};
  }

  AttentionBackward Backward() const {
    return {.q = Columns(qkv_, heads_.q()),
            .k = Columns(qkv_, heads_.k()),
            .v = Columns(qkv_, heads_.v()),
            .out = Columns(out_, heads_.q()),
            .lse = arena_.Get(plan_, lse_),
            .d_out = Columns(d_out_, heads_.q()),
            .d_q = Columns(d_qkv_, heads_.q()),
            .d_k = Columns(d_qkv_, heads_.k()),
            .d_v = Columns(d_qkv_, heads_.v()),
            .H = shape_.H,
            .dropout = DropoutHere()};
  }

 private:
  Dropout DropoutHere() const { return {.p = shape_.dropout, .seed = 1}; }

  SequenceView Columns(MemoryPlan::Id id, const ColumnRange& columns) const {
    return View(arena_.Get(plan_, id), shape_.B, shape_.T, columns);
  }

  // Uniform in [-1, 1).
  static void FillRandom(const Tensor& tensor, uint64_t stream) {
    const CounterRng rng(1, stream);
    Fill(tensor, [&](size_t i) { return static_cast<float>(rng.Bits(i)) * 0x1p-31f - 1; });
  }

  AttentionShape shape_;
  HeadLayout heads_;
  MemoryPlan plan_;
  MemoryPlan::Id qkv_, out_, lse_, d_out_, d_qkv_;
  Arena arena_;
};

}  // namespace

double AttentionTiming::flops_per_second() const {
  return flops / Median(seconds);
}

double AttentionRate::tokens_per_second() const {
  return static_cast<double>(shape.B * shape.T) /
         (Median(forward.seconds) + Median(backward.seconds));
}

uint64_t AttentionBytes(const AttentionShape& shape) {
  return AttentionBench(shape).bytes();
}

AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds) {
  AttentionBench bench(shape);
  bench.Allocate();
  const AttentionForward forward = bench.Forward();
  const AttentionBackward backward = bench.Backward();
  AttentionRate rate{.shape = shape,
                     .forward = {.flops = forward.Flops()},
                     .backward = {.flops = backward.Flops()},
                     .planned_bytes = bench.bytes()};
  backend.Run(forward);
  backend.Run(backward);
  for (double sum = 0; sum < seconds || rate.forward.seconds.size() < kFewestRuns;) {
    rate.forward.seconds.push_back(SecondsOf([&] { backend.Run(forward); }));
    rate.backward.seconds.push_back(SecondsOf([&] { backend.Run(backward); }));
    sum += rate.forward.seconds.back() + rate.backward.seconds.back();
  }
  return rate;
}

double MemoryPass::bytes_per_second() const {
  return bytes / Median(seconds);
}

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

void CopyAll(const float* from, float* to, int64_t n) {
  ParallelRange(n, kPassGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

namespace {

MemoryPlan PlanOf(int64_t parameters) {
  MemoryPlan plan;
  for (const char* name : {"param", "grad"}) plan.Add(name, Dtype::kF32, {parameters});
  plan.Place();
  return plan;
}

template <class F>
void Time(MemoryPass& pass, F&& run) {
  pass.seconds.push_back(SecondsOf(run));
}

// The arrays and their treatment.
class OptimizerBench {
 public:
  OptimizerBench(Backend& backend, int64_t parameters)
      : backend_(backend),
        plan_(PlanOf(parameters)),
        arena_(plan_),
        optimizer_(backend, Dtype::kF32, parameters),
        n_(parameters) {
    float* param = Array(0).data<float>();
    ParallelRange(n_, kPassGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) param[i] = static_cast<float>(i % 997 - 498) * 1e-3f;
    });
  }

  // Copying makes the gradients, so that they are never zero where AdamW sees them.
  void Round(OptimizerRates& rates) {
    const Tensor param = Array(0), grad = Array(1);
    double sum = 0;
    Time(rates.copy, [&] { CopyAll(param.data<float>(), grad.data<float>(), n_); });
    Time(rates.read, [&] { ReadAll(grad.data<float>(), n_); });
    Time(rates.norm, [&] { backend_.Run(SumOfSquares{.x = grad, .out = Tensor(&sum, {1})}); });
    Time(rates.adamw, [&] {
      optimizer_.Step({}, {.lr = 1e-5, .step = ++step_}, ParamGroup::kDecayed, param, grad, 0);
    });
  }

 private:
  Tensor Array(MemoryPlan::Id id) const { return arena_.Get(plan_, id); }

  Backend& backend_;
  MemoryPlan plan_;
  Arena arena_;
  Optimizer optimizer_;
  int64_t n_;
  int64_t step_ = 0;
};

}  // namespace

double OptimizerRates::seconds_per_step() const {
  return Median(norm.seconds) + Median(adamw.seconds);
}

uint64_t OptimizerBytes(int64_t parameters) {
  MemoryPlan plan = PlanOf(parameters);
  Optimizer::AddTo(plan, Dtype::kF32, parameters);
  plan.Place();
  return plan.arena_bytes();
}

OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds) {
  OptimizerBench bench(backend, parameters);
  OptimizerRates warm_up;
  bench.Round(warm_up);
  const double array = static_cast<double>(parameters) * sizeof(float);
  OptimizerRates rates{.norm = {"gradient norm", array},
                       .adamw = {"adamw", static_cast<double>(Optimizer::kPasses) * array},
                       .read = {"read", array},
                       .copy = {"copy", 2 * array}};
  const double begin = SteadySeconds();
  while (SteadySeconds() - begin < seconds || rates.adamw.seconds.size() < kFewestRuns) {
    bench.Round(rates);
  }
  return rates;
}

std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend) {
  FOLIO_CHECK(name == "fp32" || name == "bf16" || name == "both", "another dtype");
  std::vector<Dtype> dtypes;
  if (name != "bf16") dtypes.push_back(Dtype::kF32);
  if (name != "fp32" && backend.Supports(Dtype::kBF16)) dtypes.push_back(Dtype::kBF16);
  if (dtypes.empty()) {
    throw UsageError(fmt::format("backend {} does not compute in {}", backend.name(), name), {},
                     "use --dtype fp32, or --backend cpu");
  }
  return dtypes;
}

namespace {

Value GflopsValue(double flops_per_second) {
  return Value::Fixed(flops_per_second, 1, 1e9);
}

std::vector<Cell> CellsOf(const MemoryPass& pass) {
  return {{"name", "pass", pass.name},
          {"seconds", ">ms", Value::Fixed(Median(pass.seconds), 3, 1e-3)},
          {"seconds_min", "", Percentile(pass.seconds, 0)},
          {"bytes", ">bytes", Value::Bytes(pass.bytes)},
          {"bytes_per_second", ">GB/s", Value::Fixed(pass.bytes_per_second(), 1, 1e9)}};
}

// The same for people alone.
std::vector<Cell> Shown(std::vector<Cell> cells, const std::string& share) {
  for (Cell& cell : cells) cell.key.clear();
  cells.push_back({"", "share", share});
  return cells;
}

}  // namespace

std::vector<Cell> MachineFacts(const Backend& backend) {
  const std::string description(backend.description());
  return {{"backend", "", backend.name()},
          {"backend_description",
           "backend",
           {fmt::format("{}, {} threads", description, Threads()), description}},
          {"simd", "", SimdTarget()},
          {"threads", "", Threads()}};
}

Report MatmulReport(const Backend& backend, const std::vector<Dtype>& dtypes,
                    const std::vector<MatmulRate>& rates) {
  ReportTable products{.key = "products"};
  for (const MatmulRate& rate : rates) {
    const auto& [shape, kind, dtype] = rate.product;
    products.rows.push_back(
        {{"dtype", "dtype", DtypeSetting(dtype)},
         {"product", "product", MatmulKindName(kind)},
         {"N", ">N", shape.N},
         {"I", ">I", shape.I},
         {"O", ">O", shape.O},
         {"seconds", ">ms", Value::Fixed(rate.seconds, 3, 1e-3)},
         {"seconds_min", "", rate.seconds_min},
         {"flops_per_second", ">GFLOP/s", GflopsValue(rate.flops_per_second())},
         {"flops_per_second_max", ">best", GflopsValue(rate.product.flops() / rate.seconds_min)}});
  }
  Json peaks = Json::object(), units = Json::object();
  std::vector<Cell> peak_facts;
  for (const Dtype dtype : dtypes) {
    const std::string name(DtypeSetting(dtype)), unit = backend.ProductUnit(dtype);
    const double peak = PeakOf(dtype, rates);
    peaks[name] = peak;
    units[name] = unit;
    peak_facts.push_back(
        {"", "peak " + name, fmt::format("{:.1f} GFLOP/s ({})", peak / 1e9, unit)});
  }
  return {.parts = {{.facts = MachineFacts(backend)}, {.table = products}, {.facts = peak_facts}},
          .data = {{"peak_flops_per_second", peaks}, {"units", units}}};
}

Report AttentionReport(const Backend& backend, const std::vector<AttentionRate>& rates) {
  const auto direction = [](const AttentionTiming& timing) {
    const double seconds = Median(timing.seconds);
    return Value(fmt::format("{:.3f}", seconds * 1e3),
                 Json{{"seconds", seconds},
                      {"seconds_min", Percentile(timing.seconds, 0)},
                      {"flops", timing.flops},
                      {"flops_per_second", timing.flops_per_second()}});
  };
  ReportTable runs{.key = "runs"};
  for (const AttentionRate& rate : rates) {
    const AttentionShape& shape = rate.shape;
    const double bytes = static_cast<double>(rate.planned_bytes);
    runs.rows.push_back(
        {{"dtype", "dtype", DtypeSetting(shape.dtype)},
         {"batch", "", shape.B},
         {"context", ">T", shape.T},
         {"heads", "", shape.H},
         {"head_size", "", shape.D},
         {"dropout", "", shape.dropout},
         {"forward", ">forward ms", direction(rate.forward)},
         {"", ">GFLOP/s", GflopsValue(rate.forward.flops_per_second())},
         {"backward", ">backward ms", direction(rate.backward)},
         {"", ">GFLOP/s", GflopsValue(rate.backward.flops_per_second())},
         {"tokens_per_second", ">tokens/s", WholeRate(rate.tokens_per_second())},
         {"peak_bytes", ">memory", Value::Bytes(rate.planned_bytes)},
         {"", ">bytes/token", Value::Fixed(bytes / static_cast<double>(shape.B * shape.T), 0)}});
  }
  const AttentionShape& shape = rates.front().shape;
  std::vector<Cell> facts = {{"", "shape",
                              fmt::format("{} sequences, {} heads of {} channels, dropout {}",
                                          shape.B, shape.H, shape.D, shape.dropout)}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  return {.parts = {{.facts = facts}, {.table = runs}}};
}

Report OptimizerReport(const Backend& backend, int64_t parameters, const OptimizerRates& rates) {
  const double seconds = rates.seconds_per_step(), bytes = rates.bytes_per_step();
  ReportTable passes{.key = "passes"};
  for (const auto& [part, machine] :
       {std::pair(&rates.norm, &rates.read), std::pair(&rates.adamw, &rates.copy)}) {
    const double share = part->bytes_per_second() / machine->bytes_per_second();
    std::vector<Cell>& row = passes.rows.emplace_back(CellsOf(*part));
    row.push_back({"share", "share", Value::Percent(share).In(" of " + machine->name)});
    row.push_back({"of", "", machine->name});
  }
  passes.rows.push_back(Shown(CellsOf({"together", bytes, {seconds}}), ""));
  for (const MemoryPass* pass : {&rates.read, &rates.copy}) {
    passes.rows.push_back(Shown(CellsOf(*pass), "what memory does"));
  }
  std::vector<Cell> facts = {{"parameters", "parameters", Value::Commas(parameters)},
                             {"seconds_per_step", "", seconds},
                             {"bytes_per_step", "", bytes},
                             {"bytes_per_second", "", bytes / seconds}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  return {.parts = {{.facts = facts}, {.table = passes}},
          .data = {{"machine",
                    Json::array({AsJson(CellsOf(rates.read)), AsJson(CellsOf(rates.copy))})}}};
}

Value WholeRate(double a_second) {
  return {WithCommas(static_cast<int64_t>(a_second)), a_second};
}

}  // namespace folio
