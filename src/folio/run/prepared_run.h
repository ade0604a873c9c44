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

// The ranks of a training run before they train. The first rank reads, prepares and chooses for all
// and shares the results here; only its notes are shown.
class RunRanks {
 public:
  using OnNote = std::function<void(const std::string&)>;

  // A null group, or one of one rank, is one rank alone; `on_note` may be empty.
  RunRanks(Group* group, OnNote on_note)
      : group_(group != nullptr && !group->alone() ? group : nullptr),
        on_note_(std::move(on_note)) {}

  Group* group() const { return group_; }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return IsFirst(group_); }
  void Note(const std::string& text) const {
    if (first() && on_note_) on_note_(text);
  }

  // Waits until the first rank has called it, too.
  void WaitForFirst() const { Share(""); }
  // Returns the first rank's `mine` on all ranks.
  std::string Share(const std::string& mine) const { return Broadcast(group_, mine); }
  bool Agree(bool mine) const { return !Share(mine ? "yes" : "").empty(); }

 private:
  Group* group_;
  OnNote on_note_;
};

// A training run that is ready to train: its settings, data, tokenizer, model and backend. If it
// never trains, its directory is restored.
struct PreparedRun {
  RunSettings& settings;
  TrainingRunOptions options;
  RunRanks ranks;
  double began;  // SteadySeconds, for train.budget

  bool resume = false;                     // it continues from `checkpoint`
  bool overwrite = false;                  // it replaces an existing run
  std::filesystem::path checkpoint = {};   // with `resume`
  std::unique_ptr<RunLock> lock = {};      // with `resume`; a new run has its own
  std::optional<FoundModel> initial = {};  // train.init; none with `resume`
  // With train.save "adapter", the model that the adapters of a resumed run are for, and the
  // WeightsSha256 of it or of `initial`.
  std::optional<FoundModel> base = {};
  std::string base_sha256 = {};
  // The steps are chosen for so many seconds, and with `automatic` also the size; 0: neither.
  double budget_seconds = 0;
  bool automatic = false;

  std::unique_ptr<Backend> backend = {};
  FiniteBackend* finite = nullptr;  // `backend`, with train.check_numerics
  // The directory of a new run until it begins; with dry_run one beside the run's, if data is made.
  std::unique_ptr<NewRun> new_run = {};
  std::unique_ptr<Dataset> data = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  // null if that of the data is not known
  std::unique_ptr<TrainPreview> preview = {};

  RunConfig& config() const { return settings.config; }
  // Measures the speed of the steps that the run has still to make.
  void ProbePreview() const;
  // The directory of the files of the run: that of NewRun until it begins.
  std::filesystem::path Parts() const { return new_run ? new_run->path() : options.out; }
};

// A TrainingRun before it trains, whose contract it has: the steps below, one after the other.
PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options);

// Settings (gather_settings.cc): reads and resolves the settings, decides whether the run goes on,
// takes the lock of its directory if it may, and opens the model of train.init.
void GatherSettings(PreparedRun& run);
// Returns how the settings of a run that continues at `step` have changed: a line for each, and one
// line for all that change the learning rate. Throws a kUsage Error for the first that must not
// change.
std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step);
// Notes these lines.
void NoteChangedSettings(const PreparedRun& run);

// Data (open_data.cc): opens the data set and its tokenizer, or prepares both from the text.
void OpenData(PreparedRun& run);
// The data that the caller named, or that of the run whose settings are read.
std::vector<std::string> GivenData(const PreparedRun& run);

// Size (fit_model.cc). Warns of a run that would take too long, before its text is prepared.
void WarnOfLength(const PreparedRun& run);
// Chooses size, steps and evaluations as far as no setting gives them.
void ChooseSizeAndSteps(PreparedRun& run);
// Gives the settings the values that the machine and the files have: the length of sequences, the
// dtype, the places of models.
void ResolveTraining(PreparedRun& run);
// Throws a kInput Error for a text that does not fill one window.
void RequireWindow(const PreparedRun& run);
// Gives the model the vocabulary and the special tokens of the data.
void FitModelToData(PreparedRun& run);

}  // namespace folio
