#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "folio/bench/training.h"
#include "folio/train/train_cost.h"

namespace folio {

// The rates of one rank.
struct RankRates {
  double flops_per_second = 0;         // forward and backward, as TrainFlops counts
  double memory_bytes_per_second = 0;  // norm and AdamW, on all its threads
  double sum_bytes_per_second = 0;     // gradients that the one thread of its group adds up
  // Threads that compute, and share their processors with the group's thread; 0: it has a processor
  // of its own.
  int threads = 0;
};

// The network between ranks; each rank sends and receives at this rate at the same time.
struct NetworkRates {
  double bits_per_second = std::numeric_limits<double>::infinity();
  double latency = 0;              // seconds from one rank to another
  double seconds_per_message = 0;  // that the group's thread needs for each, whatever its size
};

// The cause that makes a step longer than its computing.
enum class StepBound {
  kCompute,   // none: it is less than a tenth longer
  kNetwork,   // the bandwidth
  kMessages,  // the number and latency of messages
  kSums,      // the thread that packs and adds up
};

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
  // The time of a step without communication, as a share of its time.
  double efficiency() const { return computing() / seconds; }
};

// A step of a Trainer: forward and backward of each micro-batch of a rank layer by layer, the
// gradient of each layer reduced in the buckets of train/buckets.h when its backward is over, the
// norm, AdamW on each rank's part and the gathering of weights that the next forward waits for
// (TrainStep). The waits are the step's own, in simulated time; all ranks are alike. REQUIRES: the
// shape's ranks divide its micro-batches; rates are positive.
StepPrediction PredictStep(const TrainShape& shape, const RankRates& rank,
                           const NetworkRates& network);

// The cost of an all-to-all for a rank, in seconds.
struct AllToAllCost {
  double prepare = 0;  // of the group's thread, before anything is sent: packing, posting messages
  double wire = 0;     // in which the rank's link is full
  double flight = 0;   // from the last byte that is sent to its arrival
  double finish = 0;   // of the group's thread, when everything is here: adding up
};

// The all-to-alls of a Group in simulated time, where all ranks do the same at the same time: one
// thread begins them in their order, AllToAll::kInFlight at most, the link carries one after the
// other, and the thread ends them in their order (ranks/group.cc). Times that are given never go
// back.
class SimulatedGroup {
 public:
  // Group::Begin at that time.
  uint64_t Begin(double now, const AllToAllCost& cost);
  // Group::Wait: when it returns. Ticket 0 was always done.
  double Wait(double now, uint64_t ticket);

  // As GroupTraffic has them: with an all-to-all under way; of these, spent in Wait.
  double seconds() const { return seconds_; }
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Queued {
    double begun = 0;
    AllToAllCost cost = {};
  };
  struct UnderWay {
    double here = 0;    // when everything has arrived
    double finish = 0;  // AllToAllCost's
  };

  void RunUntilDone(uint64_t ticket);

  std::deque<Queued> queue_;
  std::deque<UnderWay> under_way_;
  uint64_t begun_ = 0, done_ = 0;
  double thread_ = 0;  // until when it was at work
  double link_ = 0;    // until when it is full
  double busy_since_ = 0;
  double seconds_ = 0, seconds_waited_ = 0;
};

// Measures this machine as a rank alone: forward and backward of such a model (`options` as in
// MeasureTrainRate; with fewer layers, sequences and positions where a pass takes too long or too
// much memory), the optimizer, and adding up on one thread. Takes a few seconds. Throws a kResource
// Error where not even a layer has room.
RankRates MeasureRankRates(Backend& backend, const BenchTrainOptions& options);

// Measures all of them but flops_per_second.
RankRates MeasureMemoryRates(Backend& backend);

// Predictions for one model on several numbers of ranks and networks.
struct StepPlan {
  struct Row {
    int ranks = 1;
    int64_t grad_accumulation = 1;  // of all ranks
    NetworkRates network = {};
    StepPrediction step = {};
  };

  std::string model = {};  // its name
  GptConfig config = GptConfig();
  int64_t B = 1, T = 1;
  PassOptions pass = {};
  int64_t reduce_every = 1;
  Dtype reduce = Dtype::kF32;
  RankRates rank = {};
  std::string rates_from = {};  // "measured here, 8 threads"
  std::vector<Row> rows = {};
};

// "10Gbit", "2.5Gbit/s", "800Mbit" in bits a second; "20us", "1.5ms", "0" in seconds. Throw a
// kUsage Error that names `flag` for anything else.
double ParseBitsPerSecond(const std::string& text, const std::string& flag);
double ParseShortTime(const std::string& text, const std::string& flag);

std::string HumanBits(double bits_per_second);  // "10 Gbit/s"

}  // namespace folio
