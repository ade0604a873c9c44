#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/prepare.h"
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

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : settings_(settings), config_(settings.config), options_(std::move(options)) {
  ReadSettings();
  if (config_.train.threads > 0) SetThreads(static_cast<int>(config_.train.threads));
  backend_ = MakeBackend(config_.train.backend);
  // A run goes on in the format it began with, wherever that is.
  config_.train.dtype = TrainDtypeName(TrainDtype(config_.train, config_.model, *backend_));
  if (!options_.resume && !options_.dry_run) {
    new_run_ = std::make_unique<NewRun>(options_.out, options_.overwrite);
  }
  data_.emplace(DataDir(), config_.model.vocab_size);
  FitModelToData();
  preview_ = std::make_unique<TrainPreview>(config_, *backend_, ThisMachinesMemory());
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::ReadSettings() {
  if (options_.resume) {
    if (!fs::exists(options_.out / kLastDir)) {
      throw InputError(fmt::format("'{}' holds no run to resume", options_.out.string()),
                       fmt::format("there is no {}", (options_.out / kLastDir).string()),
                       "leave out --resume to begin one");
    }
    if (fs::exists(options_.out / kRunConfigFile)) {
      settings_.layers.ReadTomlFile(Layer::kProjectFile, options_.out / kRunConfigFile);
    }
    options_.sources.discover = false;  // the run's own settings stand for the files' ones
  }
  settings_.layers.ReadSources(options_.sources);
  settings_.layers.Resolve();
  config_.train.context = ContextOf(config_.model, config_.train);
  config_.train.Validate("settings");
}

// Where the tokens are; makes them from a text file. Remembers the place for resuming.
std::string TrainingRun::DataDir() {
  const fs::path own = options_.out / kRunDataDir, source = options_.out / kRunSourceFile;
  const std::string& from = options_.data;
  // The run's own tokens, made from the text it began with, are not made again.
  if (options_.resume && !fs::is_directory(from)) {
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
    if (!options_.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  if (options_.dry_run) {
    throw UsageError("--dry-run needs prepared data", fmt::format("'{}' is a file", from),
                     fmt::format("folio data prepare {} --out DIR", from));
  }
  const PrepareOptions prepare = {.files = {from},
                                  .tokenizer = config_.data.tokenizer,
                                  .out = own.string(),
                                  .val_fraction = config_.data.val_fraction,
                                  .overwrite = true,
                                  .keep_partial = false};
  if (options_.console == nullptr) {
    PrepareDataset(prepare);
  } else {
    PrepareWithProgress(prepare, *options_.console, options_.progress);
  }
  return own.string();
}

// Vocabulary and special tokens are the data's, and so is the tokenizer, if it has one.
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
    if (!asked) model.vocab_size = V;
  }
  tokenizer_ = LoadDataTokenizer(*data_);
  if (tokenizer_ != nullptr) {
    if (options_.resume) RequireSameTokenizer(options_.out / kLastDir, *data_, *tokenizer_);
    model.bos_token_id = model.eos_token_id = tokenizer_->end_of_text();
  }
  model.Validate("settings");
}

std::string TrainingRun::Plan(bool json) {
  preview_->Probe(data_->val().size(), options_.resume ? SavedStep(options_.out / kLastDir) : 0);
  if (json) return preview_->Event() + "\n";
  return preview_->Plan() + preview_->Estimate() + "\n";
}

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  const fs::path& run = options_.out;
  std::optional<RunRecorder> recorder;
  std::optional<TrainReport> report;
  if (options_.console != nullptr) {
    report.emplace(*options_.console, options_.progress, config_, run, *preview_);
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
  if (tokenizer_ != nullptr) {
    all.sample_every = config_.log.sample_every;
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

  Trainer trainer(*backend_, config_.model, config_.train, *data_, run, all, tokenizer_.get());
  if (options_.resume) trainer.Resume();
  // Not before: settings that the run refuses may not take the place of its own.
  WriteFileAtomically(run / kRunConfigFile, settings_.layers.ToToml());
  preview_->Probe(data_->val().size(), trainer.step());
  if (new_run_) new_run_->Begun();
  if (report) report->Begin(trainer.step());
  recorder.emplace(config_, run, *backend_, tokenizer_.get(), trainer.step());
  const TrainResult result = trainer.Run();
  DrawLossFigure(run);
  recorder->End(result);
  if (report) report->End(result);
  return result;
}

}  // namespace folio
