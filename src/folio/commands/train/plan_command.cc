#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/step_model.h"
#include "folio/commands/bench/bench_reports.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/report/report.h"
#include "folio/run/fits.h"
#include "folio/train/config.h"
#include "folio/train/ranks.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

class PlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "plan",
        .summary = "predict a training step on many ranks and networks",
        .group = "model",
        .details =
            "Predicts a training step under mpirun: computing time, bytes and messages of each "
            "rank, how much of the communication is hidden behind computing, memory, and the "
            "bottleneck. A rank computes at --flops-per-second, or at the speed of this machine, "
            "which is measured for a few seconds. Each rank has --micro-batches in a step, or its "
            "share of --grad-accumulation. Communication uses one of the --threads; with "
            "--flops-per-second and without --threads it has a thread of its own. docs/machines.md "
            "contains the formulas and a comparison with measurements.",
        .examples = {"folio plan --preset gpt2 --batch 4 --ranks 1,8,64 --network 10Gbit,100Gbit",
                     "folio plan --preset gpt2-xl --ranks 64 --network 100Gbit --flops-per-second "
                     "5e13 --reduce-dtype bf16",
                     "folio plan --model runs/demo --ranks 2,4 --grad-accumulation 8 --json",
                     "folio plan --set model.n_layer=32 --set model.n_head=32 --set "
                     "model.n_embd=4096 --ranks 1024 --flops-per-second 1e14"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(Field{"ranks", &ranks_, "numbers of ranks"}, {.placeholder = "N,N,..."});
    flags.Value(Field{"network", &networks_, "bandwidth per rank, in each direction"},
                {.placeholder = "SPEED,..."});
    flags.Value(Field{"latency", &latency_, "latency between two ranks"}, {.placeholder = "TIME"});
    flags.Value(Field{"message-time", &message_time_,
                      "time for a rank to send and receive a message, independent of its size"},
                {.placeholder = "TIME"});
    flags.Value(
        Field{"micro-batches", &micro_batches_,
              "micro-batches of each rank in a step, instead of --grad-accumulation", 1, 1 << 20},
        {.placeholder = "N"});
    flags.Value(
        Field{"flops-per-second", &rank_.flops_per_second,
              "FLOP/s of a rank, forward and backward; 0: measured on this machine", 0, 1e21},
        {.placeholder = "N"});
    flags.Value(Field{"memory-rate", &rank_.memory_bytes_per_second,
                      "bytes per second of norm and AdamW; 0: measured on this machine", 0, 1e18},
                {.placeholder = "N"});
    flags.Value(
        Field{"sum-rate", &rank_.sum_bytes_per_second,
              "bytes of gradients that one thread adds per second; 0: measured on this machine", 0,
              1e18},
        {.placeholder = "N"});
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const TrainConfig& train = settings_.config().train;
    shared_ = settings_.flagged("train.grad_accumulation");
    RefuseTogether(shared_ && micro_batches_ > 0, "--grad-accumulation", "--micro-batches");
    std::vector<StepPlan::Row> rows = Rows();
    UseThreads(train.threads);
    simd_.Use();
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    StepPlan plan{.model = settings_.name(),
                  .config = settings_.config().model,
                  .B = train.batch_size,
                  .T = settings_.Context(),
                  .pass = PassOptionsOf(train, settings_.config().model, *backend),
                  .reduce_every = train.reduce_every,
                  .reduce = ReduceDtype(train),
                  .rows = std::move(rows)};
    FindRates(context.console, *backend, plan);
    for (StepPlan::Row& row : plan.rows) {
      TrainShape shape = ShapeOf(plan.config, train, plan.T, plan.pass, row.ranks);
      shape.grad_accumulation = row.grad_accumulation;
      row.step = PredictStep(shape, plan.rank, row.network);
    }
    ShowReport(context.console, StepsReport(plan));
    return 0;
  }

 private:
  // Returns a row for each number of ranks and each network; a single rank has one row, since it
  // uses no network.
  std::vector<StepPlan::Row> Rows() const {
    NetworkRates network{.latency = ParseShortTime(latency_, "--latency"),
                         .seconds_per_message = ParseShortTime(message_time_, "--message-time")};
    std::vector<StepPlan::Row> rows;
    for (const int64_t ranks : ParseNumbers("--ranks", ranks_, 1, 8192)) {
      StepPlan::Row row{.ranks = static_cast<int>(ranks), .grad_accumulation = Shares(ranks)};
      for (const std::string& speed : Split(networks_, ',')) {
        network.bits_per_second = ParseBitsPerSecond(speed, "--network");
        row.network = network;
        if (ranks > 1 || rows.empty() || rows.back().ranks > 1) rows.push_back(row);
      }
    }
    return rows;
  }

  // Micro-batches of a step.
  int64_t Shares(int64_t ranks) const {
    TrainConfig train = settings_.config().train;
    const int64_t mine = micro_batches_ > 0 ? micro_batches_ : train.reduce_every;
    if (!shared_) train.grad_accumulation = mine * ranks;
    RequireShares(train, static_cast<int>(ranks));
    return train.grad_accumulation;
  }

  void FindRates(Console& console, Backend& backend, StepPlan& plan) const {
    const bool given = rank_.flops_per_second > 0;
    plan.rank = rank_;
    plan.rates_from = "given";
    if (given && rank_.memory_bytes_per_second > 0 && rank_.sum_bytes_per_second > 0) {
      plan.rank.threads = static_cast<int>(settings_.config().train.threads);
      return;
    }
    console.Note("measuring this machine for a few seconds");
    const BenchTrainOptions options{
        .model = plan.config, .train = settings_.config().train, .T = plan.T, .pass = plan.pass};
    const RankRates here = given ? MeasureMemoryRates(backend) : MeasureRankRates(backend, options);
    const auto choose = [](double& rate, double measured) {
      if (rate == 0) rate = measured;
    };
    choose(plan.rank.flops_per_second, here.flops_per_second);
    choose(plan.rank.memory_bytes_per_second, here.memory_bytes_per_second);
    choose(plan.rank.sum_bytes_per_second, here.sum_bytes_per_second);
    plan.rank.threads = given ? static_cast<int>(settings_.config().train.threads) : here.threads;
    plan.rates_from = fmt::format("{}measured here, {} threads",
                                  given ? "the first given, else " : "", Threads());
  }

  ModelSettings settings_{std::vector<std::string>{
      "--batch", "--context", "--dtype", "--recompute", "--threads", "--backend", "--lora",
      "--grad-accumulation", "--reduce-every", "--reduce-dtype"}};
  std::string ranks_ = "1,8,64,1024", networks_ = "10Gbit,100Gbit,400Gbit";
  std::string latency_ = "20us", message_time_ = "1us";
  int64_t micro_batches_ = 0;
  bool shared_ = false;  // --grad-accumulation counts all ranks together
  RankRates rank_;
  SimdFlag simd_;
};

// Parses bytes: "8GB", "512 MiB", "16G". Throws a kUsage Error.
uint64_t ParseMemory(const std::string& text, const std::string& flag) {
  static constexpr std::string_view kUnits = "KMGT";
  const auto wrong = [&] {
    return UsageError(fmt::format("{}: '{}' is not a size of memory", flag, text), "",
                      "expected a number with a unit: 8GB, 512MB, 16GiB");
  };
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  std::string unit(read.ptr, end);
  std::erase(unit, ' ');
  for (char& c : unit) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  if (unit.ends_with('B')) unit.pop_back();
  const bool binary = unit.size() == 2 && unit.ends_with('I');
  if (binary) unit.pop_back();
  const size_t power = unit.empty() ? kUnits.npos : kUnits.find(unit);
  if (read.ec != std::errc() || unit.size() != 1 || power == kUnits.npos) throw wrong();
  const double bytes = number * std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  if (!(bytes >= 1 && bytes < 1e18)) throw wrong();
  return static_cast<uint64_t>(bytes);
}

class PlanFitsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "plan fits",
            .summary = "show which published models this memory is enough for",
            .group = "model",
            .details =
                "Lists the models that folio fetch knows by name: their parameters, the size of\n"
                "their files, and the memory at its peak to write a text, to train adapters\n"
                "(LoRA, rank 8) and to train all parameters, one sequence at a time, with the\n"
                "copy that is saved beside training where there is room for it. --recompute and a "
                "shorter\n"
                "--context need less in training.",
            .examples = {"folio plan fits", "folio plan fits --memory 8GB --context 256",
                         "folio plan fits --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"memory", &memory_, "memory to use in place of this machine's: 8GB, 512MiB"},
                {.placeholder = "SIZE"});
    flags.Value(Field{"context", &context_, "tokens in a sequence", 1, 1 << 20},
                {.placeholder = "N"});
    flags.Switch("--recompute", &recompute_, "recompute activations in training");
  }

  int Run(const Context& context) override {
    const uint64_t memory =
        memory_.empty() ? ThisMachinesMemory().total : ParseMemory(memory_, "--memory");
    TrainConfig train;
    train.batch_size = 1;
    train.recompute = recompute_;
    train.lora.rank = 8;
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    ShowReport(context.console,
               FitsReport(MemoryOfModels(train, context_, memory, *backend), memory, context_));
    return 0;
  }

 private:
  std::string memory_;
  int64_t context_ = 512;
  bool recompute_ = false;
};

}  // namespace

CommandList PlanCommands() {
  return CommandsOf<PlanCommand, PlanFitsCommand>();
}

}  // namespace folio
