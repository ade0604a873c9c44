#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/base/math.h"
#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/ranks/group.h"
#include "folio/train/config.h"

namespace folio {

struct BenchTrainOptions {
  GptConfig model;
  // Batch, micro-batches, seed, backend, reduce_dtype and the optimizer's settings count.
  TrainConfig train;
  int64_t T = 0;  // in [1, n_positions]
  PassOptions pass = {};
  int64_t steps = 10;      // take at least so many steps
  double seconds = 5;      // and steps for at least so long
  Group* group = nullptr;  // ranks that train together; null for one alone
};

// The training with which steps are compared, taken in turns: of all parameters for a model with
// adapters, else, with recomputation, without it.
struct PlainTraining {
  uint64_t planned_bytes = 0;
  std::vector<double> step_seconds = {};
};

struct BenchTrainResult {
  int64_t parameters = 0;
  int64_t tokens_per_step = 0;  // of all ranks
  int ranks = 1;
  GroupTraffic traffic = {};  // over the steps, of this rank
  std::vector<double> step_seconds = {};
  double last_loss = 0;
  double flops_per_step = 0;  // as TrainFlops counts
  double matmul_flops_per_second =
      0;                           // of a rank: the larger of the rates before and after the steps
  uint64_t planned_bytes = 0;      // of TrainStep::Plan
  uint64_t peak_memory_bytes = 0;  // of the process, without that of PlainTraining
  std::vector<OpTime> ops = {};    // over all steps, if they were timed
  double seconds_outside_ops = 0;  // likewise: the seconds of steps outside of operations
  std::optional<PlainTraining> plain = {};  // if memory has room for both

  double seconds_per_step() const { return Median(step_seconds); }
  double seconds_per_token() const {
    return seconds_per_step() / static_cast<double>(tokens_per_step);
  }
  double tokens_per_second() const { return 1 / seconds_per_token(); }
  double flops_per_second() const { return flops_per_step / seconds_per_step(); }
  // The share of the rate of matrix products.
  double peak_share() const { return flops_per_second() / (ranks * matmul_flops_per_second); }
  // The part of the time with messages under way in which the program computed; 1 for none.
  double overlap() const {
    return traffic.seconds > 0 ? std::max(0.0, 1 - traffic.seconds_waited / traffic.seconds) : 1;
  }
};

// Takes whole training steps (zero gradients, forward, backward, norm, AdamW) on random tokens and
// times each, after a few that do not count. If `timed` is not null, it is `backend`, and the
// result has the times of its operations. Throws a kResource Error if memory does not suffice.
BenchTrainResult BenchTrain(Backend& backend, const BenchTrainOptions& options,
                            TimedBackend* timed = nullptr);

// Floating-point operations a second, as TrainFlops counts them, of one rank alone: at the median
// of so many steps of a micro-batch, with the optimizer or without it, after one that does not
// count.
double MeasureStepRate(Backend& backend, BenchTrainOptions options, int steps,
                       bool optimizer = true);

// Floating-point operations a second, as TrainFlops counts them, of training steps of this model on
// random tokens. Ignores steps and seconds of `options`: measures for about as long as `flops`
// operations take, 2 s at most; if whole steps would take longer, with fewer sequences and then
// with fewer layers. Frees the memory that it allocates.
double MeasureTrainRate(Backend& backend, const BenchTrainOptions& options, double flops);

}  // namespace folio
