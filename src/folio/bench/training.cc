#include "folio/bench/training.h"

#include <cmath>
#include <memory>
#include <numeric>

#include "folio/base/clock.h"
#include "folio/base/machine.h"
#include "folio/base/rng.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/model/weight_init.h"
#include "folio/train/ranks.h"
#include "folio/train/train_cost.h"
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
      : backend_(backend),
        train_(options.train),
        group_(options.group),
        weights_(ParamTable(options.model, options.pass.lora,
                            ShardOfRank(options.model, options.train, options.group),
                            backend.memory().row_multiple()),
                 Dtype::kF32, ParamPart::kAll, backend.memory()),
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

  // Takes steps until caches, threads and prepared kernels are in a steady state. Returns the
  // seconds of the last one.
  double WarmUp() {
    constexpr double kLongest = 2;
    constexpr int kSteps = 3;
    double seconds = 0, last = 0;
    // All ranks take as many as the first one decides, because their clocks differ.
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

  // Waits until nothing of a step is under way.
  void Settle() { train_step_.WaitForWeights(); }

  // Takes a step, with the optimizer or without it; returns its seconds.
  double Step(bool optimizer = true) {
    const std::span<const int32_t> tokens(tokens_);
    const Parallelism& parallelism = train_step_.parallelism();
    const double rows = static_cast<double>(tokens.size() - 1);
    const double begin = SteadySeconds();
    train_step_.Begin();
    for (int64_t turn = 0; turn < parallelism.micro_batches; ++turn) {
      train_step_.Accumulate(tokens.first(tokens.size() - 1), tokens.subspan(1),
                             1 / (rows * static_cast<double>(train_.grad_accumulation)),
                             {.on = true,
                              .seed = static_cast<uint64_t>(train_.seed),
                              .step = static_cast<uint64_t>(step_),
                              .first_sequence = parallelism.MicroBatch(turn) * train_.batch_size});
    }
    if (optimizer) {
      train_step_.Finish(train_.learning_rate, train_.grad_clip, ++step_);
    }
    backend_.Wait();
    const double seconds = SteadySeconds() - begin;
    loss_ = train_step_.Losses().back() / rows;
    return seconds;
  }

  // The loss of its last micro-batch.
  double loss() const { return loss_; }

 private:
  Backend& backend_;
  const TrainConfig train_;
  Group* group_;  // of all ranks; null for one alone
  GptWeights weights_;
  TrainStep train_step_;
  std::vector<int32_t> tokens_;
  int64_t step_ = 0;
  double loss_ = 0;
};

// A second model in training, on a backend of its own so that the times of both stay separate.
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

// The number of steps of about so many seconds; the first rank decides it for all.
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

}  // namespace folio
