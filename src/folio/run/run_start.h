#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "folio/formats/model_formats.h"
#include "folio/run/run_config.h"
#include "folio/run/run_lock.h"
#include "folio/run/run_ranks.h"
#include "folio/run/training_run.h"

namespace folio {

// How a run begins or goes on, before it has data.
struct RunStart {
  bool resume = false;                     // it goes on, from `checkpoint`
  bool overwrite = false;                  // it takes the place of the run that is there
  std::filesystem::path checkpoint = {};   // with `resume`
  std::unique_ptr<RunLock> lock = {};      // with `resume`; a new run has its own
  std::optional<FoundModel> initial = {};  // train.init; none with `resume`
  // The run chooses its steps for so many seconds, and with `automatic` its size too; 0: neither.
  double budget_seconds = 0;
  bool automatic = false;
};

// Reads and resolves the settings of a run, takes the lock of its directory where it may go on, and
// decides whether it does. Throws as TrainingRun does.
RunStart StartRun(RunSettings& settings, const TrainingRunOptions& options, const RunRanks& ranks);

// Notes which settings of a run that goes on are others than when it was stopped.
void TellChanges(const RunSettings& settings, const TrainingRunOptions& options,
                 const RunStart& start, const RunRanks& ranks);

}  // namespace folio
