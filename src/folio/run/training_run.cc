#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/prepare_progress.h"
#include "folio/io/file.h"
#include "folio/run/preview.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_recorder.h"
#include "folio/run/train_report.h"
#include "folio/term/signals.h"
#include "folio/train/precision.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

}  // namespace

struct TrainingRun::State {
  State(RunSettings& run_settings, TrainingRunOptions run_options);

  void ReadSettings();
  std::string DataDir();
  void FitModelToData();
  std::string Plan(bool json);
  TrainResult Train(const RunHooks& hooks);

  RunSettings& settings;
  RunConfig& config;
  TrainingRunOptions options;
  std::unique_ptr<Backend> backend;
  std::optional<NewRun> new_run;
  std::optional<Dataset> data;
  std::unique_ptr<Tokenizer> tokenizer;  // null where nobody knows the data's
  std::optional<TrainPreview> preview;
};

TrainingRun::State::State(RunSettings& run_settings, TrainingRunOptions run_options)
    : settings(run_settings), config(run_settings.config), options(std::move(run_options)) {
  ReadSettings();
  if (config.train.threads > 0) SetThreads(static_cast<int>(config.train.threads));
  backend = MakeBackend(config.train.backend);
  // A run goes on in the format it began with, wherever that is.
  config.train.dtype = TrainDtypeName(TrainDtype(config.train, config.model, *backend));
  if (!options.resume && !options.dry_run) new_run.emplace(options.out, options.overwrite);
  data.emplace(DataDir(), config.model.vocab_size);
  FitModelToData();
  preview.emplace(config, *backend, ThisMachinesMemory());
}

void TrainingRun::State::ReadSettings() {
  if (options.resume) {
    if (!fs::exists(options.out / kLastDir)) {
      throw InputError(fmt::format("'{}' holds no run to resume", options.out.string()),
                       fmt::format("there is no {}", (options.out / kLastDir).string()),
                       "leave out --resume to begin one");
    }
    if (fs::exists(options.out / kRunConfigFile)) {
      settings.layers.ReadTomlFile(Layer::kProjectFile, options.out / kRunConfigFile);
    }
    options.sources.discover = false;  // the run's own settings stand for the files' ones
  }
  settings.layers.ReadSources(options.sources);
  settings.layers.Resolve();
  config.train.context = ContextOf(config.model, config.train);
  config.train.Validate("settings");
}

// Where the tokens are; makes them from a text file. Remembers the place for resuming.
std::string TrainingRun::State::DataDir() {
  const fs::path own = options.out / kRunDataDir, source = options.out / kRunSourceFile;
  const std::string& from = options.data;
  // The run's own tokens, made from the text it began with, are not made again.
  if (options.resume && !fs::is_directory(from)) {
    if (fs::exists(own)) return own.string();
    if (from.empty()) return ReadFile(source, 1 << 16);
  }
  if (from.empty()) {
    throw UsageError("train needs --data DIR|FILE", "",
                     "give a text file, or a directory made by folio data prepare; folio data "
                     "stories makes a text to try");
  }
  if (fs::is_directory(from)) {
    std::string dir = fs::absolute(from).string();
    if (!options.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  if (options.dry_run) {
    throw UsageError("--dry-run needs prepared data", fmt::format("'{}' is a file", from),
                     fmt::format("folio data prepare {} --out DIR", from));
  }
  const PrepareOptions prepare = {.files = {from},
                                  .tokenizer = config.data.tokenizer,
                                  .out = own.string(),
                                  .val_fraction = config.data.val_fraction,
                                  .overwrite = true,
                                  .keep_partial = false};
  if (options.console == nullptr) {
    PrepareDataset(prepare);
  } else {
    PrepareWithProgress(prepare, *options.console, options.progress);
  }
  return own.string();
}

// Vocabulary and special tokens are the data's, and so is the tokenizer, if it has one.
void TrainingRun::State::FitModelToData() {
  GptConfig& model = config.model;
  const int64_t V = data->info().vocab_size;
  if (V > 0) {
    const bool asked = settings.layers.layer("model.vocab_size") > Layer::kPreset;
    if (asked && model.vocab_size < V) {
      throw UsageError(fmt::format("{}: model.vocab_size is too small",
                                   settings.layers.origin("model.vocab_size")),
                       fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
                       fmt::format("set it to {} or more, or leave it out", V));
    }
    if (!asked) model.vocab_size = V;
  }
  tokenizer = LoadDataTokenizer(*data);
  if (tokenizer != nullptr) {
    if (options.resume) RequireSameTokenizer(options.out / kLastDir, *data, *tokenizer);
    model.bos_token_id = model.eos_token_id = tokenizer->end_of_text();
  }
  model.Validate("settings");
}

std::string TrainingRun::State::Plan(bool json) {
  preview->Probe(data->val().size(), options.resume ? SavedStep(options.out / kLastDir) : 0);
  if (json) return preview->Event() + "\n";
  return preview->Plan() + preview->Estimate() + "\n";
}

TrainResult TrainingRun::State::Train(const RunHooks& hooks) {
  const fs::path& run = options.out;
  std::optional<RunRecorder> recorder;
  std::optional<TrainReport> report;
  if (options.console != nullptr) {
    report.emplace(*options.console, options.progress, config, run, *preview);
  }
  TrainerHooks all;
  all.on_step = [&](const StepMetrics& metrics) {
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
  if (tokenizer != nullptr) {
    all.sample_every = config.log.sample_every;
    all.on_sample = [&](int64_t step, const GptWeights& weights) {
      const std::string text = recorder->Sample(step, weights);
      if (report) report->Sampled(step, text);
      if (hooks.on_sample) hooks.on_sample(step, text);
    };
  }
  all.stop_requested = [&] {
    return StopRequested() != 0 || (hooks.stop_requested && hooks.stop_requested());
  };
  all.checkpoint_requested = [] { return TakeCheckpointRequest(); };

  Trainer trainer(*backend, config.model, config.train, *data, run, all, tokenizer.get());
  if (options.resume) trainer.Resume();
  // Not before: settings that the run refuses may not take the place of its own.
  WriteFileAtomically(run / kRunConfigFile, settings.layers.ToToml());
  preview->Probe(data->val().size(), trainer.step());
  if (new_run) new_run->Begun();
  if (report) report->Begin(trainer.step());
  recorder.emplace(config, run, *backend, tokenizer.get(), trainer.step());
  const TrainResult result = trainer.Run();
  DrawLossFigure(run);
  recorder->End(result);
  if (report) report->End(result);
  return result;
}

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : state_(std::make_unique<State>(settings, std::move(options))) {}

TrainingRun::~TrainingRun() = default;

std::string TrainingRun::Plan(bool json) {
  return state_->Plan(json);
}

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  return state_->Train(hooks);
}

}  // namespace folio
