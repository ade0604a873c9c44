#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/buckets.h"
#include "folio/train/config.h"

namespace folio {

// A method to update parameters, with its settings: AdamW, as AdamWUpdate (ops.h) computes it.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
};

// The method of each ParamGroup, in their order, with settings of its own.
struct OptimizerSettings {
  // AdamW for every group, without decay where IsDecayed says so.
  OptimizerSettings(const AdamW& all = {});

  const AdamW& method(ParamGroup group) const { return methods[static_cast<size_t>(group)]; }

  std::array<AdamW, kParamGroups.size()> methods;
};

OptimizerSettings OptimizerSettingsOf(const TrainConfig& config);

// The numbers that change from step to step: the step is counted from 1, gradients are multiplied
// with grad_scale.
struct OptimizerStep {
  double lr = 0;
  int64_t step = 1;
  double grad_scale = 1;
};

// Gradient clipping by norm: R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.
// The factor of a gradient of this norm that makes its norm `max_norm` at most; 1 for max_norm 0.
double ClipScale(double norm, double max_norm);

// An array that an optimizer keeps from step to step: a number for each element of the groups whose
// method has such state.
struct StateArray {
  // Returns true if the array has numbers for this parameter, and it is trained.
  bool Covers(const ParamInfo& info) const;
  // The numbers of such a parameter. REQUIRES: the array is that of one rank alone.
  Tensor View(const ParamInfo& info) const;

  std::string name;    // "m"; files have it by parameters, as "m.<parameter>"
  std::string buffer;  // its name in a plan, "adamw.m"
  size_t first = 0;    // the number, among all buckets, of the first in `shards`
  Shards shards;       // the buckets of these groups
  Tensor tensor = {};  // this rank's pieces of them, one after the other
};

// The arrays for a flat array that is divided so; their tensors are empty.
std::vector<StateArray> StateLayout(const OptimizerSettings& settings, const Shards& shards);
// Elements of all arrays for what is trained of a model, or of a shard of it.
int64_t StateElements(const OptimizerSettings& settings, const ParamTable& table);
// Returns true if a buffer of a plan is such an array.
bool IsStateBuffer(std::string_view buffer);
// The arrays in words: "two for AdamW".
std::string DescribeState(const OptimizerSettings& settings);
// The arrays that an update of a group reads or writes: parameters, gradients, and state twice.
int64_t UpdatePasses(const OptimizerSettings& settings, ParamGroup group);

// Updates a rank's pieces of a flat array (Shards) by the method of each group, and keeps the state
// for them. Code that saves, gathers, counts or plans the state uses StateLayout or State(), and
// depends neither on the number of arrays nor on their names.
class Optimizer {
 public:
  Optimizer(Backend& backend, const OptimizerSettings& settings, Dtype dtype, const Shards& shards,
            int rank = 0);
  // Adds the buffers of a rank's state to a plan.
  static void AddTo(MemoryPlan& plan, const OptimizerSettings& settings, Dtype dtype,
                    const Shards& shards, int rank = 0);

  // Updates this rank's piece of a bucket, `param`, with its gradient, and `low`, unless that is
  // empty, to the same rounded to BF16.
  void Step(const OptimizerStep& step, size_t bucket, const Tensor& param, const Tensor& grad,
            const Tensor& low = {});

  std::span<const StateArray> State() const { return state_; }
  const OptimizerSettings& settings() const { return settings_; }
  int rank() const { return rank_; }

 private:
  Backend& backend_;
  OptimizerSettings settings_;
  Shards shards_;
  int rank_;
  MemoryPlan plan_;
  Arena arena_;
  std::vector<StateArray> state_;
};

}  // namespace folio
