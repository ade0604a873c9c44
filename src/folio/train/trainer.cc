#include "folio/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/checksums.h"
#include "folio/io/model_dir.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"
#include "folio/model_files/same_model.h"
#include "folio/ranks/group.h"
#include "folio/train/buckets.h"
#include "folio/train/config.h"
#include "folio/train/evaluate.h"
#include "folio/train/ranks.h"
#include "folio/train/schedule.h"

namespace folio {

namespace {

// Thrown between the operations of a step that is not to be made.
struct StepDropped {};

double ToMilliseconds(double seconds) {
  return std::round(seconds * 1e3) / 1e3;
}

}  // namespace

int64_t ContextOf(const GptConfig& model, const TrainConfig& config) {
  const int64_t T = config.context > 0 ? config.context : model.n_positions;
  if (T > model.n_positions) {
    throw UsageError(
        "train.context is longer than the model's n_positions",
        fmt::format("context is {}, n_positions is {}", T, model.n_positions),
        fmt::format("use --context {}, or raise model.n_positions", model.n_positions));
  }
  return T;
}

Trainer::Trainer(Backend& backend, const GptConfig& model, const TrainConfig& config,
                 const Dataset& data, std::filesystem::path run, TrainerHooks hooks,
                 const Tokenizer* tokenizer, const StoredModel* from, Group* group,
                 const std::string& base_sha256)
    : config_(config),
      run_(std::move(run)),
      hooks_(std::move(hooks)),
      ranks_(group != nullptr && !group->alone() ? group : nullptr),
      watched_(backend),
      weights_(ParamTable(model, config.lora, ShardOfRank(model, config, ranks_.group()))),
      train_step_(watched_, weights_, config.batch_size, ContextOf(model, config),
                  PassOptionsOf(config, model, backend, data.info().chat.has_value()),
                  ParallelismOf(config, ranks_.group()), OptimizerSettingsOf(config)),
      layer_norms_(backend, weights_, train_step_.tensor_communicator()),
      clock_(hooks_.clock, hooks_.budget_began),
      policy_(config_,
              Checkpoints(run_, {.keep_last = config.keep_last,
                                 .keep_every = config.keep_every,
                                 // The model that adapters belong to, where other programs find it.
                                 .base = {config.init_adapter.empty() ? config.init
                                                                      : (run_ / kBaseDir).string(),
                                          base_sha256},
                                 .adapters = config.saves_adapters(),
                                 .tokenizer = tokenizer}),
              weights_, train_step_.optimizer(), ranks_.group(), hooks_.on_checkpoint,
              [this] { return clock_.Now(); }) {
  FOLIO_CHECK(!config.saves_adapters() || from != nullptr, "adapters without their model");
  RequireTorchRngFits(model, config, from != nullptr, ranks_.group() != nullptr);
  config_.context = train_step_.pass().T();
  config_.Validate("settings");
  samplers_ = MakeRunSamplers(data, config_, train_step_.pass().T(), torch_);
  worthwhile_steps_ = WorthwhileSteps(config_, config_.context, data.train().size());
  state_.seed = config.seed;
  if (torch_) {
    InitWeightsLikeTorch(weights_, *torch_);
    return;
  }
  if (from == nullptr || config.lora.on()) {
    InitWeights(weights_, static_cast<uint64_t>(config.seed),
                from == nullptr ? ParamPart::kAll : ParamPart::kTrained);
  }
  if (from != nullptr) ReadWeightsInto(*from, weights_);
}

std::string Trainer::NameOf(const std::byte* at) const {
  for (const ParamInfo& info : weights_.table().params()) {
    const Tensor x = weights_.table().View(info, weights_.flat());
    if (!std::less<>()(at, x.raw()) && std::less<>()(at, x.raw() + x.bytes())) return info.name;
  }
  const std::string name = train_step_.GradientAt(at);
  return name.empty() ? "" : "gradient of " + name;
}

// The micro-batch that this rank computes next: the turn-th of its own of this step.
void Trainer::FetchBatch(int64_t turn) {
  if (torch_ && turn == 0) state_.torch_before_batch = torch_->state();
  samplers_.train->Fill(state_.data_step(), train_step_.parallelism().MicroBatch(turn), batch_);
}

// The gradient of the step, and the mean loss of its targets.
double Trainer::Accumulate() {
  const int64_t turns = train_step_.parallelism().micro_batches;
  const double scale = 1.0 / static_cast<double>(samplers_.train->Targets(state_.data_step()));
  std::vector<double>& mine = step_losses_;
  mine.clear();
  train_step_.Begin();
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t micro = train_step_.parallelism().MicroBatch(turn);
    mine.push_back(train_step_.Accumulate(batch_.inputs, batch_.targets, scale,
                                          {.on = true,
                                           .seed = static_cast<uint64_t>(config_.seed),
                                           .step = static_cast<uint64_t>(state_.step),
                                           .first_sequence = micro * config_.batch_size},
                                          batch_.begins));
    mine.push_back(static_cast<double>(batch_.CountTargets()));
    if (turn + 1 < turns) FetchBatch(turn + 1);
  }
  return MeanLoss(mine, train_step_.data_communicator(), config_.reduce_every);
}

void Trainer::Sample() {
  train_step_.WaitForWeights();
  std::optional<GptWeights> whole;
  if (!train_step_.tensor_communicator().alone()) {
    if (ranks_.first()) whole.emplace(weights_.table().Whole());
    GatherParts(*ranks_.group(), weights_.table(), weights_.flat(), PartHeld::kAll,
                whole ? &*whole : nullptr);
    if (!ranks_.first()) return;
  }
  if (hooks_.on_sample) hooks_.on_sample(state_.step, whole ? *whole : weights_);
}

std::optional<StepMetrics> Trainer::TakeStep() {
  const double begin = SteadySeconds();
  const double waited = ranks_.seconds_waited();
  const int64_t tokens = config_.batch_size * train_step_.pass().T() * config_.grad_accumulation;
  StepMetrics metrics{.step = state_.step};
  try {
    if (hooks_.abandon_requested && ranks_.group() == nullptr && !torch_) {
      watched_.Watch([this] {
        if (hooks_.abandon_requested()) throw StepDropped{};
      });
    }
    metrics.loss = Accumulate();
    watched_.Watch({});
  } catch (const StepDropped&) {
    watched_.Watch({});
    return {};
  }
  const bool measure = hooks_.layer_norms_every > 0 && state_.step % hooks_.layer_norms_every == 0;
  lost_ = JudgeAndUpdate(train_step_, config_, state_.health, metrics,
                         measure ? &layer_norms_ : nullptr);
  if (!lost_.empty()) {
    first_lost_step_ = state_.step + 1 - state_.health.skipped_in_a_row;
    return metrics;
  }
  state_.step += 1;
  state_.tokens += tokens;
  FetchBatch(0);
  const double seconds = SteadySeconds() - begin;
  if (ranks_.group() != nullptr) {
    std::vector<double> all = ranks_.GatherSeconds(seconds - (ranks_.seconds_waited() - waited));
    if (hooks_.rank_seconds) metrics.rank_seconds = std::move(all);
  }
  metrics.rolled_back = std::exchange(rollback_, "");
  metrics.tokens = state_.tokens;
  metrics.tokens_per_second = static_cast<double>(tokens) / seconds;
  metrics.seconds = clock_.Seconds();
  metrics.time = ToMilliseconds(WallSeconds());
  if (state_.evaluation) {
    metrics.train_eval_loss = state_.evaluation->train_loss;
    metrics.val_loss = state_.evaluation->val_loss;
    state_.evaluation.reset();
  }
  return metrics;
}

bool Trainer::AllStepsDone() const {
  return state_.step >= config_.max_steps ||
         (config_.max_tokens > 0 && state_.tokens >= config_.max_tokens);
}

bool Trainer::EvaluationDue() const {
  if (state_.evaluation) return false;
  const bool regular = config_.eval_every > 0 && state_.step % config_.eval_every == 0;
  return regular || AllStepsDone();
}

// Returns whether train.max_time would end before the next step and the checkpoint after it.
bool Trainer::OutOfTime() const {
  // The arrays of the optimizer are each as large as the weights.
  const auto arrays = static_cast<double>(1 + train_step_.optimizer().State().size());
  const auto bytes = static_cast<double>(weights_.flat().bytes() *
                                         static_cast<size_t>(weights_.table().shard().count));
  return clock_.OutOfTime(policy_.Seconds(arrays * bytes));
}

void Trainer::Poll() {
  const auto asked = [](const std::function<bool()>& hook) { return hook && hook(); };
  flags_ = ranks_.Poll({.stop = asked(hooks_.stop_requested),
                        .out_of_time = OutOfTime(),
                        .checkpoint = flags_.checkpoint || asked(hooks_.checkpoint_requested),
                        .written = policy_.writer().done(),
                        .writing_pieces = policy_.writer().writes_pieces()});
  if (!flags_.writing_pieces) policy_.writer().FinishPieces();
}

std::string Trainer::EndedBy() const {
  if (state_.step >= config_.max_steps) return "";
  if (AllStepsDone()) return "max_tokens";
  if (config_.patience > 0 && state_.evaluations_without_better >= config_.patience) {
    return "patience";
  }
  return flags_.out_of_time ? "max_time" : "";
}

int64_t Trainer::EvaluationBatches(int64_t usual) const {
  return config_.first_eval_is_short() && state_.step == 0
             ? std::min(usual, config_.first_eval_batches)
             : usual;
}

bool Trainer::Evaluate() {
  const double begin = clock_.Now();
  const std::optional<TorchRng> before = torch_;
  const auto stop_asked = [this] {
    Poll();
    return StopFlagged();
  };
  state_.evaluation = folio::Evaluate(
      train_step_.pass(), weights_.params(),
      {*samplers_.train_eval, EvaluationBatches(samplers_.train_eval_batches)},
      {*samplers_.val_eval, EvaluationBatches(samplers_.val_eval_batches)}, eval_batch_, stop_asked,
      hooks_.on_evaluation_progress, train_step_.data_communicator());
  if (!state_.evaluation) {
    torch_ = before;  // as if the evaluation had not begun
    return false;
  }
  for (const double loss : {state_.evaluation->train_loss, state_.evaluation->val_loss}) {
    if (!state_.health.BlownUp(loss, weights_.config().vocab_size)) continue;
    lost_ = fmt::format("the loss of an evaluation is {}", loss);
    first_lost_step_ = state_.step - state_.health.skipped_in_a_row;
    return true;
  }
  if (hooks_.on_evaluation) hooks_.on_evaluation(state_.step, *state_.evaluation);
  if (state_.step > 0) {
    clock_.EndEvaluation(begin);
  } else {
    first_val_loss_ = state_.evaluation->val_loss;
  }
  policy_.Finish(state_);  // of the best one so far, perhaps
  policy_.ForgetBegun();
  policy_.RepairBest(state_, [this] { return !policy_.checkpoints().LostBest(); });
  const double val = state_.evaluation->val_loss;
  if (state_.step > 0 && (!state_.best_val_loss || val < *state_.best_val_loss)) {
    state_.best_val_loss = val;
    state_.best_step = state_.step;
    state_.evaluations_without_better = 0;
    policy_.MarkBest();
  } else if (state_.step > 0 && config_.patience > 0) {
    state_.evaluations_without_better += 1;
  }
  return true;
}

TrainResult Trainer::Run() {
  if (const auto steps = clock_.Begin(config_, worthwhile_steps_, state_)) SetSteps(*steps);
  if (ranks_.first()) {
    log_.emplace(run_, state_.step);
    if (config_.lora.on() && !config_.saves_adapters() && !policy_.begun()) {
      policy_.checkpoints().WriteBase(weights_);
    }
  }
  FetchBatch(0);
  // A resumed generator has drawn the batch again; what it drew after it comes next.
  if (torch_ && state_.torch) torch_->set_state(*state_.torch);
  bool stop = false;
  std::string ended_by;
  Poll();
  for (;;) {
    const bool evaluate = EvaluationDue() && !stop;
    if (evaluate) stop = !Evaluate();
    if (RollBackIfLost()) continue;
    ended_by = EndedBy();
    stop = stop || AllStepsDone() || !ended_by.empty();
    if (stop) break;
    const bool regular = policy_.RegularDue(state_, evaluate);
    BeginSave(std::exchange(flags_.checkpoint, false) || regular);
    ranks_.TellProgress(fmt::format("in step {}; {}", state_.step, policy_.Newest("the last")));
    const double begin = clock_.Now();
    const std::optional<StepMetrics> metrics = TakeStep();
    if (!metrics) break;
    if (RollBackIfLost()) continue;
    if (log_) log_->Write(*metrics);
    if (hooks_.on_step) hooks_.on_step(*metrics);
    if (const auto steps = clock_.EndStep(begin, config_.max_steps, state_)) {
      // The first rank's clock decides, for all at the same step.
      const int64_t decided = std::stoll(Broadcast(ranks_.group(), std::to_string(*steps)));
      if (decided != config_.max_steps) SetSteps(decided);
    }
    if (hooks_.sample_every > 0 && state_.step % hooks_.sample_every == 0) Sample();
    clock_.EndTurn(begin);
    Poll();
    if (flags_.written) policy_.Finish(state_);
    stop = StopFlagged();
  }
  SaveToEnd();
  if (state_.evaluation || !ended_by.empty()) {
    StepMetrics last{.step = state_.step, .tokens = state_.tokens, .seconds = clock_.Seconds()};
    last.time = ToMilliseconds(WallSeconds());
    last.ended_by = ended_by;
    if (state_.evaluation) {
      last.train_eval_loss = state_.evaluation->train_loss;
      last.val_loss = state_.evaluation->val_loss;
    }
    if (log_) log_->Write(last);
  }
  if (log_) log_->Finish();
  return {.step = state_.step,
          .tokens = state_.tokens,
          .seconds = clock_.Seconds(),
          .stopped = state_.step < config_.max_steps,
          .ended_by = ended_by,
          .skipped = state_.health.skipped,
          .rollbacks = state_.rollbacks,
          .evaluation = state_.evaluation,
          .first_val_loss = first_val_loss_,
          .best_val_loss = state_.best_val_loss,
          .best_step = state_.best_step};
}

// The clock says how many steps a run with a budget makes.
void Trainer::SetSteps(int64_t steps) {
  config_.max_steps = state_.budget->steps = steps;
  if (ranks_.first() && hooks_.on_plan) hooks_.on_plan(steps);
}

// --- Checkpoints: resuming, saving, rolling back

void Trainer::Resume() {
  Resume(BroadcastResult(ranks_.group(), [&] { return SoundCheckpoint(run_).string(); }));
}

void Trainer::Resume(const std::filesystem::path& checkpoint) {
  Load(checkpoint);
  if (config_.budget.empty()) state_.budget = {};
  if (state_.budget) config_.max_steps = state_.budget->steps;
  policy_.RepairBest(state_, [] { return false; });
  if (!std::filesystem::exists(run_ / kMetricsFile)) return;
  for (const StepMetrics& m : ReadRunLog(run_)) {
    if (m.step < state_.step) clock_.set_before(m.seconds);
    if (m.step == 0 && m.val_loss) first_val_loss_ = m.val_loss;
    ended_ = m.step == state_.step && !m.loss && AllStepsDone();
  }
}

// Parameters, the state of the optimizer and that of the run become as they were.
void Trainer::Load(const std::filesystem::path& checkpoint) {
  const bool adapters = config_.lora.on();
  if (!config_.saves_adapters()) {  // else the trainer was made with the model that they are for
    const std::filesystem::path model = adapters ? run_ / kBaseDir : checkpoint;
    if (adapters) VerifyChecksums(model);
    const StoredModel saved = OpenModelDir(model);
    RequireSameModel(saved.config, weights_.config(), model.string());
    ReadWeightsInto(saved, weights_);
  }
  if (adapters) {
    LoadAdapter(config_.saves_adapters() ? checkpoint : checkpoint / kAdapterDir, weights_);
  }
  state_ = LoadTrainState(checkpoint, weights_.table(), train_step_.optimizer());
  policy_.Resumed(state_, checkpoint);
  if (torch_) {
    if (!state_.torch) {
      throw InputError(
          fmt::format("{}: the run was started without --rng torch", checkpoint.string()), "",
          "resume it with --rng folio");
    }
    torch_->set_state(*state_.torch_before_batch);
  }
}

// Begins to write RUN/best, if that is due, and RUN/last, if that is asked for and not there.
void Trainer::BeginSave(bool asked) {
  const bool last = policy_.LastMissing(state_, asked);
  if (!last && !policy_.best_due()) return;
  policy_.Finish(state_);
  if (torch_) state_.torch = torch_->state();
  if (last && log_) log_->Sync();  // the checkpoint stands for its lines
  train_step_.WaitForWeights();
  ranks_.RequireSameBytes(weights_.flat(), train_step_.tensor_communicator().size(), state_.step,
                          policy_.Newest("the last good"));
  policy_.Begin(state_, last);
}

// The last checkpoint: without it the run may not end well.
void Trainer::SaveToEnd() {
  policy_.Finish(state_);
  BeginSave(true);
  policy_.FinishLast(state_);
}

// Goes back to the newest checkpoint whose next step was made, and leaves out the data since then.
bool Trainer::RollBackIfLost() {
  if (lost_.empty()) return false;
  policy_.Finish(state_);
  std::filesystem::path good;
  try {
    good = BroadcastResult(ranks_.group(),
                           [&] { return SoundCheckpoint(run_, first_lost_step_).string(); });
  } catch (const Error&) {
    Diverged("");  // there is none
  }
  if (torch_ || state_.rollbacks >= config_.max_rollbacks) Diverged(good);
  const TrainState before = state_;
  Load(good);
  // The step that was lost has seen its data: the next is what comes after it.
  state_.data_skipped = before.data_skipped + before.step + 1 - state_.step;
  state_.rollbacks = before.rollbacks + 1;
  state_.budget = before.budget;  // no time comes back
  state_.best_val_loss = before.best_val_loss;
  state_.best_step = before.best_step;
  rollback_ = fmt::format("from step {}: {}", before.step, std::exchange(lost_, ""));
  policy_.RolledBack(state_);
  if (ranks_.first()) log_.emplace(run_, state_.step);
  if (hooks_.on_rollback) hooks_.on_rollback(before.step, state_.step, rollback_);
  FetchBatch(0);
  return true;
}

void Trainer::Diverged(const std::filesystem::path& good) const {
  std::string where = "no checkpoint had been written", how;
  if (!good.empty()) {
    where = fmt::format("the last good checkpoint is {} (step {})", good.string(), SavedStep(good));
    how = ", or continue from the checkpoint with --resume";
    if (good != run_ / kLastDir) {
      how += fmt::format(" after removing {}", (run_ / kLastDir).string());
    }
  }
  const std::string before =
      state_.rollbacks > 0
          ? fmt::format("; the run had returned to a checkpoint {} times", state_.rollbacks)
          : "";
  throw Error(ErrorKind::kDiverged, fmt::format("training diverged at step {}", state_.step),
              fmt::format("{}{}; {}", lost_, before, where),
              fmt::format("lower train.learning_rate, raise train.warmup_steps or lower "
                          "train.grad_clip; then start again{}",
                          how));
}

}  // namespace folio
