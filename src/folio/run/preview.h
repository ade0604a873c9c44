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

// Every buffer of a training step in this shape, and the memory that it takes. Nothing is
// allocated.
Report BuffersReport(const TrainShape& shape);

// The work of a run that is still to do.
struct TrainWork {
  int64_t steps = 0, evaluations = 0;
  double flops = 0;             // of both
  double evaluation_flops = 0;  // of the evaluations, which go forward only
  double flops_per_token = 0;   // of training
};

// `done` steps of the run are behind it; train.context must be set. The held-out set has so many
// tokens.
TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done);

// The warning of a run that takes longer than a week whatever its text is, before anything is made
// of that: how long at the least, if all went as fast as matrix products do here, and what would
// mend it. "" for others. `rate` measures how many operations all ranks do in a second, and is
// asked only where it matters. REQUIRES: resolved settings of a run that has its size.
std::string LengthWarning(const RunSettings& settings, const std::function<double()>& rate);

// "about 3 times", for people: how often a text is read.
std::string HowOften(double epochs);

// The preview of a training run before it begins: its size, the memory it takes, and about how long
// it will take.
class TrainPreview {
 public:
  // train.context is set and train.dtype resolved; of so many ranks, this is one. Throws a
  // kResource Error where memory.total is too little, and warns where memory.available is. All must
  // outlive the preview.
  TrainPreview(const RunConfig& config, const Dataset& data, Backend& backend,
               const MachineMemory& memory, int ranks = 1);

  // A few lines about the run, then the memory plan.
  std::string Plan() const;

  // Takes a few steps of such a model on random tokens, for at most 2 s, and less where the run
  // itself will not take long. `done` steps of the run are behind it, and so many seconds of its
  // budget.
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
