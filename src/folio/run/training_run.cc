#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "folio/backend/finite_backend.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/source.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/dist/same.h"
#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/run/automatic.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/preview.h"
#include "folio/run/resumed_settings.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_lock.h"
#include "folio/run/run_recorder.h"
#include "folio/run/train_report.h"
#include "folio/run/watchdog.h"
#include "folio/run/whole_conversations.h"
#include "folio/term/signals.h"
#include "folio/text/encodings.h"
#include "folio/text/extend_tokenizer.h"
#include "folio/train/precision.h"
#include "folio/train/rank_shares.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// What standard input gave, while the data is made.
constexpr char kStandardInputFile[] = ".input";

constexpr char kWhyHeldOut[] =
    "training measures the model on text that it does not learn from, and keeps what was best "
    "there";

// A run that is replaced takes what is in it along.
void RequireDataOutsideOf(const fs::path& run, const std::vector<std::string>& data) {
  const fs::path inside = fs::weakly_canonical(run);
  for (const std::string& path : data) {
    const fs::path from = fs::weakly_canonical(path).lexically_relative(inside);
    if (from.empty() || *from.begin() != kRunDataDir) continue;
    throw UsageError(fmt::format("--data: '{}' belongs to the run that is to be replaced", path),
                     "", "choose another --out, or move the data out of it");
  }
}

}  // namespace

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : settings_(settings), config_(settings.config), options_(std::move(options)) {
  if (options_.group != nullptr && options_.group->alone()) options_.group = nullptr;
  ReadSettings();
  if (options_.group == nullptr) RequireShares(config_.train, 1);
  if (options_.group != nullptr) RequireSameSettings();
  if (config_.train.threads > 0) SetThreads(static_cast<int>(config_.train.threads));
  backend_ = MakeBackend(config_.train.backend);
  if (config_.train.check_numerics) {
    auto finite = std::make_unique<FiniteBackend>(std::move(backend_));
    finite_ = finite.get();
    backend_ = std::move(finite);
  }
  const bool steps_follow = automatic_ || (options_.budget_seconds > 0 && initial_);
  if (!options_.resume && !steps_follow && first()) {
    const int ranks = options_.group == nullptr ? 1 : options_.group->size();
    const std::string warning = LengthWarning(settings_, *backend_, ranks);
    if (!warning.empty()) LogWarning(warning);
  }
  if (!options_.resume && !options_.dry_run && first()) {
    if (options_.overwrite) RequireDataOutsideOf(options_.out, GivenData());
    new_run_ = std::make_unique<NewRun>(options_.out, options_.overwrite);
  }
  data_.emplace(DataDirOfRanks(), config_.model.vocab_size);
  if (data_->val().size() == 0) {
    throw InputError(fmt::format("{}: nothing is held out", data_->dir()), kWhyHeldOut,
                     "prepare the text again with --val-fraction 0.01, or more");
  }
  if (options_.group != nullptr) RequireSame(*options_.group, "data", FingerprintOf(*data_));
  tokenizer_ = LoadDataTokenizer(*data_);
  if (first()) RequireTokenizer();
  if (first()) ChoosePlan();
  if (options_.group != nullptr) ShareSettings();
  config_.train.context = ContextOf(config_.model, config_.train);
  config_.train.Validate("settings");
  // A run goes on in the format it began with, wherever that is.
  config_.train.dtype = TrainDtypeName(TrainDtype(config_.train, config_.model, *backend_));
  // As other programs find the model that an adapter names.
  if (initial_) config_.train.init = initial_->path.string();
  std::string& adapter = config_.train.init_adapter;
  if (initial_ && !adapter.empty()) adapter = fs::absolute(adapter).string();
  FitModelToData();
  if (!options_.resume) {
    const std::string cut = RequireWholeConversations(settings_, *data_);
    if (!cut.empty()) Note(cut);
  }
  ModelOfRank(config_.model, config_.train, options_.group);  // before anything is measured
  if (options_.resume) TellChanges();
  preview_ = std::make_unique<TrainPreview>(config_, *data_, *backend_, ThisMachinesMemory(),
                                            options_.group == nullptr ? 1 : options_.group->size());
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::Note(const std::string& text) const {
  if (options_.console != nullptr && first()) options_.console->Note(text);
}

void TrainingRun::ReadSettings() {
  Settings& layers = settings_.layers;
  if (options_.resume) {
    if (first()) RequireNoLinks(options_.out);
    if (!options_.dry_run && first() && fs::is_directory(options_.out)) {
      lock_ = std::make_unique<RunLock>(options_.out);
      RecoverRun(options_.out);
    }
    FromFirst("");  // the directory is in order
    if (FindCheckpoints(options_.out).empty()) {
      throw InputError(fmt::format("'{}' holds no run to resume", options_.out.string()),
                       fmt::format("there is no {}", (options_.out / kLastDir).string()),
                       HoldsRun(options_.out)
                           ? "the run ended before its first checkpoint: begin it again with "
                             "--overwrite in place of --resume"
                           : "leave out --resume to begin one");
    }
    checkpoint_ = FromFirst(first() ? SoundCheckpoint(options_.out).string() : "");
    if (fs::exists(options_.out / kRunConfigFile)) {
      layers.ReadTomlFile(Layer::kProjectFile, options_.out / kRunConfigFile);
    }
    options_.sources.discover = false;  // the run's own settings stand for the files' ones
  }
  layers.ReadSources(options_.sources);
  settings_.Resolve();
  ReadInitialModel();
  RequireBudgetGoesOn();
}

// What is otherwise than when the run was stopped.
void TrainingRun::TellChanges() const {
  if (!fs::exists(options_.out / kRunConfigFile)) return;
  RunSettings before;
  before.layers.ReadTomlFile(Layer::kProjectFile, options_.out / kRunConfigFile);
  before.layers.Resolve();
  for (const std::string& line : ChangedSettings(before.config, config_, SavedStep(checkpoint_))) {
    Note(line);
  }
}

void TrainingRun::ReadInitialModel() {
  const bool given = !config_.train.init.empty();
  if (options_.resume && settings_.layers.layer("train.init") >= Layer::kSet) {
    throw UsageError("--init does not go with --resume", "a run goes on from its own checkpoint",
                     "leave --init out, or choose another --out to begin from that model");
  }
  if (config_.model.lora.on() && !given) {
    throw UsageError("--lora needs --init", "adapters are trained beside a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  if (!config_.train.init_adapter.empty() && !given) {
    throw UsageError("--adapter needs --init",
                     "it is added to the weights of a model that is there",
                     "give the model: --init MODEL_DIR");
  }
  config_.model.lora.Validate("settings");
  if (!given || options_.resume) return;
  initial_.emplace(FindModel(config_.train.init, Loading::kMap, config_.train.init_adapter));
  UseInitialModel(settings_, *initial_);
}

// What the caller named, or what the run was made of whose settings are read.
std::vector<std::string> TrainingRun::GivenData() const {
  const std::string& file = options_.sources.file;
  if (!options_.data.empty() || options_.resume || file.empty()) return options_.data;
  const fs::path run = fs::absolute(file).parent_path();
  if (fs::exists(run / kRunDataDir)) return {(run / kRunDataDir).string()};
  if (fs::exists(run / kRunSourceFile)) return {ReadFile(run / kRunSourceFile, 1 << 16)};
  return {};
}

// Where the run's parts are: those of a new one wait aside until it begins.
fs::path TrainingRun::Parts() const {
  return new_run_ ? new_run_->path() : options_.out;
}

// Where the tokens are; makes them from text. Remembers the place for resuming.
std::string TrainingRun::DataDir(Helpers* helpers) {
  const fs::path own = Parts() / kRunDataDir, source = Parts() / kRunSourceFile;
  const std::vector<std::string> given = GivenData();
  const bool is_dataset = given.size() == 1 && IsDataset(given[0]);
  // The run's own tokens, made from the text it began with, are not made again.
  if (options_.resume && !is_dataset) {
    if (fs::exists(own)) return own.string();
    if (given.empty()) return ReadFile(source, 1 << 16);
  }
  if (given.empty()) {
    throw UsageError("train needs --data DIR|FILE", "",
                     "give a text file, or a directory made by folio data prepare; folio data "
                     "stories makes a text to try");
  }
  if (is_dataset) {
    std::string dir = fs::absolute(given[0]).string();
    if (!options_.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  for (const std::string& path : given) {
    if (!IsDataset(path)) continue;
    throw UsageError(fmt::format("--data: '{}' is a data set, and not the only one", path),
                     "tokens that were made before cannot be joined with more",
                     "name one data set, or texts only");
  }
  if (config_.data.val_fraction == 0) {
    throw UsageError("--val-fraction 0: training needs held-out text", kWhyHeldOut,
                     "hold a little out: --val-fraction 0.01");
  }
  if (options_.dry_run) {
    fs::path run = options_.out;
    run += ".dry-run";
    new_run_ = std::make_unique<NewRun>(run, /*overwrite=*/true);
  }
  const TextFiles texts = FindTextFiles(given, Texts());
  if (!texts.left_out.empty()) Note(texts.left_out);
  return Prepare(texts.files, helpers);
}

// Makes the data and returns its directory.
std::string TrainingRun::Prepare(const std::vector<std::string>& files, Helpers* helpers) {
  const fs::path tokenizer = Parts() / kRunTokenizerDir, input = Parts() / kStandardInputFile;
  if (automatic_ && settings_.layers.layer("data.tokenizer") == Layer::kBuiltIn) {
    // What is looked at before it is prepared is read more than once.
    std::vector<std::string> from = files;
    if (std::ranges::count(files, "-") > 0) {
      SaveStandardInput(input.string());
      std::ranges::replace(from, "-", input.string());
    }
    std::string name = ChooseTokens(TextBytes(from, Texts(), kMuchText));
    if (name.empty()) {
      LearnTokenizer(from, tokenizer);
      name = (options_.out / kRunTokenizerDir).string();
    }
    const std::pair<std::string, std::string> chosen("data.tokenizer", name);
    settings_.layers.UsePreset("automatic", {&chosen, 1});
    settings_.Resolve();
  }
  PrepareOptions prepare = {.files = files,
                            .tokenizer = TokenizerPlace(),
                            .out = (Parts() / kRunDataDir).string(),
                            .val_fraction = config_.data.val_fraction,
                            .val_split = config_.data.val_split,
                            .overwrite = true,
                            .field = config_.data.field,
                            .raw = config_.data.raw,
                            .standard_input = fs::exists(input) ? input.string() : "",
                            .keep_partial = false,
                            .helpers = helpers};
  const bool of_model = !config_.train.init.empty() && config_.data.tokenizer == config_.train.init;
  if (of_model || !config_.data.add_tokens.empty()) {
    const std::unique_ptr<Tokenizer> extended = AskedTokenizer();
    CreateDirectories(tokenizer);
    extended->Save(tokenizer.string());
    prepare.tokenizer = tokenizer.string();
    if (!config_.data.add_tokens.empty()) prepare.special = "allow";
  }
  if (options_.console == nullptr) {
    PrepareDataset(prepare);
  } else {
    PrepareWithProgress(prepare, *options_.console, options_.progress);
  }
  internal::RemoveTree(input);  // and if not now, with the rest of what has not begun
  return prepare.out;
}

// data.tokenizer, which names the place that the run's own will have once the run has begun.
std::string TrainingRun::TokenizerPlace() const {
  const fs::path own = Parts() / kRunTokenizerDir;
  const bool waits = config_.data.tokenizer == (options_.out / kRunTokenizerDir).string();
  return waits && fs::exists(own) ? own.string() : config_.data.tokenizer;
}

TextOptions TrainingRun::Texts() const {
  return {.field = config_.data.field, .raw = config_.data.raw};
}

// data.tokenizer, which may be that inside of the initial model's file, with data.add_tokens.
// REQUIRES: it is not `char`, or there are such tokens.
std::unique_ptr<Tokenizer> TrainingRun::AskedTokenizer() const {
  const DataConfig& data = config_.data;
  if (data.tokenizer == "char") {
    throw UsageError("--add-tokens: a tokenizer of kind char takes no special tokens", "",
                     "use --tokenizer bytes, or a byte-level BPE");
  }
  std::unique_ptr<Tokenizer> tokenizer = data.tokenizer == config_.train.init
                                             ? FindModel(data.tokenizer).tokenizer
                                             : OpenTokenizer(TokenizerPlace());
  if (data.add_tokens.empty()) return tokenizer;
  return WithSpecialTokens(*tokenizer, Split(data.add_tokens, ','));
}

void TrainingRun::LearnTokenizer(const std::vector<std::string>& files, const fs::path& dir) const {
  Note(fmt::format("learning a vocabulary of {} tokens from the text",
                   WithCommas(kChosenVocabulary)));
  TrainTokenizerOptions options{
      .files = files, .out = dir.string(), .overwrite = true, .texts = Texts()};
  options.trainer.vocab_size = kChosenVocabulary;
  TrainTokenizer(options);
}

// Vocabulary and special tokens are the data's.
void TrainingRun::FitModelToData() {
  GptConfig& model = config_.model;
  if (!model.causal && config_.log.sample_every > 0) {
    throw UsageError(
        "a model that is not causal cannot write samples",
        fmt::format("model.causal is false, log.sample_every is {}", config_.log.sample_every),
        "set log.sample_every to 0");
  }
  const int64_t V = data_->info().vocab_size;
  if (V > 0) {
    const bool asked = settings_.layers.layer("model.vocab_size") > Layer::kPreset;
    if (asked && model.vocab_size < V) {
      throw UsageError(fmt::format("{}: model.vocab_size is too small",
                                   settings_.layers.origin("model.vocab_size")),
                       fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
                       fmt::format("set it to {} or more, or leave it out", V));
    }
    const bool given = !config_.train.init.empty();  // and may have more rows than tokens
    const bool more_rows = given && !options_.resume && V > model.vocab_size;
    if (more_rows && model.lora.on() && data_->info().chat) {
      throw UsageError(
          "adapters alone cannot learn the tokens that mark turns",
          "the model does not have them yet, and --lora trains no rows of the vocabulary",
          "leave --lora out, or start from a model that was trained on conversations");
    }
    if (more_rows && model.lora.on() && !asked) {
      Note(fmt::format("the rows of {} new tokens stay as they begin: adapters alone are trained",
                       V - model.vocab_size));
    }
    if (!asked) model.vocab_size = given ? std::max(V, model.vocab_size) : V;
  }
  if (tokenizer_ != nullptr) {
    if (options_.resume) RequireSameTokenizer(checkpoint_, *data_, *tokenizer_);
    model.bos_token_id = model.eos_token_id = tokenizer_->end_of_text();
    if (data_->info().chat) model.eos_token_id = data_->info().chat->end;
  } else if (const std::string note = data_->BareNote(); !note.empty()) {
    Note(note);
  }
  model.Validate("settings");
}

// A tokenizer that was asked for is the one that made the data, and so is a model's.
void TrainingRun::RequireTokenizer() const {
  if (initial_) RequireTokenizerOf(*initial_, *data_, tokenizer_.get());
  const std::string& asked = config_.data.tokenizer;
  const bool added = !config_.data.add_tokens.empty();
  const auto given = [&](const char* key) { return settings_.layers.layer(key) >= Layer::kSet; };
  if ((!given("data.tokenizer") && !given("data.add_tokens")) || tokenizer_ == nullptr) return;
  const bool same = !added && (asked == "char" || asked == "bytes")
                        ? tokenizer_->kind() == asked
                        : AskedTokenizer()->hash() == tokenizer_->hash();
  if (same) return;
  throw UsageError(fmt::format("--tokenizer {}{}: the data has another", asked,
                               added ? " --add-tokens " + config_.data.add_tokens : ""),
                   fmt::format("{} was made with a tokenizer of kind {}, hash {}", data_->dir(),
                               tokenizer_->kind(), tokenizer_->hash()),
                   "leave it out, or prepare the text again with it");
}

// A figure that cannot be written is no reason to fail: it can be drawn again.
void TrainingRun::DrawLoss() const {
  try {
    DrawLossFigure(options_.out);
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  const fs::path& run = options_.out;
  std::optional<RunRecorder> recorder;
  std::optional<TrainReport> report;
  if (options_.console != nullptr && first()) {
    report.emplace(*options_.console, options_.progress, config_, run, *preview_,
                   tokenizer_ != nullptr);
  }
  TrainerHooks all;
  std::optional<Watchdog> watchdog;
  all.on_step = [&](const StepMetrics& metrics) {
    watchdog->Step();
    recorder->Record(metrics);
    if (report) report->Step(metrics);
    if (hooks.on_step) hooks.on_step(metrics);
  };
  all.on_evaluation = [&](int64_t step, const Evaluation& evaluation) {
    if (report) report->Evaluated(step, evaluation);
    if (hooks.on_evaluation) hooks.on_evaluation(step, evaluation);
  };
  if (report) {
    all.on_evaluation_progress = [&](int64_t done, int64_t total) {
      report->Evaluating(done, total);
    };
    all.on_checkpoint = [&](int64_t step, const fs::path& path) { report->Saved(step, path); };
  }
  all.on_rollback = [&](int64_t from, int64_t to, const std::string& why) {
    recorder.emplace(config_, run, *backend_, tokenizer_.get(), *data_, to);
    if (report) report->WentBack(from, to, why);
  };
  all.layer_norms_every = config_.log.layer_norms;
  all.rank_seconds = config_.log.ranks;
  if (tokenizer_ != nullptr) {
    all.sample_every = config_.log.sample_every;
    all.on_sample = [&](int64_t step, const GptWeights& weights) {
      const std::string text = recorder->Sample(step, weights);
      if (report) report->Sampled(step, recorder->prompt(), text);
      if (hooks.on_sample) hooks.on_sample(step, text);
    };
  }
  // What the others ask their own processes, and what all measure together.
  if (!first()) {
    all = {};
    all.on_step = hooks.on_step;
    all.on_evaluation = hooks.on_evaluation;
    all.layer_norms_every = config_.log.layer_norms;
    all.sample_every = tokenizer_ != nullptr ? config_.log.sample_every : 0;
  }
  all.stop_requested = [&] {
    return StopRequested() != 0 || (hooks.stop_requested && hooks.stop_requested());
  };
  all.checkpoint_requested = [] { return TakeCheckpointRequest(); };
  all.on_plan = [&](int64_t steps) { FollowPlan(steps); };
  all.budget_began = began_;

  std::unique_ptr<GptWeights> from;
  if (initial_) from = ReadWeights(initial_->model);
  initial_.reset();
  Trainer trainer(*backend_, config_.model, config_.train, *data_, run, all, tokenizer_.get(),
                  from.get(), options_.group);
  from.reset();
  if (options_.resume) {
    if (first()) MendLines(run / kMetricsFile);
    FromFirst("");
    trainer.Resume(checkpoint_);
    config_.train.max_steps = trainer.max_steps();
    if (trainer.ended() && trainer.step() >= trainer.max_steps()) {
      if (first()) DrawLoss();
      if (report) report->NothingToDo(trainer.step());
      return {.step = trainer.step()};
    }
  }
  Probe(trainer.step());
  if (!first()) return trainer.Run();
  // Not before: settings that the run refuses may not take the place of its own.
  WriteFileAtomically(Parts() / kRunConfigFile, settings_.layers.ToToml());
  told_steps_ = config_.train.max_steps;
  const ParamTable table(config_.model);
  // Weights, and two moments of what is trained.
  const uint64_t checkpoint =
      sizeof(float) * static_cast<uint64_t>(table.parameters() + 2 * table.trained_size());
  std::error_code unknown;
  RequireRoom(run, fs::space(run, unknown), new_run_ ? new_run_->ReplacedBytes() : 0, checkpoint,
              config_.train.keep_last + 1);
  CheckFingerprint(Parts(), *data_);
  if (new_run_) new_run_->Begun();
  const bool own = data_->dir() == (Parts() / kRunDataDir).string();
  watchdog.emplace(run, checkpoint, *data_, own ? run / kRunDataDir : fs::path(data_->dir()));
  if (report) report->Begin(trainer.step());
  recorder.emplace(config_, run, *backend_, tokenizer_.get(), *data_, trainer.step());
  if (finite_ != nullptr) {
    finite_->Watch({.when = [&] { return fmt::format("step {}", trainer.step()); },
                    .name_of = [&](const std::byte* at) { return trainer.NameOf(at); }});
  }
  TrainResult result = trainer.Run();
  FollowPlan(trainer.max_steps(), /*last=*/true);
  DrawLoss();
  recorder->End(result);
  if (report) report->End(result);
  return result;
}

}  // namespace folio
