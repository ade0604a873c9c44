#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "folio/model/params.h"

namespace folio {

// Mean and variance of a series with decaying weights: the last value has the weight 1 / kWindow,
// or 1 / count as long as there are fewer. T. Finch, "Incremental calculation of weighted mean and
// variance", 2009.
struct RunningMoments {
  static constexpr int64_t kWindow = 100;

  int64_t count = 0;
  double mean = 0, variance = 0;

  // REQUIRES: value is finite.
  void Add(double value);
  // Returns the number of standard deviations by which `value` lies above the mean; 0 as long as
  // fewer than 20 values are known, and for a value within a hundredth of the mean, so that noise
  // is no deviation from a constant series.
  double Above(double value) const;
};

// The reason for which the update of a step was not made.
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

  // Returns the reason for which a step with this loss and gradient norm must not be made, if there
  // is one. With zscore 0 no step is a spike. `non_finite` is called where the norm is not finite,
  // and names the parameter whose gradient is not.
  std::optional<SkippedStep> Judge(double loss, double grad_norm, double zscore, int64_t vocab_size,
                                   const std::function<std::string()>& non_finite) const;
  // Returns true if a loss, in nats per token, shows that the parameters are lost: it is not
  // finite, or more than ten times both the first one and the loss of a uniform guess.
  bool BlownUp(double loss, int64_t vocab_size) const;
  // Counts a step for which Judge returned `skipped`.
  void Count(const std::optional<SkippedStep>& skipped, double loss, double grad_norm,
             double zscore);
};

// The parameter whose gradient, in F32, is the first that is not finite in the order in which the
// backward goes through the model, which is from the last layer to the first; "" if all are finite.
std::string FirstNonFinite(const ParamTable& table, const Tensor& grads);

}  // namespace folio
