#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/run/run_config.h"
#include "folio/term/console.h"
#include "folio/train/run_log.h"

namespace folio {

class Group;
struct PreparedRun;

// Called while a run trains; any of them may be empty.
struct RunHooks {
  std::function<void(const StepMetrics&)> on_step = {};  // after each step
  std::function<void(int64_t step, const Evaluation&)> on_evaluation = {};
  std::function<void(int64_t step, const std::string& text)> on_sample = {};
  std::function<bool()> stop_requested = {};  // asked after each step
  // Asked between the operations of a step, of one rank alone: true drops the step and stops.
  std::function<bool()> abandon_requested = {};
};

struct TrainingRunOptions {
  // Texts, "-" for standard input, or directories of such (corpus/text_files.h), or one data set.
  // Empty: the run's own with `resume`, and those of the run whose config.toml is sources.file.
  std::vector<std::string> data = {};
  std::filesystem::path out = {};  // the run directory (run_directory.h)
  bool resume = false;             // go on from the last checkpoint
  // Goes on likewise where there is a checkpoint, else begins. What says how a run begins, such as
  // train.init and train.budget, then counts only where it does.
  bool begin_or_resume = false;
  bool overwrite = false;  // replace the run that is there
  bool dry_run = false;    // leave nothing behind: for Plan only
  // Chooses size and steps for so long (automatic.h) where neither a setting says how large the
  // model is nor train.budget how long to train. 0: the settings as they are.
  double budget_seconds = 0;
  ConfigSources sources = {.discover = false};
  // Progress and notes go here, with --json's events as its result; null for nowhere.
  Console* console = nullptr;
  // Without a console: called while texts become tokens, with the bytes that are dealt with and
  // their total. May throw to stop.
  std::function<void(int64_t done, int64_t total)> on_prepare = {};
  ProgressMode progress = ProgressMode::kAuto;
  // The ranks that train together (ranks/group.h), each with a TrainingRun of the same settings and
  // options; null for one alone. The first makes the data, writes and tells; the directory and the
  // data are where all can read them.
  Group* group = nullptr;
  // Data of so many bytes is compared with its hashes before the run begins, larger data beside
  // training: this takes a few tenths of a second.
  int64_t hashed_at_once = int64_t{128} << 20;
};

// A training run from its settings to its last checkpoint: gathers the settings, makes the data
// from text, gives the model the data's vocabulary, trains, and keeps everything that a run
// directory holds.
class TrainingRun {
 public:
  // Until Train begins, the directory is put back as it was if anything fails. Sets the number of
  // threads to train.threads, if that is not 0. `settings` and the console must outlive the run.
  // Throws a kUsage Error where settings or options do not fit, a kInput Error for the data, a
  // kResource Error where memory does not suffice. The run directory is its own until it is gone: a
  // kUsage Error if another process trains there. Data that is not what was prepared is a kInput
  // Error, here or, where it is large, of Train.
  TrainingRun(RunSettings& settings, TrainingRunOptions options);
  TrainingRun(const TrainingRun&) = delete;
  ~TrainingRun();

  // Says what is going to happen and about how long it will take, for people or as a line of JSON;
  // with a group also what each rank does. All ranks ask.
  std::string Plan(bool json);

  // Trains to train.max_steps, or until a signal (term/signals.h) or `hooks` ask to stop. Throws a
  // kDiverged Error as Trainer::Run does. Once. With a group, all ranks train, and stop together.
  TrainResult Train(const RunHooks& hooks = {});

 private:
  std::unique_ptr<PreparedRun> run_;
};

}  // namespace folio
