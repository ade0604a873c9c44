#pragma once

#include <cstdint>
#include <limits>

#include "folio/train/plan.h"

namespace folio {

// The rates of one rank.
struct RankRates {
  double flops_per_second = 0;         // forward and backward, as TrainFlops counts
  double memory_bytes_per_second = 0;  // norm and AdamW, on all its threads
  double sum_bytes_per_second = 0;     // gradients that the one thread of its group adds up
  // Threads that compute, which the group's thread takes its time from; 0: it has a processor of
  // its own.
  int threads = 0;
};

// The network between ranks: a rank sends and receives so much at the same time.
struct NetworkRates {
  double bits_per_second = std::numeric_limits<double>::infinity();
  double latency = 0;              // seconds from one rank to another
  double seconds_per_message = 0;  // that the group's thread needs for each, whatever its size
};

// The cause that makes a step longer than its computing.
enum class StepBound {
  kCompute,   // nothing, or less than a tenth
  kNetwork,   // bytes on a link
  kMessages,  // their number and latency
  kSums,      // the thread that packs and adds up
};
const char* StepBoundName(StepBound bound);

// One step of many, of one rank; times in seconds.
struct StepPrediction {
  double seconds = 0;  // from one to the next

  double forward = 0, backward = 0;  // computing, of all its micro-batches; the head in `backward`
  double optimizer = 0;              // norm and AdamW of its part; with one rank adding up too
  double computing() const { return forward + backward + optimizer; }

  double reduce_bytes = 0;   // sent for the gradient of one micro-batch
  double gather_bytes = 0;   // sent for the new weights
  double bytes_sent = 0;     // all of a step
  double messages = 0;       // sent
  double communication = 0;  // an all-to-all is under way
  double waited = 0;         // of that, the rank waited
  double thread = 0;         // the group's thread packed, posted and added up
  uint64_t memory = 0;       // bytes of PlanOf, on the first rank
  int64_t tokens = 0;        // of all ranks
  double flops = 0;          // of all ranks
  StepBound bound = StepBound::kCompute;

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  // The part of the time with all-to-alls under way in which the rank computed; 1 for none.
  double hidden() const { return communication > 0 ? 1 - waited / communication : 1; }
  // The time of a step if messages took none, as a share of what it takes.
  double efficiency() const { return computing() / seconds; }
};

// A step of a Trainer: forward and backward of each micro-batch of a rank layer by layer, the
// gradient of each layer reduced in the buckets of train/buckets.h when its backward is over, the
// norm, AdamW on each rank's part and the gathering of weights that the next forward waits for
// (TrainStep). The waits are the step's own, in simulated time; all ranks are alike. REQUIRES: the
// shape's ranks divide its micro-batches; rates are positive.
StepPrediction PredictStep(const TrainShape& shape, const RankRates& rank,
                           const NetworkRates& network);

}  // namespace folio
