#pragma once

#include <cstdint>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/timed_backend.h"
#include "folio/model/config.h"
#include "folio/train/config.h"

namespace folio {

struct BenchTrainOptions {
  GptConfig model;
  TrainConfig train;   // batch_size, seed and the optimizer's settings count
  int64_t T = 0;       // in [1, n_positions]
  int64_t steps = 10;  // take at least so many
  double seconds = 5;  // and at least so long
};

struct BenchTrainResult {
  int64_t parameters = 0;
  std::vector<double> step_seconds = {};
  double last_loss = 0;
  double flops_per_step = 0;
  double matmul_flops_per_second = 0;  // the larger of the rates before and after the steps
  uint64_t peak_memory_bytes = 0;      // of the process, without the matrix products above
  std::vector<OpTime> ops = {};        // over all steps, if they were timed
};

// How flops_per_step is counted: 6 for each weight of a matrix product and token, and the scores
// and sums of attention as if they were not causal, which is how others count too.
inline constexpr char kFlopsFormula[] =
    "tokens * (6 * matrix_parameters + 12 * n_layer * context * n_embd), "
    "attention counted in full (the causal half is not taken off)";
double TrainFlopsPerStep(const GptConfig& config, int64_t B, int64_t T);

// Takes whole training steps (zero gradients, forward, backward, norm, AdamW) on random tokens and
// times each, after a few that do not count. `timed` is null or the same backend; then the result
// has the times of its operations. Throws a kResource Error if memory does not suffice.
BenchTrainResult BenchTrain(Backend& backend, const BenchTrainOptions& options,
                            TimedBackend* timed = nullptr);

}  // namespace folio
