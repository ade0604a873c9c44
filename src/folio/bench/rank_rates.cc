#include "folio/bench/rank_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/optimizer.h"
#include "folio/model/weight_init.h"
#include "folio/train/plan.h"
#include "folio/train/precision.h"
#include "folio/train/train_step.h"

namespace folio {
namespace {

constexpr double kPassSeconds = 3;  // that forward and backward are measured for
constexpr int kPasses = 4;          // the first does not count

double FlopsOf(const BenchTrainOptions& options) {
  return TrainFlops(options.model, options.T, options.pass.lora)
      .per_step(options.train.batch_size * options.T);
}

// Operations a second of forward and backward, without the optimizer.
double PassRate(Backend& backend, const BenchTrainOptions& options, int passes) {
  GptWeights weights(ParamTable(options.model, options.pass.lora));
  InitWeights(weights, static_cast<uint64_t>(options.train.seed));
  const int64_t N = options.train.batch_size * options.T;
  TrainStep train_step(backend, weights, options.train.batch_size, options.T, options.pass);
  std::vector<int32_t> tokens(static_cast<size_t>(N));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7919 % options.model.vocab_size);
  }
  std::vector<double> seconds;
  for (int pass = 0; pass < passes; ++pass) {
    const double begin = SteadySeconds();
    train_step.Begin();
    train_step.Accumulate(tokens, tokens, 1 / static_cast<double>(N), {.on = true});
    seconds.push_back(SteadySeconds() - begin);
  }
  if (passes > 1) seconds.erase(seconds.begin());
  return FlopsOf(options) / Median(seconds);
}

void RequirePart(const BenchTrainOptions& part) {
  const TrainShape shape{.model = part.model, .B = 1, .T = part.T, .options = part.pass};
  const uint64_t bytes = PlannedBytes(shape);
  const MachineMemory memory = ThisMachinesMemory();
  if (memory.available == 0 || bytes < memory.available / 10 * 9) return;
  throw Error(ErrorKind::kResource, "one layer of this model is too large to be measured here",
              fmt::format("it needs {}, and {} are free", HumanBytes(static_cast<double>(bytes)),
                          HumanBytes(static_cast<double>(memory.available))),
              "say what a rank computes: --flops-per-second 1e12");
}

// Bytes a second of one thread that adds two arrays as a rank's group adds gradients.
double SumRate() {
  constexpr size_t kElements = 4 << 20, kStrip = 2048;
  constexpr int kRounds = 8;
  std::vector<float> sum(kElements), one(kElements, 1.0F), two(kElements, 2.0F);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    seconds.push_back(SecondsOf([&] {
      for (size_t begin = 0; begin < kElements; begin += kStrip) {
        for (const std::vector<float>* part : {&one, &two}) {
          for (size_t i = begin; i < begin + kStrip; ++i) sum[i] += (*part)[i];
        }
      }
    }));
  }
  return 2 * kElements * sizeof(float) / Median(seconds);
}

}  // namespace

RankRates MeasureMemoryRates(Backend& backend) {
  constexpr int64_t kParameters = 8 << 20;
  const OptimizerRates optimizer = MeasureOptimizer(backend, kParameters, 0.3);
  return {.memory_bytes_per_second = optimizer.bytes_per_step() / optimizer.seconds_per_step(),
          .sum_bytes_per_second = SumRate(),
          .threads = Threads()};
}

RankRates MeasureRankRates(Backend& backend, const BenchTrainOptions& options) {
  RankRates rates = MeasureMemoryRates(backend);
  BenchTrainOptions part = options;
  part.group = nullptr;
  part.train.batch_size = part.model.n_layer = 1;
  part.T = std::min<int64_t>(options.T, 32);
  RequirePart(part);
  const double most = PassRate(backend, part, 2) * kPassSeconds / kPasses;
  const MachineMemory memory = ThisMachinesMemory();
  const auto fits = [&](const BenchTrainOptions& of) {
    const TrainShape shape{
        .model = of.model, .B = of.train.batch_size, .T = of.T, .options = of.pass};
    return FlopsOf(of) <= most &&
           (memory.available == 0 || PlannedBytes(shape) < memory.available / 10 * 9);
  };
  const int64_t shortest = part.T;
  part.T = options.T;
  if (!fits(part)) part.T = shortest;
  // As much as fits of what costs least to leave out last: layers are all alike.
  const auto grow = [&](int64_t& value, int64_t wanted) {
    const int64_t first = value;
    for (value = wanted; value > first && !fits(part);) value = std::max(first, value / 2);
  };
  grow(part.train.batch_size, options.train.batch_size);
  grow(part.model.n_layer, options.model.n_layer);
  rates.flops_per_second = PassRate(backend, part, kPasses);
  return rates;
}

}  // namespace folio
