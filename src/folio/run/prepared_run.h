#pragma once

#include <memory>
#include <string>

#include "folio/backend/backend.h"
#include "folio/backend/finite_backend.h"
#include "folio/run/preview.h"
#include "folio/run/run_data.h"
#include "folio/run/run_ranks.h"
#include "folio/run/run_start.h"
#include "folio/run/training_run.h"

namespace folio {

// A training run that is ready: its settings are complete, its data is there, and what it trains
// with. If it never trains, its directory is put back as it was.
struct PreparedRun {
  RunSettings& settings;
  TrainingRunOptions options;
  RunRanks ranks;
  double began;  // SteadySeconds, for train.budget
  RunStart start = {};
  std::unique_ptr<Backend> backend = {};
  FiniteBackend* finite = nullptr;  // `backend`, with train.check_numerics
  RunData data = {};
  std::unique_ptr<TrainPreview> preview = {};

  RunConfig& config() const { return settings.config; }
};

// The three parts of a TrainingRun, whose contract they have.
PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options);
std::string PlanRun(PreparedRun& run, bool json);
TrainResult TrainRun(PreparedRun& run, const RunHooks& hooks);

}  // namespace folio
