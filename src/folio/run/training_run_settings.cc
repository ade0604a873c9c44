// Where the settings of a TrainingRun come from, and whether it begins or goes on.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/resumed_settings.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_lock.h"
#include "folio/run/training_run.h"
#include "folio/train/checkpoints.h"
#include "folio/train/train_state.h"

namespace folio {

namespace fs = std::filesystem;

void TrainingRun::ReadSettings() {
  Settings& layers = settings_.layers;
  if (options_.resume || options_.begin_or_resume) TakeRun();
  if (options_.begin_or_resume) ChooseStart();
  if (options_.resume) {
    if (FindCheckpoints(options_.out).empty()) {
      throw InputError(fmt::format("'{}' holds no run to resume", options_.out.string()),
                       fmt::format("there is no {}", (options_.out / kLastDir).string()),
                       HoldsRun(options_.out)
                           ? "the run ended before its first checkpoint: begin it again with "
                             "--overwrite in place of --resume"
                           : "leave out --resume to begin one");
    }
    checkpoint_ = Broadcast(first() ? SoundCheckpoint(options_.out).string() : "");
    if (fs::exists(options_.out / kRunConfigFile)) {
      layers.ReadTomlFile(Layer::kProjectFile, options_.out / kRunConfigFile);
    }
    options_.sources.discover = false;  // the run's own settings stand for the files' ones
  }
  layers.ReadSources(options_.sources);
  settings_.Resolve();
  if (options_.resume) RequireKnownSettings();
  if (options_.resume && options_.begin_or_resume) ForgetBeginning();
  ReadInitialModel();
  RequireBudgetGoesOn();
}

// Makes the directory of a run in order, and its own.
void TrainingRun::TakeRun() {
  if (first()) RequireNoLinks(options_.out);
  if (!options_.dry_run && first() && fs::is_directory(options_.out)) {
    lock_ = std::make_unique<RunLock>(options_.out);
    RecoverRun(options_.out);
  }
  Broadcast("");  // the directory is in order
}

// With begin_or_resume: whether there is something to go on from. A run that began and was killed
// before its first checkpoint begins again; what is no run is not replaced.
void TrainingRun::ChooseStart() {
  const fs::path& run = options_.out;
  std::string goes_on;
  if (first() && !FindCheckpoints(run).empty()) goes_on = "yes";
  options_.resume = !Broadcast(goes_on).empty();
  if (options_.resume) return;
  options_.overwrite = fs::exists(run / kRunConfigFile);
  Note(options_.overwrite
           ? fmt::format("'{}' ended before its first checkpoint: it begins again", run.string())
           : fmt::format("'{}' holds no run yet: it begins", run.string()));
}

// The settings of the run itself, as it was stopped.
std::unique_ptr<RunSettings> TrainingRun::SettingsBefore() const {
  auto before = std::make_unique<RunSettings>();
  if (fs::exists(options_.out / kRunConfigFile)) {
    before->layers.ReadTomlFile(Layer::kProjectFile, options_.out / kRunConfigFile);
  }
  before->layers.Resolve();
  return before;
}

// A run goes on with the settings that it has: neither a preset nor what is built in may take the
// place of one that is lost. A run of an earlier folio does not have all, which is told.
void TrainingRun::RequireKnownSettings() const {
  constexpr size_t kMostShown = 3;
  const fs::path config = options_.out / kRunConfigFile;
  const Settings& layers = settings_.layers;
  std::vector<Field> missing;
  for (const Field& field : layers.fields()) {
    if (layers.layer(field.key) <= Layer::kPreset) missing.push_back(field);
  }
  if (missing.empty()) return;
  // The checkpoint knows most of the model.
  std::stable_partition(missing.begin(), missing.end(),
                        [](const Field& field) { return field.key.starts_with("train."); });
  std::string which;
  bool of_preset = false;
  for (size_t i = 0; i < missing.size(); ++i) {
    const std::string& origin = layers.origin(missing[i].key);
    of_preset = of_preset || origin.starts_with("preset ");
    if (i >= kMostShown) continue;
    which += fmt::format("{}{} ({} has {})", i > 0 ? ", " : "", missing[i].key, origin,
                         FieldText(missing[i]));
  }
  if (missing.size() > kMostShown) {
    which += fmt::format(" and {} more", missing.size() - kMostShown);
  }
  const std::unique_ptr<RunSettings> before = SettingsBefore();
  const bool said = std::ranges::any_of(before->layers.fields(), [&](const Field& field) {
    return before->layers.layer(field.key) == Layer::kProjectFile;
  });
  if (said && !of_preset) {
    if (first()) LogWarning(fmt::format("{} does not say {}", config.string(), which));
    return;
  }
  throw InputError(
      config.string() + (said ? " does not say all settings of the run" : " is missing, or empty"),
      fmt::format("nobody knows with which settings the run goes on: {}", which),
      "put the file back; or give all of its settings with --config FILE, as the config.toml of a "
      "run that began alike has them");
}

// With begin_or_resume the command line is that of the run's beginning: what says how one begins is
// no wish of one that goes on.
void TrainingRun::ForgetBeginning() {
  const std::unique_ptr<RunSettings> before = SettingsBefore();
  for (const Field& field : before->layers.fields()) {
    for (const char* key : {"train.init", "train.init_adapter", "train.budget"}) {
      if (field.key != key) continue;
      settings_.layers.Set(Layer::kFlag, key, FieldText(field),
                           (options_.out / kRunConfigFile).string());
    }
  }
  settings_.Resolve();
}

// What is otherwise than when the run was stopped.
void TrainingRun::TellChanges() const {
  if (!fs::exists(options_.out / kRunConfigFile)) return;
  const RunConfig before = SettingsBefore()->config;
  for (const std::string& line : ChangedSettings(before, config_, SavedStep(checkpoint_))) {
    Note(line);
  }
}

void TrainingRun::ReadInitialModel() {
  const bool given = !config_.train.init.empty();
  const bool other = options_.resume && !options_.begin_or_resume;
  if (other && settings_.layers.layer("train.init") >= Layer::kSet) {
    throw UsageError("--init does not go with --resume", "a run goes on from its own checkpoint",
                     "leave --init out, or choose another --out to begin from that model");
  }
  if (config_.train.lora.on() && !given) {
    throw UsageError("--lora needs --init", "adapters are trained beside a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  if (!config_.train.init_adapter.empty() && !given) {
    throw UsageError("--adapter needs --init",
                     "it is added to the weights of a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  config_.train.lora.Validate("settings");
  if (!given || options_.resume) return;
  initial_.emplace(FindModel(config_.train.init, Loading::kMap, config_.train.init_adapter));
  UseInitialModel(settings_, *initial_);
}

}  // namespace folio
