#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "folio/backend/backend.h"
#include "folio/backend/finite_backend.h"
#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/run/preview.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_lock.h"
#include "folio/run/run_ranks.h"
#include "folio/run/training_run.h"
#include "folio/text/tokenizer.h"

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

// The data that a run trains on, and the directory where a new run waits until it begins.
struct RunData {
  std::unique_ptr<NewRun> new_run;  // with dry_run a directory beside the run's, if data is made
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Tokenizer> tokenizer;  // null where nobody knows the data's

  // The directory of the parts of the run: those of a new one wait aside until it begins.
  std::filesystem::path Parts(const std::filesystem::path& run) const {
    return new_run != nullptr ? new_run->path() : run;
  }
};

// Opens the data of a run, as it was prepared, or makes it of text, and its tokenizer. A new run
// takes the lock of `start`. Throws as TrainingRun does.
RunData OpenRunData(RunSettings& settings, const TrainingRunOptions& options, RunStart& start,
                    const RunRanks& ranks);

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
