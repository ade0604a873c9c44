#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "folio/backend/backend.h"
#include "folio/base/machine.h"
#include "folio/data/dataset.h"
#include "folio/io/json.h"
#include "folio/report/report.h"
#include "folio/run/run_config.h"
#include "folio/train/train_cost.h"

namespace folio {

// All buffers of a training step in this shape, and their memory. Allocates nothing.
Report BuffersReport(const TrainShape& shape);

// The remaining work of a run.
struct TrainWork {
  int64_t steps = 0, evaluations = 0;
  double flops = 0;             // of both
  double evaluation_flops = 0;  // of the evaluations, which go forward only
  double flops_per_token = 0;   // of training
};

// The work of a run after `done` steps. REQUIRES: train.context is set.
TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done);

// Returns a warning about a run that takes longer than a week with any text: the least time, at the
// speed of matrix products of this machine, and how to make it shorter; "" for other runs. `rate`
// measures the operations of all ranks in a second, and is called only for long runs. REQUIRES:
// resolved settings of a run whose size is known.
std::string LengthWarning(const RunSettings& settings, const std::function<double()>& rate);

// "about 3 times", for people: how often a text is read.
std::string HowOften(double epochs);

// The preview of a training run before it begins: its size, the memory it takes, and about how long
// it will take.
class TrainPreview {
 public:
  // The preview of one of `ranks` ranks. Throws a kResource Error if memory.total is too small, and
  // warns if memory.available is. All must outlive it. REQUIRES: train.context is set, train.dtype
  // resolved.
  TrainPreview(const RunConfig& config, const Dataset& data, Backend& backend,
               const MachineMemory& memory, int ranks = 1);

  // A few lines about the run, then the memory plan.
  std::string Plan() const;

  // Measures a few steps of such a model on random tokens, for at most 2 s, and less if the run
  // itself is short. `done` steps and `gone` seconds of the budget of the run have passed.
  void Probe(int64_t done, double gone);

  // The estimate after Probe: "about 31.0s: 2,000 steps, ..." for people.
  double EstimatedSeconds() const;
  std::string Estimate() const;
  Json Event() const;  // all of it
  const TrainWork& work() const { return work_; }

 private:
  bool TextEndsIt() const;

  const RunConfig& config_;
  const Dataset& data_;
  Backend& backend_;
  MachineMemory memory_;
  TrainShape shape_;
  MemoryBeside beside_;
  TrainWork work_;
  double epochs_ = 0;            // how often the run reads its data
  double seconds_left_ = 0;      // of the budget
  double flops_per_second_ = 0;  // of training steps, as Probe found them
};

}  // namespace folio
