#include "folio/apps/bench_train.h"

#include <algorithm>

#include "folio/apps/machine.h"
#include "folio/apps/matmul_rate.h"
#include "folio/base/clock.h"
#include "folio/base/rng.h"
#include "folio/model/init.h"
#include "folio/train/learner.h"

namespace folio {
namespace {

constexpr uint64_t kTokenStream = 1;

// A model in training on the same batch of random tokens.
class Bench {
 public:
  Bench(Backend& backend, const BenchTrainOptions& options)
      : options_(options),
        weights_(options.model),
        learner_(backend, weights_, options.train.batch_size, options.T) {
    const uint64_t seed = static_cast<uint64_t>(options.train.seed);
    InitWeights(weights_, seed);
    const CounterRng rng(seed, kTokenStream);
    tokens_.resize(static_cast<size_t>(options.train.batch_size * options.T) + 1);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] =
          static_cast<int32_t>(rng.Below(i, static_cast<uint64_t>(options.model.vocab_size)));
    }
  }

  // Steps until caches, threads and prepared kernels are as they stay.
  void WarmUp() {
    constexpr int kSteps = 3;
    constexpr double kLongest = 2;
    double seconds = 0;
    for (int i = 0; i < kSteps && seconds < kLongest; ++i) seconds += Step();
  }

  // Takes a step; returns its seconds.
  double Step() {
    const TrainConfig& train = options_.train;
    const std::span<const int32_t> tokens(tokens_);
    const double rows = static_cast<double>(tokens.size() - 1);
    const double begin = SteadySeconds();
    learner_.Begin();
    loss_ = learner_.Accumulate(tokens.first(tokens.size() - 1), tokens.subspan(1), 1 / rows,
                                {.on = true,
                                 .seed = static_cast<uint64_t>(train.seed),
                                 .step = static_cast<uint64_t>(step_)}) /
            rows;
    learner_.Finish(AdamWSettingsOf(train), train.learning_rate, train.grad_clip, ++step_);
    return SteadySeconds() - begin;
  }

  double loss() const { return loss_; }
  const ParamTable& table() const { return weights_.table(); }

 private:
  const BenchTrainOptions& options_;
  GptWeights weights_;
  Learner learner_;
  std::vector<int32_t> tokens_;
  int64_t step_ = 0;
  double loss_ = 0;
};

}  // namespace

double TrainFlopsPerStep(const GptConfig& config, int64_t B, int64_t T) {
  const double attention = 12.0 * static_cast<double>(config.n_layer) * static_cast<double>(T) *
                           static_cast<double>(config.n_embd);
  const double products = 6.0 * static_cast<double>(ParamTable(config).matrix_parameters());
  return static_cast<double>(B) * static_cast<double>(T) * (products + attention);
}

BenchTrainResult BenchTrain(Backend& backend, const BenchTrainOptions& options,
                            TimedBackend* timed) {
  const int64_t B = options.train.batch_size;
  RequireMemory("this benchmark",
                Learner::Plan(options.model, B, options.T, Dtype::kF32).arena_bytes());
  Bench bench(backend, options);
  BenchTrainResult result;
  result.parameters = bench.table().parameters();
  result.flops_per_step = TrainFlopsPerStep(options.model, B, options.T);
  bench.WarmUp();
  result.peak_memory_bytes = PeakMemoryBytes();
  const double peak_before = MeasureMatmulPeak(backend);
  if (timed != nullptr) timed->Reset();
  double seconds = 0;
  while (seconds < options.seconds || std::ssize(result.step_seconds) < options.steps) {
    result.step_seconds.push_back(bench.Step());
    seconds += result.step_seconds.back();
  }
  if (timed != nullptr) result.ops = timed->Times();
  result.last_loss = bench.loss();
  result.matmul_flops_per_second = std::max(peak_before, MeasureMatmulPeak(backend));
  return result;
}

}  // namespace folio
