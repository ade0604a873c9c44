#include "folio/run/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/strings.h"
#include "folio/bench/matmul_rate.h"
#include "folio/train/flops.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

// Tokens of one evaluation, training and held-out ones.
double EvaluationTokens(const TrainConfig& train, int64_t held_out_tokens) {
  constexpr double kTrainingBatches = 20;  // of an evaluation on the whole held-out set
  const double batch = static_cast<double>(train.batch_size * train.context);
  if (train.eval_batches > 0) return 2 * static_cast<double>(train.eval_batches) * batch;
  const double held_out = static_cast<double>(held_out_tokens);
  return held_out + std::min(held_out, kTrainingBatches * batch);
}

}  // namespace

TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done) {
  const TrainFlops flops(model, train.context);
  const int64_t end = std::max(done, train.max_steps);
  TrainWork work{.steps = end - done,
                 .evaluations = 1,
                 .flops_per_token = flops.per_token(),
                 .channels = model.n_embd};
  // Those due from `done` on, before the last step; the one at the end is counted already.
  if (const int64_t every = train.eval_every; every > 0 && work.steps > 0) {
    const int64_t first = (done + every - 1) / every, last = (end - 1) / every;
    work.evaluations += last - first + 1;
  }
  const int64_t tokens = train.batch_size * train.grad_accumulation * train.context;
  work.flops = static_cast<double>(work.steps) * flops.per_step(tokens) +
               static_cast<double>(work.evaluations) * EvaluationTokens(train, held_out_tokens) *
                   flops.per_token() / 3;
  return work;
}

TrainSpeed ProbeSpeed(Backend& backend, Dtype dtype, const TrainWork& work) {
  constexpr double kShortest = 0.02, kLongest = 0.25, kPartOfRun = 0.02;
  const double little = MeasureMatmulPeak(backend, dtype, kShortest);
  const double seconds = std::min(kLongest, kPartOfRun * work.flops / little);
  const double more = seconds > kShortest ? MeasureMatmulPeak(backend, dtype, seconds) : 0;
  return {dtype, std::max(little, more)};
}

double UsualShare(const TrainWork& work, Dtype dtype) {
  if (dtype != Dtype::kBF16) return 0.65;
  return work.channels < 256 ? 0.3 : work.channels < 768 ? 0.45 : 0.6;
}

double EstimatedSeconds(const TrainWork& work, const TrainSpeed& speed) {
  return work.flops / (UsualShare(work, speed.dtype) * speed.product_flops_per_second);
}

std::string DescribeEstimate(const TrainWork& work, const TrainSpeed& speed) {
  return fmt::format(
      "about {}: {} steps and {} evaluations are {}; this machine just multiplied {} matrices "
      "at {:.0f} GFLOP/s, and training is taken to reach {:.0f}% of that",
      HumanSeconds(EstimatedSeconds(work, speed)), WithCommas(work.steps), work.evaluations,
      HumanFlops(work.flops), TrainDtypeName(speed.dtype), speed.product_flops_per_second / 1e9,
      UsualShare(work, speed.dtype) * 100);
}

}  // namespace folio
