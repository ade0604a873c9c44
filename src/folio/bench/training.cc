#include "folio/bench/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>

#include "folio/base/clock.h"
#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/io/json.h"
#include "folio/model/weight_init.h"
#include "folio/tensor/dtype.h"
#include "folio/train/config.h"
#include "folio/train/plan.h"
#include "folio/train/ranks.h"
#include "folio/train/train_step.h"

namespace folio {
namespace {

constexpr uint64_t kTokenStream = 1;

int Ranks(const BenchTrainOptions& options) {
  return options.group == nullptr ? 1 : options.group->size();
}

// A model in training on the same batch of random tokens.
class TrainingBench {
 public:
  TrainingBench(Backend& backend, const BenchTrainOptions& options)
      : train_(options.train),
        group_(options.group),
        weights_(ParamTable(options.model, options.pass.lora,
                            ShardOfRank(options.model, options.train, options.group))),
        train_step_(backend, weights_, options.train.batch_size, options.T, options.pass,
                    ParallelismOf(options.train, options.group),
                    OptimizerSettingsOf(options.train)) {
    const uint64_t seed = static_cast<uint64_t>(train_.seed);
    InitWeights(weights_, seed);
    const CounterRng rng(seed, kTokenStream);
    tokens_.resize(static_cast<size_t>(train_.batch_size * options.T) + 1);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] =
          static_cast<int32_t>(rng.Below(i, static_cast<uint64_t>(options.model.vocab_size)));
    }
  }

  // Steps until caches, threads and prepared kernels are as they stay. Returns the last one's
  // seconds.
  double WarmUp() {
    constexpr double kLongest = 2;
    constexpr int kSteps = 3;
    double seconds = 0, last = 0;
    // As many on all ranks, whose clocks differ.
    const auto goes_on = [&] {
      const bool mine = seconds < kLongest;
      return group_ == nullptr ? mine : group_->Broadcast(mine ? "yes" : "no") == "yes";
    };
    for (int i = 0; i < kSteps && goes_on(); ++i) {
      last = Step();
      seconds += last;
    }
    return last;
  }

  // Until nothing of a step is under way.
  void Settle() { train_step_.WaitForWeights(); }

  // Takes a step, with the optimizer or without it; returns its seconds.
  double Step(bool optimizer = true) {
    const std::span<const int32_t> tokens(tokens_);
    const Parallelism& parallelism = train_step_.parallelism();
    const double rows = static_cast<double>(tokens.size() - 1);
    const double begin = SteadySeconds();
    train_step_.Begin();
    for (int64_t turn = 0; turn < parallelism.micro_batches; ++turn) {
      loss_ = train_step_.Accumulate(
                  tokens.first(tokens.size() - 1), tokens.subspan(1),
                  1 / (rows * static_cast<double>(train_.grad_accumulation)),
                  {.on = true,
                   .seed = static_cast<uint64_t>(train_.seed),
                   .step = static_cast<uint64_t>(step_),
                   .first_sequence = parallelism.MicroBatch(turn) * train_.batch_size}) /
              rows;
    }
    if (optimizer) {
      train_step_.Finish(train_.learning_rate, train_.grad_clip, ++step_);
    }
    return SteadySeconds() - begin;
  }

  // The loss of its last micro-batch.
  double loss() const { return loss_; }

 private:
  const TrainConfig train_;
  Group* group_;  // of all ranks; null for one alone
  GptWeights weights_;
  TrainStep train_step_;
  std::vector<int32_t> tokens_;
  int64_t step_ = 0;
  double loss_ = 0;
};

// A second model beside the first, on a backend of its own so that nobody's times are mixed up.
struct Rival {
  explicit Rival(const BenchTrainOptions& options)
      : backend(MakeBackend(options.train.backend)), bench(*backend, options) {
    bench.WarmUp();
  }

  std::unique_ptr<Backend> backend;
  TrainingBench bench;
};

// Makes the rival of PlainTraining; null where there is nothing to compare or no room for both.
std::unique_ptr<Rival> MakeRival(BenchTrainOptions options, PlainTraining& plain) {
  if (options.group != nullptr) return nullptr;
  if (options.pass.lora.on()) {
    options.pass.lora = {};
  } else if (options.pass.recompute) {
    options.pass.recompute = false;
  } else {
    return nullptr;
  }
  plain.planned_bytes = TrainStep::Plan(options.model, options.train.batch_size, options.T,
                                        options.pass, {}, OptimizerSettingsOf(options.train))
                            .arena_bytes();
  const MachineMemory memory = ThisMachinesMemory();
  if (memory.available != 0 && plain.planned_bytes > memory.available / 10 * 9) return nullptr;
  return std::make_unique<Rival>(options);
}

int64_t TokensPerStep(const BenchTrainOptions& options) {
  return options.train.batch_size * options.T * options.train.grad_accumulation;
}

double FlopsPerStep(const BenchTrainOptions& options) {
  return TrainFlops(options.model, options.T, options.pass.lora).per_step(TokensPerStep(options));
}

// How many steps of about so many seconds ranks take: what the first of them says.
int64_t AgreedSteps(const BenchTrainOptions& options, double seconds) {
  if (options.group == nullptr) return options.steps;
  const double wanted = std::ceil(options.seconds / std::max(seconds, 1e-6));
  const int64_t mine = std::max(options.steps, static_cast<int64_t>(wanted));
  return GatherNumbers(*options.group, std::vector<int64_t>{mine}).front().front();
}

}  // namespace

BenchTrainResult BenchTrain(Backend& backend, const BenchTrainOptions& options,
                            TimedBackend* timed) {
  const TrainShape shape =
      ShapeOf(options.model, options.train, options.T, options.pass, Ranks(options));
  RequireTrainingFits(shape, ThisMachinesMemory());
  BenchTrainResult result;
  result.planned_bytes = PlannedBytes(shape);
  ResetPeakMemory();
  TrainingBench bench(backend, options);
  result.parameters = ParamTable(options.model, options.pass.lora).parameters();
  result.tokens_per_step = TokensPerStep(options);
  result.ranks = Ranks(options);
  result.flops_per_step = FlopsPerStep(options);
  const double warm = bench.WarmUp();
  result.peak_memory_bytes = PeakMemoryBytes();
  PlainTraining plain;
  const std::unique_ptr<Rival> rival = MakeRival(options, plain);
  const double peak_seconds = std::clamp(options.seconds / 10, 0.03, 0.5);
  const double peak_before = MeasureMatmulPeak(backend, options.pass.dtype, peak_seconds);
  if (timed != nullptr) timed->Reset();
  double seconds = 0;
  bench.Settle();
  // Ranks agree before the first step: a question between two would wait for the weights that the
  // next one gathers while it computes.
  const int64_t agreed = AgreedSteps(options, warm);
  const GroupTraffic before = options.group == nullptr ? GroupTraffic{} : options.group->traffic();
  const auto enough = [&] {
    const int64_t taken = std::ssize(result.step_seconds);
    if (options.group != nullptr) return taken >= agreed;
    return seconds >= options.seconds && taken >= options.steps;
  };
  while (!enough()) {
    result.step_seconds.push_back(bench.Step());
    seconds += result.step_seconds.back();
    if (rival == nullptr) continue;
    plain.step_seconds.push_back(rival->bench.Step());
    seconds += plain.step_seconds.back();
  }
  bench.Settle();
  if (timed != nullptr) {
    result.ops = timed->Times();
    result.seconds_outside_ops =
        std::accumulate(result.step_seconds.begin(), result.step_seconds.end(), 0.0);
    for (const OpTime& op : result.ops) result.seconds_outside_ops -= op.seconds;
  }
  if (rival != nullptr) result.plain = plain;
  if (options.group != nullptr) {
    const GroupTraffic after = options.group->traffic();
    result.traffic = {.bytes_sent = after.bytes_sent - before.bytes_sent,
                      .seconds = after.seconds - before.seconds,
                      .seconds_waited = after.seconds_waited - before.seconds_waited};
  }
  result.last_loss = bench.loss();
  result.matmul_flops_per_second =
      std::max(peak_before, MeasureMatmulPeak(backend, options.pass.dtype, peak_seconds));
  return result;
}

double MeasureStepRate(Backend& backend, BenchTrainOptions options, int steps, bool optimizer) {
  options.group = nullptr;
  options.train.grad_accumulation = options.train.reduce_every = options.train.tensor_parallel = 1;
  TrainingBench bench(backend, options);
  bench.Step(optimizer);
  std::vector<double> seconds(static_cast<size_t>(steps));
  for (double& step : seconds) step = bench.Step(optimizer);
  return FlopsPerStep(options) / Median(seconds);
}

double MeasureTrainRate(Backend& backend, const BenchTrainOptions& options, double flops) {
  constexpr double kLongest = 2;
  constexpr int kSteps = 5;
  const int64_t B = options.train.batch_size, L = options.model.n_layer;
  BenchTrainOptions part = options;
  part.train.grad_accumulation = 1;
  part.train.batch_size = part.model.n_layer = 1;
  const double first = MeasureStepRate(backend, part, 1);
  const double most = std::min(flops, kLongest * first) / (kSteps + 1);
  part.model.n_layer = L;
  part.train.batch_size =
      std::clamp<int64_t>(static_cast<int64_t>(most / FlopsPerStep(part)), 1, B);
  while (part.model.n_layer > 1 && FlopsPerStep(part) > most) --part.model.n_layer;
  if (part.train.batch_size == 1 && part.model.n_layer == 1 && (B > 1 || L > 1)) return first;
  return MeasureStepRate(backend, part, kSteps);
}

namespace {

// What is measured beside the same training without adapters, or without recomputation.
Cell PlainFact(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const bool lora = options.pass.lora.on();
  Cell fact{lora ? "full_fine_tuning" : "without_recompute", lora ? "adapters" : "recompute", {}};
  if (!result.plain)
    return {"", fact.title, "on; not enough memory to compare with a run without it"};
  const PlainTraining& plain = *result.plain;
  const double seconds = Median(plain.step_seconds), fastest = Percentile(plain.step_seconds, 0);
  const auto planned = static_cast<double>(plain.planned_bytes);
  const double saved = planned - static_cast<double>(result.planned_bytes);
  // Fastest against fastest, as other programs only ever make a step longer.
  const double time_paid = Percentile(result.step_seconds, 0) / fastest - 1;
  fact.value = {
      fmt::format(
          "saves {} of {} planned; time per step {:+.1f}% (without it: {:.3f} ms, fastest {:.3f})",
          HumanBytes(saved), HumanBytes(planned), time_paid * 100, seconds * 1e3, fastest * 1e3),
      Json{{"peak_bytes", plain.planned_bytes},
           {"saved_bytes", static_cast<int64_t>(saved)},
           {"seconds_per_step", seconds},
           {"seconds_per_step_min", fastest},
           {"time_paid", time_paid}}};
  return fact;
}

std::vector<Cell> RankFacts(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const auto a_step = [steps = static_cast<double>(result.step_seconds.size())](auto all) {
    return static_cast<double>(all) / steps;
  };
  const GroupTraffic& traffic = result.traffic;
  const double bytes = a_step(traffic.bytes_sent), seconds = a_step(traffic.seconds),
               waited = a_step(traffic.seconds_waited);
  const std::string transport = options.group->transport();
  return {{"ranks",
           "ranks",
           {fmt::format("{} ({}); per step {:.3f} ms of communication, {} sent by each, {:.3f} ms "
                        "waiting ({:.0f}% overlap)",
                        result.ranks, transport, seconds * 1e3, HumanBytes(bytes), waited * 1e3,
                        result.overlap() * 100),
            result.ranks}},
          {"tensor_parallel", "", options.train.tensor_parallel},
          {"reduce_every", "", options.train.reduce_every},
          {"reduce_dtype", "", options.train.reduce_dtype},
          {"communication", "",
           Json{{"transport", transport},
                {"bytes_sent_per_step", bytes},
                {"seconds_per_step", seconds},
                {"seconds_waited_per_step", waited},
                {"overlap", result.overlap()}}}};
}

std::vector<Cell> FactsOf(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const double seconds = result.seconds_per_step(), fastest = Percentile(result.step_seconds, 0),
               slow = Percentile(result.step_seconds, 0.9);
  std::vector<Cell> facts = {
      {"batch",
       "batch",
       {fmt::format("{} x {} tokens", options.train.batch_size, options.T),
        options.train.batch_size}},
      {"context", "", options.T},
      {"steps", "steps", result.step_seconds.size()},
      {"seconds_per_step",
       "step",
       {fmt::format("{:.3f} ms (fastest {:.3f}, 90% below {:.3f})", seconds * 1e3, fastest * 1e3,
                    slow * 1e3),
        seconds}},
      {"seconds_per_step_min", "", fastest},
      {"seconds_per_step_p90", "", slow},
      {"tokens_per_second", "speed", WholeRate(result.tokens_per_second()).In(" tokens/s")},
      {"seconds_per_token", "", result.seconds_per_token()},
      {"flops_per_step", "", result.flops_per_step},
      {"model_flops_per_second",
       "arithmetic",
       {fmt::format("{:.1f} GFLOP/s, {:.0f}% of {:.1f} GFLOP/s in {} matrix products",
                    result.flops_per_second() / 1e9, result.peak_share() * 100,
                    result.matmul_flops_per_second / 1e9, DtypeSetting(options.pass.dtype)),
        result.flops_per_second()}},
      {"matmul_flops_per_second", "", result.matmul_flops_per_second},
      {"peak_share", "", result.peak_share()},
      {"peak_memory_bytes",
       "memory",
       {fmt::format("{} resident at peak, {} planned",
                    HumanBytes(static_cast<double>(result.peak_memory_bytes)),
                    HumanBytes(static_cast<double>(result.planned_bytes))),
        result.peak_memory_bytes}},
      {"peak_bytes", "", result.planned_bytes},
      {"last_loss", "", result.last_loss}};
  if (options.train.grad_accumulation > 1) {
    facts.push_back({"grad_accumulation", "", options.train.grad_accumulation});
  }
  if (result.ranks > 1) {
    std::ranges::copy(RankFacts(options, result), std::back_inserter(facts));
  }
  if (options.pass.lora.on() || options.pass.recompute) {
    facts.push_back(PlainFact(options, result));
  }
  if (result.ops.empty()) return facts;
  Json ops = Json::array();
  for (const OpTime& op : result.ops) {
    ops.push_back({{"name", op.name},
                   {"calls", op.calls},
                   {"seconds", op.seconds},
                   {"flops", op.flops},
                   {"bytes", op.bytes}});
  }
  facts.push_back({"ops", "", ops});
  facts.push_back({"seconds_outside_ops", "", result.seconds_outside_ops});
  return facts;
}

// The cost of each batch size beside that of the first.
ReportTable GrowthTable(const std::vector<BenchTrainOptions>& options,
                        const std::vector<BenchTrainResult>& results) {
  const BenchTrainResult& first = results.front();
  ReportTable table{.key = "batches"};
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    std::vector<Cell>& row = table.rows.emplace_back(FactsOf(options[i], result));
    for (Cell& cell : row) cell.title.clear();
    const auto bytes = static_cast<double>(result.planned_bytes);
    const std::vector<Cell> shown = {
        {"", ">batch", options[i].train.batch_size},
        {"", ">ms/step", Value::Fixed(result.seconds_per_step(), 3, 1e-3)},
        {"", ">us/token", Value::Fixed(result.seconds_per_token(), 1, 1e-6)},
        {"relative_seconds_per_token", ">relative",
         Value::Fixed(result.seconds_per_token() / first.seconds_per_token(), 2)},
        {"", ">tokens/s", WholeRate(result.tokens_per_second())},
        {"", ">GFLOP/s", Value::Fixed(result.flops_per_second(), 1, 1e9)},
        {"", ">of peak", Value::Percent(result.peak_share())},
        {"", ">planned", Value::Bytes(bytes)},
        {"", ">more", Value::Bytes(bytes - static_cast<double>(first.planned_bytes))},
        {"", ">resident", Value::Bytes(result.peak_memory_bytes)}};
    row.insert(row.end(), shown.begin(), shown.end());
  }
  return table;
}

}  // namespace

Report TrainingReport(const std::string& model, const Backend& backend,
                      const std::vector<BenchTrainOptions>& options,
                      const std::vector<BenchTrainResult>& results, bool growth) {
  const BenchTrainOptions& first = options.front();
  const TrainFlops flops(first.model, first.T, first.pass.lora);
  const std::string dtype(DtypeSetting(first.pass.dtype));
  const std::string unit = backend.ProductUnit(first.pass.dtype);
  const std::string description(backend.description());
  const int64_t parameters = results.front().parameters;
  Report report{
      .parts = {
          {.facts = {
               {"model",
                "model",
                {fmt::format("{}, {} parameters", model, WithCommas(parameters)), model}},
               {"parameters", "", parameters},
               {"backend",
                "backend",
                {fmt::format("{}: {}", first.train.backend, description), first.train.backend}},
               {"backend_description", "", description},
               {"simd", "", SimdTarget()},
               {"dtype",
                "computing",
                {fmt::format("{} on {}, {} threads", dtype, unit, Threads()), dtype}},
               {"product_unit", "", unit},
               {"threads", "", Threads()},
               {"recompute", "", first.pass.recompute},
               {"lora_rank", "", first.pass.lora.rank},
               {"flops_formula", "counted", {flops.Explanation(), kFlopsFormula}},
               {"matrix_parameters", "", flops.matrix_parameters},
               {"trained_matrix_parameters", "", flops.trained_parameters},
               {"flops_per_token", "", flops.per_token()},
               {"attention_flops_per_token", "", flops.attention_per_token}}}}};
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    ReportPart part{.facts = FactsOf(options[i], result)};
    if (growth) {
      for (Cell& fact : part.facts) fact.key.clear();
    }
    report.parts.push_back(std::move(part));
    if (result.ops.empty()) continue;
    report.parts.push_back({.terminal = [&result](const Terminal&) {
      return TimesTable(result.ops) +
             fmt::format("outside of operations: {:.3f} ms\n", result.seconds_outside_ops * 1e3);
    }});
  }
  if (growth) report.parts.push_back({.table = GrowthTable(options, results)});
  return report;
}

}  // namespace folio
