#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/base_model.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/prepared_run.h"
#include "folio/train/checkpoints.h"
#include "folio/train/schedule.h"
#include "folio/train/train_state.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Keys, or their beginnings.
constexpr std::array kFixedKeys = {"model.",     "lora.",      "data.val_",
                                   "data.field", "data.raw",   "data.add_tokens",
                                   "train.rng",  "train.init", "train.save"};
constexpr std::array kDropoutKeys = {"model.embd_pdrop", "model.attn_pdrop", "model.resid_pdrop",
                                     "lora.dropout"};
constexpr std::array kFreeKeys = {"log.",
                                  "data.tokenizer",
                                  "train.eval_",
                                  "train.first_eval_batches",
                                  "train.keep_",
                                  "train.checkpoint_",
                                  "train.patience",
                                  "train.max_rollbacks",
                                  "train.max_time",
                                  "train.max_tokens",
                                  "train.threads",
                                  "train.train_eval_batches",
                                  "train.max_skipped_steps",
                                  "train.recompute",
                                  "train.check_numerics",
                                  "train.max_steps",
                                  "train.epochs"};
constexpr std::array kScheduleKeys = {
    "train.max_steps",     "train.epochs",      "train.budget",
    "train.learning_rate", "train.min_lr",      "train.schedule",
    "train.warmup_steps",  "train.decay_steps", "train.stable_fraction"};

template <class Keys>
bool AmongThem(const Keys& keys, std::string_view key) {
  return std::ranges::any_of(keys, [&](std::string_view known) { return key.starts_with(known); });
}

// Locks the directory of a run for this process, and recovers it.
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

// Decides whether begin_or_resume continues from a checkpoint. A run that was killed before its
// first checkpoint begins again; files that are no run are not replaced.
void ChooseStart(PreparedRun& run) {
  const fs::path& out = run.options.out;
  run.resume = run.ranks.Agree(run.ranks.first() && !FindCheckpoints(out).empty());
  if (run.resume) return;
  run.overwrite = fs::exists(out / kRunConfigFile);
  run.ranks.Note(fmt::format("'{}' {}", out.string(),
                             run.overwrite ? "ended before its first checkpoint; starting it again"
                                           : "contains no run; starting one"));
}

// The checkpoint from which the run continues.
fs::path FindCheckpoint(const fs::path& run, const RunRanks& ranks) {
  if (FindCheckpoints(run).empty()) {
    throw InputError(fmt::format("'{}' contains no run to resume", run.string()),
                     fmt::format("there is no {}", (run / kLastDir).string()),
                     HoldsRun(run) ? "the run ended before its first checkpoint: start it again "
                                     "with --overwrite instead of --resume"
                                   : "remove --resume to start a run");
  }
  return ranks.Share(ranks.first() ? SoundCheckpoint(run).string() : "");
}

// The settings in the run's own config.toml.
std::unique_ptr<RunSettings> SettingsBefore(const fs::path& run) {
  auto before = std::make_unique<RunSettings>();
  if (fs::exists(run / kRunConfigFile)) {
    before->layers.ReadTomlFile(Layer::kProjectFile, run / kRunConfigFile);
  }
  before->layers.Resolve();
  return before;
}

// Throws a kInput Error if settings of the run are lost, since neither a preset nor a default may
// replace them. Only warns if a run of an earlier version lacks newer settings.
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
  std::vector<std::string> shown;
  for (const Field& field : missing) {
    if (shown.size() == kMostShown) break;
    shown.push_back(
        fmt::format("{} ({} has {})", field.key, layers.origin(field.key), FieldText(field)));
  }
  std::string which = Join(shown, ", ");
  if (missing.size() > kMostShown) {
    which += fmt::format(" and {} more", missing.size() - kMostShown);
  }
  const bool of_preset = std::ranges::any_of(
      missing, [&](const Field& field) { return layers.origin(field.key).starts_with("preset "); });
  const std::unique_ptr<RunSettings> before = SettingsBefore(run);
  const bool said = std::ranges::any_of(before->layers.fields(), [&](const Field& field) {
    return before->layers.layer(field.key) == Layer::kProjectFile;
  });
  if (said && !of_preset) {
    if (ranks.first()) LogWarning(fmt::format("{} lacks {}", config.string(), which));
    return;
  }
  throw InputError(config.string() + (said ? " lacks settings of the run" : " is missing or empty"),
                   fmt::format("the settings of the run are unknown: {}", which),
                   "restore the file, or give all settings with --config FILE, for example the "
                   "config.toml of a run with the same settings");
}

// Restores the settings of a run's beginning, as the command line of begin_or_resume repeats them
// when the run continues.
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

// Throws a kUsage Error if the settings of adapters and of an initial model do not fit each other,
// or a run that only continues.
void RequireInitialModelFits(RunSettings& settings, bool goes_on) {
  const RunConfig& config = settings.config;
  const bool given = !config.train.init.empty();
  if (goes_on && settings.layers.layer("train.init") >= Layer::kSet) {
    throw UsageError("--init cannot be used with --resume",
                     "a run continues from its own checkpoint",
                     "remove --init, or choose another --out to start from that model");
  }
  if (config.train.lora.on() && !given) {
    throw UsageError("--lora needs --init", "adapters are trained for an existing model",
                     "give the model: --init MODEL_DIR");
  }
  if (!config.train.init_adapter.empty() && !given) {
    throw UsageError("--adapter needs --init", "it is merged into the weights of an existing model",
                     "give the model: --init MODEL_DIR");
  }
}

// Replaces the targets of adapters by names of the model's layers (ResolveTargets).
void ResolveAdapters(RunSettings& settings) {
  LoraConfig lora = settings.config.train.lora;
  ResolveTargets(lora, settings.config.model, "settings");
  if (lora == settings.config.train.lora) return;
  settings.layers.Set(Layer::kFlag, "lora.targets", lora.targets,
                      settings.layers.origin("lora.targets"));
  settings.Resolve();
}

// Throws a kUsage Error for a number without a unit, which would mean seconds where minutes or
// hours are intended.
void RequireUnit(const std::string& budget) {
  if (budget.find_last_not_of("0123456789.") != budget.npos) return;
  throw UsageError(
      fmt::format("--budget: '{}' has no unit", budget),
      "expected a time with the unit s, m, h or d after each number",
      fmt::format("for example --budget {0}m for minutes, --budget {0}h for hours", budget));
}

// Size and steps are chosen only for a new run. If the number of steps is set, the clock does not
// change it.
void ReadBudget(PreparedRun& run) {
  Settings& layers = run.settings.layers;
  const TrainConfig& train = run.config().train;
  const bool budget = !train.budget.empty();
  if (run.resume && budget && layers.layer("train.budget") > Layer::kProjectFile) {
    throw UsageError("--budget applies only to a new run", "this run is resumed",
                     "remove --budget, and set the number of steps with --max-steps");
  }
  run.automatic = (budget || run.budget_seconds > 0) && !run.resume && SizeIsOpen(layers);
  if (budget && layers.layer("train.budget") > Layer::kProjectFile) RequireUnit(train.budget);
  if (budget) run.budget_seconds = train.budget_seconds();
  if (layers.layer("train.max_steps") < Layer::kEnvironment) return;
  layers.Set(Layer::kFlag, "train.budget", "", layers.origin("train.max_steps"));
  run.settings.Resolve();
}

// Epochs and steps both set the length of the run: the stronger setting counts. If epochs are set,
// the clock does not change the number of steps either.
void ReadEpochs(PreparedRun& run) {
  Settings& layers = run.settings.layers;
  if (run.config().train.epochs == 0) return;
  const Layer epochs = layers.layer("train.epochs"), steps = layers.layer("train.max_steps");
  if (epochs >= Layer::kEnvironment && steps >= Layer::kEnvironment) {
    throw UsageError("--epochs and --max-steps cannot be used together",
                     "both set the length of the run", "remove one of them");
  }
  if (steps > epochs)
    layers.Set(Layer::kFlag, "train.epochs", "0", layers.origin("train.max_steps"));
  if (epochs >= Layer::kEnvironment) {
    layers.Set(Layer::kFlag, "train.budget", "", layers.origin("train.epochs"));
  }
  run.settings.Resolve();
}

}  // namespace

std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step) {
  const bool another_rate = DescribeSchedule(before.train) != DescribeSchedule(now.train);
  const std::vector<Field> old_fields = before.Fields(), fields = now.Fields();
  std::vector<std::string> lines, of_schedule;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& key = fields[i].key;
    const std::string was = FieldText(old_fields[i]), is = FieldText(fields[i]);
    if (was == is) continue;
    const std::string what = fmt::format("{} changed from {} to {}", key, was, is);
    if (another_rate && AmongThem(kScheduleKeys, key)) {
      of_schedule.push_back(what);
      continue;
    }
    const bool dropout = AmongThem(kDropoutKeys, key);
    if (AmongThem(kFixedKeys, key) && !dropout) {
      throw UsageError(fmt::format("{} cannot change when a run is resumed", key), what,
                       fmt::format("restore {}, or start another run", key));
    }
    lines.push_back(AmongThem(kFreeKeys, key) && !dropout
                        ? what + "; this does not change the results"
                        : fmt::format("{} from step {} on ({})", what, step, fields[i].help));
  }
  if (another_rate) {
    const auto rate = [&](const RunConfig& config) {
      return fmt::format("{:.3g}", LearningRate(config.train, step));
    };
    const std::string was = rate(before), is = rate(now);
    lines.push_back(fmt::format(
        "{}: the learning rate of step {} is {}{}, {}", Join(of_schedule, "; "), WithCommas(step),
        is, is == was ? " as before" : ", not " + was, DescribeDecay(now.train)));
  }
  return lines;
}

void GatherSettings(PreparedRun& run) {
  RunSettings& settings = run.settings;
  const TrainingRunOptions& options = run.options;
  run.resume = options.resume;
  run.overwrite = options.overwrite;
  run.budget_seconds = options.budget_seconds;
  if (options.resume || options.begin_or_resume) run.lock = TakeRun(options, run.ranks);
  if (options.begin_or_resume) ChooseStart(run);
  ConfigSources sources = options.sources;
  if (run.resume) {
    run.checkpoint = FindCheckpoint(options.out, run.ranks);
    if (fs::exists(options.out / kRunConfigFile)) {
      settings.layers.ReadTomlFile(Layer::kProjectFile, options.out / kRunConfigFile);
    }
    sources.discover = false;  // the run's own settings replace those of other files
  }
  settings.layers.ReadSources(sources);
  settings.Resolve();
  if (run.resume) RequireKnownSettings(settings, options.out, run.ranks);
  if (run.resume && options.begin_or_resume) ForgetBeginning(settings, options.out);
  RequireInitialModelFits(settings, run.resume && !options.begin_or_resume);
  if (!settings.config.train.init.empty() && !run.resume) {
    const TrainConfig& train = settings.config.train;
    run.initial.emplace(FindModel(train.init, Loading::kMap, train.init_adapter));
    UseInitialModel(settings, *run.initial);
    if (const std::string& note = run.initial->model.note; !note.empty()) run.ranks.Note(note);
    if (train.saves_adapters()) run.base_sha256 = WeightsSha256(run.initial->model);
  }
  if (run.resume && settings.config.train.saves_adapters()) {
    run.base.emplace(FindBaseModel(run.checkpoint));
    run.base_sha256 = LoadBaseModel(run.checkpoint).sha256;
  }
  ResolveAdapters(settings);
  ReadBudget(run);
  ReadEpochs(run);
}

void NoteChangedSettings(const PreparedRun& run) {
  const fs::path& out = run.options.out;
  if (!fs::exists(out / kRunConfigFile)) return;
  const RunConfig before = SettingsBefore(out)->config;
  for (const std::string& line : ChangedSettings(before, run.config(), SavedStep(run.checkpoint))) {
    run.ranks.Note(line);
  }
}

}  // namespace folio
