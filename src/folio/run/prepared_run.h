#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/ranks/group.h"
#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "folio/run/run_directory.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The ranks of a training run before they train. The first rank finds, makes and chooses for all of
// them and shares it here; it alone gives notes to people.
class RunRanks {
 public:
  using OnNote = std::function<void(const std::string&)>;

  // A group of null, or of one rank, is one rank alone; `on_note` may be empty.
  RunRanks(Group* group, OnNote on_note)
      : group_(group != nullptr && !group->alone() ? group : nullptr),
        on_note_(std::move(on_note)) {}

  Group* group() const { return group_; }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }
  void Note(const std::string& text) const {
    if (first() && on_note_) on_note_(text);
  }

  // Waits until the first rank has come here, too.
  void WaitForFirst() const { Share(""); }
  // Returns what the first rank says, for all.
  std::string Share(const std::string& mine) const { return Broadcast(group_, mine); }
  bool Agree(bool mine) const { return !Share(mine ? "yes" : "").empty(); }

 private:
  Group* group_;
  OnNote on_note_;
};

// A training run that is ready: its settings are complete, its data is there, and what it trains
// with. If it never trains, its directory is put back as it was.
struct PreparedRun {
  RunSettings& settings;
  TrainingRunOptions options;
  RunRanks ranks;
  double began;  // SteadySeconds, for train.budget

  bool resume = false;                     // it goes on, from `checkpoint`
  bool overwrite = false;                  // it takes the place of the run that is there
  std::filesystem::path checkpoint = {};   // with `resume`
  std::unique_ptr<RunLock> lock = {};      // with `resume`; a new run has its own
  std::optional<FoundModel> initial = {};  // train.init; none with `resume`
  // With train.save "adapter", the model that adapters are for where the run goes on, and the
  // WeightsSha256 of it or of `initial`.
  std::optional<FoundModel> base = {};
  std::string base_sha256 = {};
  // The run chooses its steps for so many seconds, and with `automatic` its size too; 0: neither.
  double budget_seconds = 0;
  bool automatic = false;

  std::unique_ptr<Backend> backend = {};
  FiniteBackend* finite = nullptr;  // `backend`, with train.check_numerics
  // The directory of a new run until it begins; with dry_run one beside the run's, if data is made.
  std::unique_ptr<NewRun> new_run = {};
  std::unique_ptr<Dataset> data = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  // null where nobody knows the data's
  std::unique_ptr<TrainPreview> preview = {};

  RunConfig& config() const { return settings.config; }
  // Measures how fast the steps that are ahead will be.
  void ProbePreview() const;
  // The directory of the parts of the run: those of a new one wait aside until it begins.
  std::filesystem::path Parts() const { return new_run ? new_run->path() : options.out; }
};

// A TrainingRun before it trains, whose contract it has: the steps below, one after the other.
PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options);

// Settings (gather_settings.cc): reads and resolves the settings, decides whether the run goes on,
// takes the lock of its directory if it may, and opens the model of train.init.
void GatherSettings(PreparedRun& run);
// Returns how the settings of a run that goes on at `step` have changed: a line for each that is
// another `now`, and one for all that make the learning rate another. Throws a kUsage Error for the
// first that cannot change.
std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step);
// Notes these lines.
void NoteChangedSettings(const PreparedRun& run);

// Data (open_data.cc): opens the data set and its tokenizer, or makes both of the text.
void OpenData(PreparedRun& run);
// The data that the caller named, or that of the run whose settings are read.
std::vector<std::string> GivenData(const PreparedRun& run);

// Size (fit_model.cc). Warns of a run that would take too long, before anything is made of its
// text.
void WarnOfLength(const PreparedRun& run);
// Chooses size, steps and evaluations as far as no setting says them.
void ChooseSizeAndSteps(PreparedRun& run);
// Gives the settings the values that the machine and the files have: the length of sequences, the
// dtype, the places of models.
void ResolveTraining(PreparedRun& run);
// Throws a kInput Error for a text that does not fill one window.
void RequireWindow(const PreparedRun& run);
// Gives the model the vocabulary and the special tokens of the data.
void FitModelToData(PreparedRun& run);

}  // namespace folio
