#pragma once

#include <filesystem>
#include <memory>

#include "folio/data/dataset.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_start.h"
#include "folio/text/tokenizer.h"

namespace folio {

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

}  // namespace folio
