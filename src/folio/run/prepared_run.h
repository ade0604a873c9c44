#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/data/dataset.h"
#include "folio/dist/group.h"
#include "folio/formats/model_formats.h"
#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "folio/run/run_directory.h"
#include "folio/run/training_run.h"
#include "folio/term/console.h"
#include "folio/text/tokenizer.h"

namespace folio {

class Workers;

// The ranks of a training run before they train: whatever the first rank finds, makes or chooses
// for all goes through here, and so does what must be the same everywhere. It alone speaks to
// people.
class RunRanks {
 public:
  // A group of null, or of one rank, is one rank alone; a console of null is nowhere.
  RunRanks(Group* group, Console* console)
      : group_(group != nullptr && !group->alone() ? group : nullptr), console_(console) {}

  Group* group() const { return group_; }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }
  // The first rank's console; else null.
  Console* console() const { return first() ? console_ : nullptr; }
  void Note(const std::string& text) const {
    if (console() != nullptr) console()->Note(text);
  }

  // Waits until the first rank has come here, too.
  void WaitForFirst() const { Share(""); }
  // Returns what the first rank says, for all.
  std::string Share(const std::string& mine) const { return Broadcast(group_, mine); }
  bool Agree(bool mine) const { return !Share(mine ? "yes" : "").empty(); }
  // Returns make(workers) of the first rank, for all. The others are its workers meanwhile; one
  // rank alone has null.
  std::string MakeTogether(const std::function<std::string(Workers*)>& make) const;

  // Throws a kUsage Error unless the ranks can share a step, and every setting but how many threads
  // each has is that of the others.
  void RequireSameSettings(RunConfig& config) const;
  // The settings that the first rank chose by measuring become those of all.
  void ShareSettings(RunSettings& settings) const;
  // A line for each rank, what it computes with; "" for one alone. All ranks ask.
  std::string Describe(const RunConfig& config, const Backend& backend, bool json) const;

 private:
  Group* group_;
  Console* console_;
};

// The meaning of a setting that is another one now, for a run that goes on.
enum class Resumption {
  kFree,      // its numbers are the same
  kFromHere,  // from here on it is another run
  kFixed,     // cannot be
};
Resumption ResumptionOf(std::string_view key);

// Tells how the settings changed of a run that goes on at `step`: a line for each that is another
// one `now`, and one for all that make the learning rate another. Throws a kUsage Error that names
// the first that cannot be another.
std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step);

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

// The parts of a TrainingRun before it trains, whose contract they have.
PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options);
std::string PlanRun(PreparedRun& run, bool json);

}  // namespace folio
