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
#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/run/automatic.h"
#include "folio/run/data_check.h"
#include "folio/run/preview.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_recorder.h"
#include "folio/run/train_report.h"
#include "folio/run/watchdog.h"
#include "folio/run/whole_conversations.h"
#include "folio/term/signals.h"
#include "folio/train/precision.h"
#include "folio/train/rank_shares.h"
#include "folio/train/trainer.h"

namespace folio {

namespace fs = std::filesystem;

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
  OpenData();
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
  const std::function<bool()> stop_asked = [&] {
    return StopRequested() != 0 || (hooks.stop_requested && hooks.stop_requested());
  };
  TrainerHooks all;
  std::optional<Watchdog> watchdog;
  std::optional<DataCheck> check;
  all.on_step = [&](const StepMetrics& metrics) {
    watchdog->Step();
    recorder->Record(metrics);
    if (report) report->Step(metrics);
    if (hooks.on_step) hooks.on_step(metrics);
    // Before the next checkpoint is begun, and the last one waits for it.
    const bool last = metrics.step + 1 >= config_.train.max_steps;
    if (check && last && !check->done()) {
      Note("the last checkpoint waits until all tokens are compared with their hashes");
    }
    if (check && last) check->Wait(stop_asked);
    if (check) check->Look();
  };
  all.on_evaluation = [&](int64_t step, const Evaluation& evaluation) {
    if (report) report->Evaluated(step, evaluation);
    if (hooks.on_evaluation) hooks.on_evaluation(step, evaluation);
  };
  if (report) {
    all.on_evaluation_progress = [&](int64_t done, int64_t total) {
      report->Evaluating(done, total);
    };
  }
  all.on_checkpoint = [&](int64_t step, const fs::path& path) {
    watchdog->LookAtData();
    if (report) report->Saved(step, path);
  };
  all.on_rollback = [&](int64_t from, int64_t to, const std::string& why) {
    recorder.emplace(config_, run, *backend_, tokenizer_.get(), *data_, to);
    if (report) report->RolledBack(from, to, why);
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
  all.stop_requested = stop_asked;
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
    if (first()) RepairLines(run / kMetricsFile);
    Broadcast("");
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
  constexpr int64_t kArrays = std::ssize(Optimizer::kState);
  const uint64_t checkpoint =
      sizeof(float) * static_cast<uint64_t>(table.parameters() + kArrays * table.trained_size());
  std::error_code unknown;
  RequireRoom(run, fs::space(run, unknown), new_run_ ? new_run_->ReplacedBytes() : 0, checkpoint,
              config_.train.keep_last + 1);
  CheckFingerprint(Parts(), *data_);
  if (new_run_) new_run_->Begun();
  const bool own = data_->dir() == (Parts() / kRunDataDir).string();
  const fs::path data_dir = own ? run / kRunDataDir : fs::path(data_->dir());
  watchdog.emplace(run, checkpoint, *data_, data_dir);
  if (data_->bytes() > options_.hashed_at_once && data_->hashed()) {
    Note(fmt::format("{} of tokens are compared with their hashes while the run trains",
                     HumanBytes(static_cast<double>(data_->bytes()))));
    check.emplace(data_dir.string());
  }
  if (report) report->Begin(trainer.step());
  recorder.emplace(config_, run, *backend_, tokenizer_.get(), *data_, trainer.step());
  if (finite_ != nullptr) {
    finite_->Watch({.when = [&] { return fmt::format("step {}", trainer.step()); },
                    .name_of = [&](const std::byte* at) { return trainer.NameOf(at); }});
  }
  TrainResult result = trainer.Run();
  watchdog->Finish(*data_);
  if (check) check->Wait(stop_asked);
  FollowPlan(trainer.max_steps(), /*last=*/true);
  DrawLoss();
  recorder->End(result);
  if (report) report->End(result);
  return result;
}

}  // namespace folio
