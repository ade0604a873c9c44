#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/run/data_check.h"
#include "folio/run/prepared_run.h"
#include "folio/run/run_directory.h"
#include "folio/run/run_recorder.h"
#include "folio/run/train_report.h"
#include "folio/run/watchdog.h"
#include "folio/term/signals.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A prepared run as it trains, with all that looks on.
class RunInTraining {
 public:
  RunInTraining(PreparedRun& run, const RunHooks& hooks) : run_(run), hooks_(hooks) {}

  TrainResult Train();

 private:
  const fs::path& dir() const { return run_.options.out; }
  RunConfig& config() const { return run_.config(); }
  const Dataset& data() const { return *run_.data.data; }
  const Tokenizer* tokenizer() const { return run_.data.tokenizer.get(); }
  bool first() const { return run_.ranks.first(); }
  bool StopAsked() const {
    return StopRequested() != 0 || (hooks_.stop_requested && hooks_.stop_requested());
  }

  TrainerHooks Hooks();
  TrainerHooks HooksOfFirst();
  void Step(const StepMetrics& metrics);
  bool NothingToDo(Trainer& trainer);
  void Begin(const Trainer& trainer);
  void Record(int64_t first_step);
  void FollowPlan(int64_t steps, bool last = false);
  void DrawLoss() const;

  PreparedRun& run_;
  const RunHooks& hooks_;
  int64_t told_steps_ = 0;  // train.max_steps as RUN/config.toml has it
  std::optional<RunRecorder> recorder_;
  std::optional<TrainReport> report_;
  std::optional<Watchdog> watchdog_;
  std::optional<DataCheck> check_;
};

// Every rank asks its own process to stop, and takes part in what all measure together; the first
// alone tells and records.
TrainerHooks RunInTraining::Hooks() {
  TrainerHooks all;
  if (first()) {
    all = HooksOfFirst();
  } else {
    all.on_step = hooks_.on_step;
    all.on_evaluation = hooks_.on_evaluation;
  }
  all.layer_norms_every = config().log.layer_norms;
  all.sample_every = tokenizer() != nullptr ? config().log.sample_every : 0;
  all.stop_requested = [this] { return StopAsked(); };
  all.checkpoint_requested = [] { return TakeCheckpointRequest(); };
  all.on_plan = [this](int64_t steps) { FollowPlan(steps); };
  all.budget_began = run_.began;
  return all;
}

TrainerHooks RunInTraining::HooksOfFirst() {
  TrainerHooks all;
  all.on_step = [this](const StepMetrics& metrics) { Step(metrics); };
  all.on_evaluation = [this](int64_t step, const Evaluation& evaluation) {
    if (report_) report_->Evaluated(step, evaluation);
    if (hooks_.on_evaluation) hooks_.on_evaluation(step, evaluation);
  };
  if (report_) {
    all.on_evaluation_progress = [this](int64_t done, int64_t total) {
      report_->Evaluating(done, total);
    };
  }
  all.on_checkpoint = [this](int64_t step, const fs::path& path) {
    watchdog_->LookAtData();
    if (report_) report_->Saved(step, path);
  };
  all.on_rollback = [this](int64_t from, int64_t to, const std::string& why) {
    Record(to);
    if (report_) report_->RolledBack(from, to, why);
  };
  all.rank_seconds = config().log.ranks;
  if (tokenizer() == nullptr) return all;
  all.on_sample = [this](int64_t step, const GptWeights& weights) {
    const std::string text = recorder_->Sample(step, weights);
    if (report_) report_->Sampled(step, recorder_->prompt(), text);
    if (hooks_.on_sample) hooks_.on_sample(step, text);
  };
  return all;
}

void RunInTraining::Step(const StepMetrics& metrics) {
  watchdog_->Step();
  recorder_->Record(metrics);
  if (report_) report_->Step(metrics);
  if (hooks_.on_step) hooks_.on_step(metrics);
  if (!check_) return;
  // Data is looked at before the next checkpoint is begun, and the last one waits for it.
  const bool last = metrics.step + 1 >= config().train.max_steps;
  if (last && !check_->done()) {
    run_.ranks.Note("the last checkpoint waits until all tokens are compared with their hashes");
  }
  if (last) check_->Wait([this] { return StopAsked(); });
  check_->Look();
}

void RunInTraining::Record(int64_t first_step) {
  recorder_.emplace(config(), dir(), *run_.backend, tokenizer(), data(), first_step);
}

// Goes on from the checkpoint of the run; true if that is its end.
bool RunInTraining::NothingToDo(Trainer& trainer) {
  if (first()) RepairLines(dir() / kMetricsFile);
  run_.ranks.WaitForFirst();
  trainer.Resume(run_.start.checkpoint);
  config().train.max_steps = trainer.max_steps();
  if (!trainer.ended() || trainer.step() < trainer.max_steps()) return false;
  if (first()) DrawLoss();
  if (report_) report_->NothingToDo(trainer.step());
  return true;
}

// The run takes its place, and all that looks on begins to.
void RunInTraining::Begin(const Trainer& trainer) {
  RunData& made = run_.data;
  const fs::path parts = made.Parts(dir());
  // Not before: settings that the run refuses may not take the place of its own.
  WriteFileAtomically(parts / kRunConfigFile, run_.settings.layers.ToToml());
  told_steps_ = config().train.max_steps;
  const ParamTable table(config().model, config().train.lora);
  constexpr int64_t kArrays = std::ssize(Optimizer::kState);
  const uint64_t checkpoint =
      sizeof(float) * static_cast<uint64_t>(table.parameters() + kArrays * table.trained_size());
  std::error_code unknown;
  RequireRoom(dir(), fs::space(dir(), unknown), made.new_run ? made.new_run->ReplacedBytes() : 0,
              checkpoint, config().train.keep_last + 1);
  CheckFingerprint(parts, data());
  const bool own = data().dir() == (parts / kRunDataDir).string();
  if (made.new_run) made.new_run->Begun();
  const fs::path data_dir = own ? dir() / kRunDataDir : fs::path(data().dir());
  watchdog_.emplace(dir(), checkpoint, data(), data_dir);
  if (data().bytes() > run_.options.hashed_at_once && data().hashed()) {
    run_.ranks.Note(fmt::format("{} of tokens are compared with their hashes while the run trains",
                                HumanBytes(static_cast<double>(data().bytes()))));
    check_.emplace(data_dir.string());
  }
  if (report_) report_->Begin(trainer.step());
  Record(trainer.step());
  if (run_.finite == nullptr) return;
  run_.finite->Watch({.when = [&trainer] { return fmt::format("step {}", trainer.step()); },
                      .name_of = [&trainer](const std::byte* at) { return trainer.NameOf(at); }});
}

// The clock has corrected how many steps there are: for whoever reads the settings of the run,
// where it is no trifle, or the `last` word.
void RunInTraining::FollowPlan(int64_t steps, bool last) {
  constexpr int64_t kTrifle = 20;  // one of so many
  config().train.max_steps = steps;
  const int64_t change = std::abs(steps - told_steps_);
  if (change <= (last ? 0 : told_steps_ / kTrifle)) return;
  told_steps_ = steps;
  try {
    WriteFileAtomically(dir() / kRunConfigFile, run_.settings.layers.ToToml());
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

// A figure that cannot be written is no reason to fail: it can be drawn again.
void RunInTraining::DrawLoss() const {
  try {
    DrawLossFigure(dir());
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

TrainResult RunInTraining::Train() {
  RunStart& start = run_.start;
  if (Console* console = run_.ranks.console(); console != nullptr) {
    report_.emplace(*console, run_.options.progress, config(), dir(), *run_.preview,
                    tokenizer() != nullptr);
  }
  std::unique_ptr<GptWeights> from;
  if (start.initial) from = ReadWeights(start.initial->model);
  start.initial.reset();
  Trainer trainer(*run_.backend, config().model, config().train, data(), dir(), Hooks(),
                  tokenizer(), from.get(), run_.ranks.group());
  from.reset();
  if (start.resume && NothingToDo(trainer)) return {.step = trainer.step()};
  run_.preview->Probe(trainer.step(), start.resume ? SavedBudgetSeconds(start.checkpoint) : 0);
  if (!first()) return trainer.Run();
  Begin(trainer);
  TrainResult result = trainer.Run();
  watchdog_->Finish(data());
  if (check_) check_->Wait([this] { return StopAsked(); });
  FollowPlan(trainer.max_steps(), /*last=*/true);
  DrawLoss();
  recorder_->End(result);
  if (report_) report_->End(result);
  return result;
}

}  // namespace

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : run_(std::make_unique<PreparedRun>(PrepareRun(settings, std::move(options)))) {}

TrainingRun::~TrainingRun() = default;

std::string TrainingRun::Plan(bool json) {
  return PlanRun(*run_, json);
}

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  return TrainRun(*run_, hooks);
}

TrainResult TrainRun(PreparedRun& run, const RunHooks& hooks) {
  return RunInTraining(run, hooks).Train();
}

}  // namespace folio
