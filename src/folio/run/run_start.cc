#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/model_dir.h"
#include "folio/run/automatic.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/prepared_run.h"
#include "folio/run/resumed_settings.h"
#include "folio/train/checkpoints.h"
#include "folio/train/train_state.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Makes the directory of a run in order, and this process its owner.
std::unique_ptr<RunLock> TakeRun(const TrainingRunOptions& options, const RunRanks& ranks) {
  std::unique_ptr<RunLock> lock;
  if (ranks.first()) RequireNoLinks(options.out);
  if (!options.dry_run && ranks.first() && fs::is_directory(options.out)) {
    lock = std::make_unique<RunLock>(options.out);
    RecoverRun(options.out);
  }
  ranks.WaitForFirst();  // the directory is in order
  return lock;
}

// Decides whether there is something that begin_or_resume goes on from. A run that began and was
// killed before its first checkpoint begins again; what is no run is not replaced.
void ChooseStart(const fs::path& run, const RunRanks& ranks, RunStart& start) {
  start.resume = ranks.Agree(ranks.first() && !FindCheckpoints(run).empty());
  if (start.resume) return;
  start.overwrite = fs::exists(run / kRunConfigFile);
  ranks.Note(
      start.overwrite
          ? fmt::format("'{}' ended before its first checkpoint: it begins again", run.string())
          : fmt::format("'{}' holds no run yet: it begins", run.string()));
}

// The checkpoint that the run goes on from.
fs::path FindCheckpoint(const fs::path& run, const RunRanks& ranks) {
  if (FindCheckpoints(run).empty()) {
    throw InputError(fmt::format("'{}' holds no run to resume", run.string()),
                     fmt::format("there is no {}", (run / kLastDir).string()),
                     HoldsRun(run)
                         ? "the run ended before its first checkpoint: begin it again with "
                           "--overwrite in place of --resume"
                         : "leave out --resume to begin one");
  }
  return ranks.Share(ranks.first() ? SoundCheckpoint(run).string() : "");
}

// The settings of the run itself, as it was stopped.
std::unique_ptr<RunSettings> SettingsBefore(const fs::path& run) {
  auto before = std::make_unique<RunSettings>();
  if (fs::exists(run / kRunConfigFile)) {
    before->layers.ReadTomlFile(Layer::kProjectFile, run / kRunConfigFile);
  }
  before->layers.Resolve();
  return before;
}

// A run goes on with the settings that it has: neither a preset nor what is built in may take the
// place of one that is lost. A run of an earlier folio does not have all, which is told.
void RequireKnownSettings(const RunSettings& settings, const fs::path& run, const RunRanks& ranks) {
  constexpr size_t kMostShown = 3;
  const fs::path config = run / kRunConfigFile;
  const Settings& layers = settings.layers;
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
  const std::unique_ptr<RunSettings> before = SettingsBefore(run);
  const bool said = std::ranges::any_of(before->layers.fields(), [&](const Field& field) {
    return before->layers.layer(field.key) == Layer::kProjectFile;
  });
  if (said && !of_preset) {
    if (ranks.first()) LogWarning(fmt::format("{} does not say {}", config.string(), which));
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
void ForgetBeginning(RunSettings& settings, const fs::path& run) {
  const std::unique_ptr<RunSettings> before = SettingsBefore(run);
  for (const Field& field : before->layers.fields()) {
    for (const char* key : {"train.init", "train.init_adapter", "train.budget"}) {
      if (field.key != key) continue;
      settings.layers.Set(Layer::kFlag, key, FieldText(field), (run / kRunConfigFile).string());
    }
  }
  settings.Resolve();
}

// Throws a kUsage Error where the settings of adapters and of a model to begin from do not go
// together, or with a run that only goes on.
void RequireInitialModelFits(RunSettings& settings, bool goes_on) {
  const RunConfig& config = settings.config;
  const bool given = !config.train.init.empty();
  if (goes_on && settings.layers.layer("train.init") >= Layer::kSet) {
    throw UsageError("--init does not go with --resume", "a run goes on from its own checkpoint",
                     "leave --init out, or choose another --out to begin from that model");
  }
  if (config.train.lora.on() && !given) {
    throw UsageError("--lora needs --init", "adapters are trained beside a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  if (!config.train.init_adapter.empty() && !given) {
    throw UsageError("--adapter needs --init",
                     "it is added to the weights of a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  config.train.lora.Validate("settings");
}

// Size and steps are open only where a run begins. Whoever says how many steps there are has no
// clock followed.
void ReadBudget(RunSettings& settings, RunStart& start) {
  Settings& layers = settings.layers;
  const bool budget = !settings.config.train.budget.empty();
  if (start.resume && budget && layers.layer("train.budget") > Layer::kProjectFile) {
    throw UsageError("--budget is of a run that begins", "this one goes on",
                     "leave --budget out, and say with --max-steps how long to train");
  }
  start.automatic = (budget || start.budget_seconds > 0) && !start.resume && SizeIsOpen(layers);
  if (budget) start.budget_seconds = settings.config.train.budget_seconds();
  if (layers.layer("train.max_steps") < Layer::kEnvironment) return;
  layers.Set(Layer::kFlag, "train.budget", "", layers.origin("train.max_steps"));
  settings.Resolve();
}

}  // namespace

RunStart StartRun(RunSettings& settings, const TrainingRunOptions& options, const RunRanks& ranks) {
  Settings& layers = settings.layers;
  RunStart start{.resume = options.resume,
                 .overwrite = options.overwrite,
                 .budget_seconds = options.budget_seconds};
  if (options.resume || options.begin_or_resume) start.lock = TakeRun(options, ranks);
  if (options.begin_or_resume) ChooseStart(options.out, ranks, start);
  ConfigSources sources = options.sources;
  if (start.resume) {
    start.checkpoint = FindCheckpoint(options.out, ranks);
    if (fs::exists(options.out / kRunConfigFile)) {
      layers.ReadTomlFile(Layer::kProjectFile, options.out / kRunConfigFile);
    }
    sources.discover = false;  // the run's own settings stand for the files' ones
  }
  layers.ReadSources(sources);
  settings.Resolve();
  if (start.resume) RequireKnownSettings(settings, options.out, ranks);
  if (start.resume && options.begin_or_resume) ForgetBeginning(settings, options.out);
  RequireInitialModelFits(settings, start.resume && !options.begin_or_resume);
  if (!settings.config.train.init.empty() && !start.resume) {
    const TrainConfig& train = settings.config.train;
    start.initial.emplace(FindModel(train.init, Loading::kMap, train.init_adapter));
    UseInitialModel(settings, *start.initial);
  }
  ReadBudget(settings, start);
  return start;
}

void TellChanges(const RunSettings& settings, const TrainingRunOptions& options,
                 const RunStart& start, const RunRanks& ranks) {
  if (!fs::exists(options.out / kRunConfigFile)) return;
  const RunConfig before = SettingsBefore(options.out)->config;
  for (const std::string& line :
       ChangedSettings(before, settings.config, SavedStep(start.checkpoint))) {
    ranks.Note(line);
  }
}

}  // namespace folio
