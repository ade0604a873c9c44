#include "folio/run/prepared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/pieces.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/base_model.h"
#include "folio/model_files/same_model.h"
#include "folio/ranks/group.h"
#include "folio/run/plan.h"
#include "folio/run/watchdog.h"
#include "folio/tensor/dtype.h"
#include "folio/text/chat.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/train/checkpoints.h"
#include "folio/train/config.h"
#include "folio/train/ranks.h"
#include "folio/train/schedule.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns make(workers) of the first rank, for all. The others are its workers meanwhile; one rank
// alone has null.
std::string MakeTogether(const RunRanks& ranks, const std::function<std::string(Workers*)>& make) {
  Group* const group = ranks.group();
  if (group == nullptr) return make(nullptr);
  std::string made;
  if (ranks.first()) {
    Workers workers(group);
    made = make(&workers);
  } else {
    PrepareAsWorker(*group);
  }
  return ranks.Share(made);
}

// Throws a kUsage Error unless the ranks can share a step, and every setting but how many threads
// each has is that of the others.
void RequireSameSettings(const RunRanks& ranks, RunConfig& config) {
  if (ranks.group() != nullptr) {
    constexpr std::string_view kOwn[] = {"train.threads"};
    RequireSame(*ranks.group(), "settings", SettingLines(config.Fields(), kOwn));
  }
  RequireShares(config.train, ranks.size());
}

// The settings that the first rank chose by measuring become those of all.
void ShareSettings(const RunRanks& ranks, RunSettings& settings) {
  if (ranks.group() == nullptr) return;
  std::string mine;
  for (const Field& field : settings.layers.fields()) {
    mine += field.key + "=" + FieldText(field) + "\n";
  }
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& line : Split(ranks.Share(mine), '\n')) {
    const size_t equals = line.find('=');
    if (equals != line.npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  if (ranks.first()) return;
  settings.layers.UsePreset("of the first rank", values);
  settings.Resolve();
}

// A line for each rank, what it computes with; "" for one alone. All ranks ask.
std::string DescribeRanks(const PreparedRun& run, bool json) {
  Group* const group = run.ranks.group();
  if (group == nullptr) return "";
  const TrainConfig& train = run.config().train;
  const int64_t turns = train.grad_accumulation / (run.ranks.size() / train.tensor_parallel);
  const std::string line =
      json ? Json{{"event", "rank"},
                  {"rank", group->rank()},
                  {"host", group->HostOf(group->rank())},
                  {"threads", Threads()},
                  {"micro_batches", turns},
                  {"simd", SimdTarget()},
                  {"backend_description", run.backend->description()},
                  {"memory_available_bytes", ThisMachinesMemory().available}}
                 .dump()
           : fmt::format("{}: {} of {} micro-batches, {} threads ({}), {} of memory free",
                         group->NameOf(group->rank()), turns, train.grad_accumulation, Threads(),
                         SimdTarget(),
                         HumanBytes(static_cast<double>(ThisMachinesMemory().available)));
  return Join(group->Gather(line), "\n") + "\n";
}

// Keys, or what they begin with.
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

namespace {

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
void ChooseStart(PreparedRun& run) {
  const fs::path& out = run.options.out;
  run.resume = run.ranks.Agree(run.ranks.first() && !FindCheckpoints(out).empty());
  if (run.resume) return;
  run.overwrite = fs::exists(out / kRunConfigFile);
  run.ranks.Note(fmt::format("'{}' {}", out.string(),
                             run.overwrite ? "ended before its first checkpoint; starting it again"
                                           : "contains no run; starting one"));
}

// The checkpoint that the run goes on from.
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

// Adapters are of layers as the model has them (LoraConfig::Resolve).
void ResolveAdapters(RunSettings& settings) {
  LoraConfig lora = settings.config.train.lora;
  ResolveTargets(lora, settings.config.model, "settings");
  if (lora == settings.config.train.lora) return;
  settings.layers.Set(Layer::kFlag, "lora.targets", lora.targets,
                      settings.layers.origin("lora.targets"));
  settings.Resolve();
}

// Throws a kUsage Error for a number without a unit: minutes or hours are meant, and seconds would
// be taken.
void RequireUnit(const std::string& budget) {
  if (budget.find_last_not_of("0123456789.") != budget.npos) return;
  throw UsageError(
      fmt::format("--budget: '{}' has no unit", budget),
      "expected a time with the unit s, m, h or d after each number",
      fmt::format("for example --budget {0}m for minutes, --budget {0}h for hours", budget));
}

// Size and steps are open only where a run begins. Whoever says how many steps there are has no
// clock followed.
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

// Epochs and steps both say how long to train: the stronger setting counts. Whoever says epochs has
// no clock followed either.
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

// Reads and resolves the settings of a run, takes the lock of its directory where it may go on, and
// decides whether it does.
void StartRun(PreparedRun& run) {
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
    sources.discover = false;  // the run's own settings stand for the files' ones
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

// Notes which settings of a run that goes on are others than when it was stopped.
void TellChanges(const PreparedRun& run) {
  const fs::path& out = run.options.out;
  if (!fs::exists(out / kRunConfigFile)) return;
  const RunConfig before = SettingsBefore(out)->config;
  for (const std::string& line : ChangedSettings(before, run.config(), SavedStep(run.checkpoint))) {
    run.ranks.Note(line);
  }
}

// The file that holds what standard input gave, while the data is made.
constexpr char kStandardInputFile[] = ".input";

constexpr char kWhyHeldOut[] =
    "training evaluates the model on held-out text and keeps the best checkpoint";

// A run that is replaced takes what is in it along.
void RequireDataOutsideOf(const fs::path& run, const std::vector<std::string>& data) {
  const fs::path inside = fs::weakly_canonical(run);
  for (const std::string& path : data) {
    const fs::path from = fs::weakly_canonical(path).lexically_relative(inside);
    if (from.empty() || *from.begin() != kRunDataDir) continue;
    throw UsageError(fmt::format("--data: '{}' belongs to the run to be replaced", path), "",
                     "choose another --out, or move the data out of it");
  }
}

TextOptions TextsOf(const PreparedRun& run) {
  return {.field = run.config().data.field, .raw = run.config().data.raw};
}

// The data that the caller named, or that the run was made of whose settings are read.
std::vector<std::string> GivenData(const PreparedRun& run) {
  const std::string& file = run.options.sources.file;
  if (!run.options.data.empty() || run.resume || file.empty()) return run.options.data;
  const fs::path other = fs::absolute(file).parent_path();
  if (fs::exists(other / kRunDataDir)) return {(other / kRunDataDir).string()};
  if (fs::exists(other / kRunSourceFile)) return {ReadFile(other / kRunSourceFile, 1 << 16)};
  return {};
}

// data.tokenizer, which names the place that the run's own will have once the run has begun.
std::string TokenizerPlace(const PreparedRun& run) {
  const fs::path own = run.Parts() / kRunTokenizerDir;
  const bool waits = run.config().data.tokenizer == (run.options.out / kRunTokenizerDir).string();
  return waits && fs::exists(own) ? own.string() : run.config().data.tokenizer;
}

// data.tokenizer, which may be that inside of the initial model's file, with data.add_tokens.
// REQUIRES: it is not `char`, or there are such tokens.
std::unique_ptr<Tokenizer> AskedTokenizer(const PreparedRun& run) {
  const DataConfig& data = run.config().data;
  if (data.tokenizer == "char") {
    throw UsageError("--add-tokens: a tokenizer of kind char takes no special tokens", "",
                     "use --tokenizer bytes, or a byte-level BPE");
  }
  std::unique_ptr<Tokenizer> tokenizer = data.tokenizer == run.config().train.init
                                             ? FindModel(data.tokenizer).tokenizer
                                             : OpenTokenizer(TokenizerPlace(run));
  if (data.add_tokens.empty()) return tokenizer;
  return WithSpecialTokens(*tokenizer, Split(data.add_tokens, ','));
}

void LearnTokenizer(const PreparedRun& run, const std::vector<std::string>& files,
                    const fs::path& dir) {
  run.ranks.Note(
      fmt::format("training a tokenizer of {} tokens on the text", WithCommas(kChosenVocabulary)));
  TrainTokenizerOptions options{
      .files = files, .out = dir.string(), .overwrite = true, .texts = TextsOf(run)};
  options.trainer.vocab_size = kChosenVocabulary;
  TrainTokenizer(options);
}

// Makes the data and returns its directory.
std::string Prepare(PreparedRun& run, const std::vector<std::string>& files, Workers* workers) {
  const fs::path tokenizer = run.Parts() / kRunTokenizerDir,
                 input = run.Parts() / kStandardInputFile;
  if (run.automatic && run.settings.layers.layer("data.tokenizer") == Layer::kBuiltIn) {
    // A text that is looked at before it is prepared is read more than once.
    std::vector<std::string> from = files;
    if (std::ranges::count(files, "-") > 0) {
      SaveStandardInput(input.string());
      std::ranges::replace(from, "-", input.string());
    }
    std::string name = ChooseTokens(TextBytes(from, TextsOf(run), kMuchText));
    if (name.empty()) {
      LearnTokenizer(run, from, tokenizer);
      name = (run.options.out / kRunTokenizerDir).string();
    }
    const std::pair<std::string, std::string> chosen("data.tokenizer", name);
    run.settings.layers.UsePreset("automatic", {&chosen, 1});
    run.settings.Resolve();
  }
  PrepareOptions prepare = {.files = files,
                            .tokenizer = TokenizerPlace(run),
                            .out = (run.Parts() / kRunDataDir).string(),
                            .val_fraction = run.config().data.val_fraction,
                            .val_split = run.config().data.val_split,
                            .overwrite = true,
                            .field = run.config().data.field,
                            .chat_template = run.config().data.chat_template,
                            .raw = run.config().data.raw,
                            .standard_input = fs::exists(input) ? input.string() : "",
                            .keep_partial = false,
                            .workers = workers};
  const bool of_model =
      !run.config().train.init.empty() && run.config().data.tokenizer == run.config().train.init;
  if (of_model || !run.config().data.add_tokens.empty()) {
    const std::unique_ptr<Tokenizer> extended = AskedTokenizer(run);
    CreateDirectories(tokenizer);
    extended->Save(tokenizer.string());
    prepare.tokenizer = tokenizer.string();
    prepare.added_tokens = !run.config().data.add_tokens.empty();
  }
  if (run.options.prepare) {
    run.options.prepare(prepare);
  } else {
    PrepareDataset(prepare);
  }
  internal::RemoveTree(input);  // and if not now, with the rest of what has not begun
  return prepare.out;
}

// Returns where the tokens are; makes them from text. Remembers the place for resuming.
std::string DataDir(PreparedRun& run, Workers* workers) {
  const fs::path own = run.Parts() / kRunDataDir, source = run.Parts() / kRunSourceFile;
  const std::vector<std::string> given = GivenData(run);
  const bool is_dataset = given.size() == 1 && IsDataset(given[0]);
  // The run's own tokens, made from the text it began with, are not made again.
  if (run.resume && !is_dataset) {
    if (fs::exists(own)) return own.string();
    if (given.empty()) return ReadFile(source, 1 << 16);
  }
  if (given.empty()) {
    throw UsageError("train needs --data DIR|FILE", "",
                     "give a text file, or a directory written by folio data prepare; folio data "
                     "stories writes a text to try");
  }
  if (is_dataset) {
    std::string dir = fs::absolute(given[0]).string();
    if (!run.options.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  for (const std::string& path : given) {
    if (!IsDataset(path)) continue;
    throw UsageError(
        fmt::format("--data: '{}' is a data set and cannot be combined with other data", path),
        "prepared tokens cannot be merged with other data", "give one data set, or only texts");
  }
  if (run.config().data.val_fraction == 0) {
    throw UsageError("--val-fraction 0: training needs held-out text", kWhyHeldOut,
                     "hold out a small part: --val-fraction 0.01");
  }
  if (run.options.dry_run) {
    fs::path aside = run.options.out;
    aside += ".dry-run";
    run.new_run = std::make_unique<NewRun>(aside, /*overwrite=*/true);
  }
  const TextFiles texts = FindTextFiles(given, TextsOf(run));
  if (!texts.left_out.empty()) run.ranks.Note(texts.left_out);
  return Prepare(run, texts.files, workers);
}

// A tokenizer that was asked for is the one that made the data, and so is a model's.
void RequireTokenizer(const PreparedRun& run) {
  if (run.initial) RequireTokenizerOf(*run.initial, *run.data, run.tokenizer.get());
  const std::string& asked = run.config().data.tokenizer;
  const bool added = !run.config().data.add_tokens.empty();
  const auto given = [&](const char* key) { return run.settings.layers.layer(key) >= Layer::kSet; };
  if ((!given("data.tokenizer") && !given("data.add_tokens")) || run.tokenizer == nullptr) return;
  if (!added && (asked == "char" || asked == "bytes")) {
    if (run.tokenizer->kind() == asked) return;
  } else {
    const std::unique_ptr<Tokenizer> own = AskedTokenizer(run);
    const std::string hash = run.tokenizer->hash();
    // Conversations without a template have brought the tokens of roles.
    if (own->hash() == hash || (run.data->info().chat && WithChatTokens(*own)->hash() == hash))
      return;
  }
  throw UsageError(fmt::format("--tokenizer {}{}: the data has a different tokenizer", asked,
                               added ? " --add-tokens " + run.config().data.add_tokens : ""),
                   fmt::format("{} was prepared with a tokenizer of kind {}, hash {}",
                               run.data->dir(), run.tokenizer->kind(), run.tokenizer->hash()),
                   "remove it, or prepare the text again with it");
}

// Opens the data of a run, as it was prepared, or makes it of text, and its tokenizer. A new run
// takes the lock of its start.
void OpenData(PreparedRun& run) {
  if (!run.resume && !run.options.dry_run && run.ranks.first()) {
    if (run.overwrite) RequireDataOutsideOf(run.options.out, GivenData(run));
    run.new_run = std::make_unique<NewRun>(run.options.out, run.overwrite, std::move(run.lock));
  }
  const std::string dir =
      MakeTogether(run.ranks, [&](Workers* workers) { return DataDir(run, workers); });
  run.data = std::make_unique<Dataset>(dir, run.config().model.vocab_size);
  const Dataset& data = *run.data;
  if (data.val().size() == 0) {
    throw InputError(fmt::format("{}: nothing is held out", data.dir()), kWhyHeldOut,
                     "prepare the text again with --val-fraction 0.01, or more");
  }
  if (run.ranks.group() != nullptr) RequireSame(*run.ranks.group(), "data", FingerprintOf(data));
  // The first rank for all: the others have the same.
  if (run.ranks.first() && data.bytes() <= run.options.hashed_at_once) data.Verify();
  run.tokenizer = LoadDataTokenizer(data);
  if (run.ranks.first()) RequireTokenizer(run);
}

void MakeRunBackend(PreparedRun& run) {
  const TrainConfig& train = run.config().train;
  if (train.threads > 0) SetThreads(static_cast<int>(train.threads));
  run.backend = MakeBackend(train.backend);
  if (!train.check_numerics) return;
  auto finite = std::make_unique<FiniteBackend>(std::move(run.backend));
  run.finite = finite.get();
  run.backend = std::move(finite);
}

// Warns of a run that would take too long, before anything is made of its text.
void WarnOfLength(const PreparedRun& run) {
  const bool steps_follow = run.automatic || (run.budget_seconds > 0 && run.initial);
  if (run.resume || steps_follow || !run.ranks.first()) return;
  const std::string warning = LengthWarning(run.settings, [&] {
    constexpr double kProbeSeconds = 0.1;
    const Dtype dtype = TrainDtype(run.config().train, run.config().model, *run.backend);
    return run.ranks.size() * MeasureMatmulPeak(*run.backend, dtype, kProbeSeconds);
  });
  if (!warning.empty()) LogWarning(warning);
}

// Chooses what nobody has said of size, steps and evaluations.
void ChoosePlan(PreparedRun& run) {
  RunSettings& settings = run.settings;
  RunConfig& config = run.config();
  const Dataset& data = *run.data;
  const double whole = run.budget_seconds, used = SteadySeconds() - run.began;
  const double seconds = std::max(whole - used, whole / 10);  // it may all be gone already
  const bool steps_open = settings.layers.layer("train.max_steps") <= Layer::kPreset;
  if (run.initial) {
    run.ranks.Note(ChooseFineTuning(settings, data, *run.backend, whole > 0 ? seconds : 0));
  } else if (run.automatic) {
    run.ranks.Note(ChooseSize(settings, data, *run.backend, seconds));
  } else if (!config.train.budget.empty() && steps_open) {
    run.ranks.Note(ChooseSteps(settings, data, *run.backend, seconds));
  }
  const int64_t context = config.train.context;
  if (context == 0) config.train.context = config.model.n_positions;
  FollowEpochs(settings, data);
  if (run.resume) return;
  const std::string limited = LimitEvaluations(settings, data.val().size());
  if (!limited.empty()) run.ranks.Note(limited);
  config.train.context = context;
}

// Returns whether the model, whose own tokenizer has more tokens than it has rows, stays as it is:
// data that uses others is refused.
bool KeepsRows(const PreparedRun& run) {
  if (run.data->info().vocab_size <= run.config().model.vocab_size) return false;
  if (run.resume) return !run.config().train.init.empty();
  return run.initial && run.initial->tokenizer != nullptr && run.tokenizer != nullptr &&
         run.initial->tokenizer->hash() == run.tokenizer->hash();
}

// Throws a kInput Error where the data has a token that a model of so many rows has not.
void RequireRows(const Dataset& data, int64_t rows) {
  try {
    data.train().Validate(rows);
    data.val().Validate(rows);
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(),
                     fmt::format("the model's embeddings have {} rows, its tokenizer {} tokens: "
                                 "remove tokens without a row from the text",
                                 rows, data.info().vocab_size));
  }
}

// Says in the configuration which tokens begin and end a text. What begins one for a model that is
// `given` stays so.
void SetEnds(const Tokenizer& tokenizer, const DatasetInfo& info, bool given, GptConfig& model) {
  const std::optional<int32_t> end = tokenizer.end_of_text();
  if (!given || !model.bos_token_id) model.bos_token_id = end;
  if (end || !given) model.eos_token_id = end;
  if (info.chat && info.chat->end) model.eos_token_id = info.chat->end;
}

// Vocabulary and special tokens are the data's.
void FitModelToData(PreparedRun& run) {
  RunSettings& settings = run.settings;
  const RunConfig& config = run.config();
  GptConfig& model = run.config().model;
  const Dataset& data = *run.data;
  const Tokenizer* tokenizer = run.tokenizer.get();
  if (!model.causal && config.log.sample_every > 0) {
    throw UsageError(
        "a model that is not causal cannot generate samples",
        fmt::format("model.causal is false, log.sample_every is {}", config.log.sample_every),
        "set log.sample_every to 0");
  }
  const int64_t V = data.info().vocab_size;
  if (KeepsRows(run)) {
    if (run.ranks.first() && !run.resume) RequireRows(data, model.vocab_size);
  } else if (V > 0) {
    const bool asked = settings.layers.layer("model.vocab_size") > Layer::kPreset;
    if (asked && model.vocab_size < V) {
      throw UsageError(fmt::format("{}: model.vocab_size is too small",
                                   settings.layers.origin("model.vocab_size")),
                       fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
                       fmt::format("set it to {} or more, or remove it", V));
    }
    const bool given = !config.train.init.empty();  // and may have more rows than tokens
    const bool more_rows = given && !run.resume && V > model.vocab_size;
    if (more_rows && config.train.lora.on() && data.info().chat) {
      throw UsageError("adapters cannot learn the tokens that mark turns",
                       "the model does not have these tokens, and --lora does not train embeddings",
                       "remove --lora, or start from a model that was trained on conversations");
    }
    if (more_rows && config.train.saves_adapters()) {
      throw UsageError("--save adapter does not support new tokens",
                       fmt::format("the model has {} tokens, the data has {}", model.vocab_size, V),
                       "remove --save to save the whole model");
    }
    if (more_rows && config.train.lora.on() && !asked) {
      run.ranks.Note(fmt::format(
          "the embeddings of {} new tokens keep their initial values: only adapters are trained",
          V - model.vocab_size));
    }
    if (!asked) model.vocab_size = given ? std::max(V, model.vocab_size) : V;
  }
  if (tokenizer != nullptr) {
    if (run.resume) RequireSameTokenizer(run.checkpoint, data, *tokenizer);
    run.tokenizer->set_known_tokens(model.vocab_size);
    SetEnds(*tokenizer, data.info(), /*given=*/!config.train.init.empty(), model);
  } else if (const std::string note = data.BareNote(); !note.empty()) {
    run.ranks.Note(note);
  }
  model.Validate("settings");
}

// Throws a kInput Error for a text that does not fill one window, in the user's words: what reads
// it knows the files of the run alone.
void RequireWindow(const PreparedRun& run) {
  constexpr int64_t kFew = 16;  // no length to train on
  const Dataset& data = *run.data;
  if (data.info().chat) return;
  const int64_t T = run.config().train.context;
  const int64_t learned = data.train().size(), held_out = data.val().size();
  const bool whole = run.config().train.eval_batches == 0;
  const int64_t shorter = whole ? learned : std::min(learned, held_out);
  if (shorter > T) return;
  const std::vector<std::string> given = GivenData(run);
  throw InputError(
      fmt::format("{}: shorter than one window", given.empty() ? data.dir() : Join(given, ", ")),
      fmt::format(
          "a context of {} needs {} tokens; there are {} training tokens and {} held-out tokens",
          WithCommas(T), WithCommas(T + 1), WithCommas(learned), WithCommas(held_out)),
      shorter > kFew ? fmt::format("use --context {} or less, or more text", shorter - 1)
                     : "use more text");
}

// Settings that say what was found: the length of sequences, the dtype, the places of models.
void ResolveTraining(PreparedRun& run) {
  TrainConfig& train = run.config().train;
  train.context = ContextOf(run.config().model, train);
  train.Validate("settings");
  // A run goes on in the format it began with, wherever that is.
  // A run remembers what "auto" meant, that it may go on bit for bit.
  train.dtype = DtypeSetting(TrainDtype(train, run.config().model, *run.backend));
  if (!run.initial) return;
  // The names are such that other programs find the model that an adapter names.
  train.init = train.saves_adapters() ? fs::absolute(run.initial->path).lexically_normal().string()
                                      : run.initial->path.string();
  if (!train.init_adapter.empty()) train.init_adapter = fs::absolute(train.init_adapter).string();
}

}  // namespace

PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options) {
  const RunRanks ranks(options.group, options.on_note);
  PreparedRun run{.settings = settings,
                  .options = std::move(options),
                  .ranks = ranks,
                  .began = SteadySeconds()};
  StartRun(run);
  RequireSameSettings(ranks, run.config());
  MakeRunBackend(run);
  WarnOfLength(run);
  OpenData(run);
  if (ranks.first()) ChoosePlan(run);
  ShareSettings(ranks, settings);
  ResolveTraining(run);
  RequireWindow(run);
  FitModelToData(run);
  const Dataset& data = *run.data;
  if (!run.resume) {
    const std::string cut = RequireWholeConversations(settings, data);
    if (!cut.empty()) ranks.Note(cut);
  }
  // Parts that cannot be had are refused before anything is measured.
  ShardOfRank(run.config().model, run.config().train, ranks.group());
  if (run.resume) TellChanges(run);
  run.preview = std::make_unique<TrainPreview>(run.config(), data, *run.backend,
                                               ThisMachinesMemory(), ranks.size());
  return run;
}

void PreparedRun::ProbePreview() const {
  preview->Probe(resume ? SavedStep(checkpoint) : 0, resume ? SavedBudgetSeconds(checkpoint) : 0);
}

std::string TrainingRun::Plan(bool json) {
  run_->ProbePreview();
  const std::string ranks = DescribeRanks(*run_, json);
  if (json) return run_->preview->Event().dump() + "\n" + ranks;
  return run_->preview->Plan() + ranks + run_->preview->Estimate() + "\n";
}

}  // namespace folio
