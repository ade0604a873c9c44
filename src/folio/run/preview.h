#pragma once

#include <cstdint>
#include <string>

#include "folio/backend/backend.h"
#include "folio/base/machine.h"
#include "folio/run/run_config.h"
#include "folio/train/plan.h"

namespace folio {

// Every buffer of a training step in this shape, and the memory that it takes: a table for people,
// or one JSON object (`json`). Nothing is allocated.
std::string DescribeBuffers(const TrainShape& shape, bool json);

// The work of a run that is still to do.
struct TrainWork {
  int64_t steps = 0, evaluations = 0;
  double flops = 0;            // of both; an evaluation goes forward only
  double flops_per_token = 0;  // of training
  int64_t channels = 0;        // n_embd: how large the products are
};

// `done` steps of the run are behind it; train.context must be set. The held-out set has so many
// tokens.
TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done);

// What the machine was found to do just before the run.
struct TrainSpeed {
  Dtype dtype = Dtype::kF32;  // of the computation
  double product_flops_per_second = 0;
};

// Measures matrix products of this dtype, for a moment: at most 0.25 s, and less where the whole
// run will not take long.
TrainSpeed ProbeSpeed(Backend& backend, Dtype dtype, const TrainWork& work);

// Part of the product rate that the steps of such a model reach, as measured of the presets. The
// faster the products, the more of the time lies between them, most of all in a narrow model.
double UsualShare(const TrainWork& work, Dtype dtype);
double EstimatedSeconds(const TrainWork& work, const TrainSpeed& speed);

// "about 31.0s: 2,000 steps, ..." for people.
std::string DescribeEstimate(const TrainWork& work, const TrainSpeed& speed);

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
