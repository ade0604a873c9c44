#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "folio/model/params.h"

namespace folio {

// Mean and variance of a series in which what is long past counts for less: the last value has the
// weight 1 / kWindow, or 1 / count as long as there are fewer. T. Finch, "Incremental calculation
// of weighted mean and variance", 2009.
struct RunningMoments {
  static constexpr int64_t kWindow = 100;

  int64_t count = 0;
  double mean = 0, variance = 0;

  // REQUIRES: value is finite.
  void Add(double value);
  // How many standard deviations `value` lies above the mean; 0 as long as fewer than 20 values are
  // known. What is within a hundredth of the mean is no deviation at all: a series that stands
  // still is not upset by noise.
  double Above(double value) const;
};

// Why a step's update was not made.
struct SkippedStep {
  // "non-finite loss", "non-finite gradient", "loss blow-up", "loss spike", "gradient spike"
  std::string reason;
  std::string parameter;  // whose gradient it is, for "non-finite gradient"
};

// The health of the steps so far; part of the saved state.
struct StepHealth {
  int64_t skipped = 0, skipped_in_a_row = 0;
  double first_loss = 0;                         // of the first step that was made; 0 before
  RunningMoments loss = {}, log_grad_norm = {};  // of steps that were made, where spikes are sought

  // Says why the update of a step with this loss and gradient may not be made, if it may not.
  // zscore 0 seeks no spikes. `non_finite` names the parameter whose gradient is not finite, where
  // the norm is not.
  std::optional<SkippedStep> Judge(double loss, double grad_norm, double zscore, int64_t vocab_size,
                                   const std::function<std::string()>& non_finite) const;
  // Returns whether a loss, in nats per token, tells of parameters that are lost: it is not finite,
  // or more than ten times both the first one and what it costs to guess.
  bool BlownUp(double loss, int64_t vocab_size) const;
  // Counts the step that was judged so.
  void Count(const std::optional<SkippedStep>& skipped, double loss, double grad_norm,
             double zscore);
};

// The parameter whose gradient, in F32, is the first that is not finite in the order in which the
// backward goes through the model, which is from the last layer to the first; "" if all are finite.
std::string FirstNonFinite(const ParamTable& table, const Tensor& grads);

}  // namespace folio
