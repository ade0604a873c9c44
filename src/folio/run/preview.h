#pragma once

#include <cstdint>
#include <string>

#include "folio/backend/backend.h"
#include "folio/base/machine.h"
#include "folio/run/estimate.h"
#include "folio/run/run_config.h"
#include "folio/train/plan.h"

namespace folio {

// What is told of a training run before it begins: its size, the memory it takes, and about how
// long it will take.
class TrainPreview {
 public:
  // train.context is set and train.dtype resolved. Throws a kResource Error where memory.total is
  // too little, and warns where memory.available is. All must outlive the preview.
  TrainPreview(const RunConfig& config, Backend& backend, const MachineMemory& memory);

  // Two lines about the run, then the memory plan.
  std::string Plan() const;

  // Measures the machine for a moment. `done` steps of the run are behind it.
  void Probe(int64_t held_out_tokens, int64_t done);

  // After Probe.
  std::string Estimate() const;
  std::string Event() const;  // all of it, as one line of JSON
  const TrainWork& work() const { return work_; }
  const TrainSpeed& speed() const { return speed_; }

 private:
  const RunConfig& config_;
  Backend& backend_;
  MachineMemory memory_;
  TrainShape shape_;
  TrainWork work_;
  TrainSpeed speed_;
};

}  // namespace folio
