#include "folio/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
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
#include "folio/train/buckets.h"
#include "folio/train/evaluate.h"

namespace folio {

namespace {

// Thrown between the operations of a step that is not to be made.
struct StepDropped {};

// The settings with their context, which are valid then.
TrainConfig SettingsOfRun(const GptConfig& model, TrainConfig config) {
  config.context = ContextOf(model, config);
  config.Validate("settings");
  return config;
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
    : config_(SettingsOfRun(model, config)),
      run_(std::move(run)),
      hooks_(std::move(hooks)),
      ranks_(group != nullptr && !group->alone() ? group : nullptr),
      watched_(backend),
      weights_(ParamTable(model, config.lora, ShardOfRank(model, config, ranks_.group()),
                          backend.memory().row_multiple()),
               Dtype::kF32, ParamPart::kAll, backend.memory()),
      train_step_(watched_, weights_, config.batch_size, config_.context,
                  PassOptionsOf(config, model, backend, data.info().chat.has_value()),
                  ParallelismOf(config, ranks_.group()), OptimizerSettingsOf(config)),
      layer_norms_(backend, weights_, train_step_.tensor_communicator()),
      batches_(data, config_),
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
  state_.seed = config.seed;
  if (batches_.torch()) {
    InitWeightsLikeTorch(weights_, *batches_.torch());
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
    if (!std::less<>()(at, x.address()) && std::less<>()(at, x.address() + x.bytes())) {
      return info.name;
    }
  }
  const std::string name = train_step_.GradientAt(at);
  return name.empty() ? "" : "gradient of " + name;
}

// The micro-batch that this rank computes next: the turn-th of its own of this step.
void Trainer::FetchBatch(int64_t turn) {
  if (batches_.torch() && turn == 0) state_.torch_before_batch = batches_.torch()->state();
  batches_.Fetch(state_, train_step_.parallelism().MicroBatch(turn));
}

// Begins the gradient of the step.
void Trainer::Accumulate() {
  const int64_t turns = train_step_.parallelism().micro_batches;
  const double scale = 1.0 / static_cast<double>(batches_.Targets(state_));
  step_losses_.clear();
  train_step_.Begin();
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t micro = train_step_.parallelism().MicroBatch(turn);
    const Batch& batch = batches_.batch();
    train_step_.Accumulate(batch.inputs, batch.targets, scale,
                           {.on = true,
                            .seed = static_cast<uint64_t>(config_.seed),
                            .step = static_cast<uint64_t>(state_.step),
                            .first_sequence = micro * config_.batch_size},
                           batch.begins);
    step_losses_.push_back(0);
    step_losses_.push_back(static_cast<double>(batch.CountTargets()));
    if (turn + 1 < turns) FetchBatch(turn + 1);
  }
}

// Waits for the gradient; returns the mean loss of the targets of the step.
double Trainer::MeanStepLoss() {
  const std::span<const double> losses = train_step_.Losses();
  for (size_t i = 0; i < losses.size(); ++i) step_losses_[2 * i] = losses[i];
  return MeanLoss(step_losses_, train_step_.data_communicator(), config_.reduce_every);
}

void Trainer::Sample() {
  train_step_.WaitForWeights();
  std::optional<GptWeights> whole;
  if (!train_step_.tensor_communicator().alone()) {
    if (ranks_.first()) {
      whole.emplace(weights_.table().Whole(), Dtype::kF32, ParamPart::kAll, watched_.memory());
    }
    GatherParts(*ranks_.group(), weights_.table(), weights_.flat(), PartHeld::kAll,
                whole ? &*whole : nullptr);
    if (!ranks_.first()) return;
  }
  if (hooks_.on_sample) hooks_.on_sample(state_.step, whole ? *whole : weights_);
}

std::optional<StepMetrics> Trainer::TakeStep() {
  const double begin = SteadySeconds();
  const double waited = ranks_.seconds_waited();
  const int64_t tokens = config_.tokens_per_step();
  StepMetrics metrics{.step = state_.step};
  try {
    if (hooks_.abandon_requested && ranks_.group() == nullptr && !batches_.from_torch()) {
      watched_.Watch([this] {
        if (hooks_.abandon_requested()) throw StepDropped{};
      });
    }
    Accumulate();
    watched_.Watch({});
  } catch (const StepDropped&) {
    watched_.Watch({});
    return {};
  }
  metrics.grad_norm = train_step_.Norm();
  metrics.loss = MeanStepLoss();
  const bool measure = hooks_.layer_norms_every > 0 && state_.step % hooks_.layer_norms_every == 0;
  if (std::string lost = JudgeAndUpdate(train_step_, config_, state_.health, metrics,
                                        measure ? &layer_norms_ : nullptr);
      !lost.empty()) {
    rollback_.Lose(std::move(lost), state_.step + 1 - state_.health.skipped_in_a_row);
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
  metrics.rolled_back = rollback_.TakeNote();
  metrics.tokens_per_second = static_cast<double>(tokens) / seconds;
  Stamp(metrics);
  state_.evaluation.reset();
  return metrics;
}

// Adds what is known after any step: tokens and time so far, and the evaluation before it.
void Trainer::Stamp(StepMetrics& metrics) const {
  metrics.tokens = state_.tokens;
  metrics.seconds = clock_.Seconds();
  metrics.time = std::round(WallSeconds() * 1e3) / 1e3;
  if (!state_.evaluation) return;
  metrics.train_eval_loss = state_.evaluation->train_loss;
  metrics.val_loss = state_.evaluation->val_loss;
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

bool Trainer::Evaluate() {
  const double begin = clock_.Now();
  const auto stop_asked = [this] {
    Poll();
    return StopFlagged();
  };
  state_.evaluation = batches_.Evaluate(
      train_step_.pass(), weights_.params(), state_.step == 0 && config_.first_eval_is_short(),
      stop_asked, hooks_.on_evaluation_progress, train_step_.data_communicator());
  if (!state_.evaluation) return false;
  for (const double loss : {state_.evaluation->train_loss, state_.evaluation->val_loss}) {
    if (!state_.health.BlownUp(loss, weights_.config().vocab_size)) continue;
    rollback_.Lose(fmt::format("the loss of an evaluation is {}", loss),
                   state_.step - state_.health.skipped_in_a_row);
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
  if (state_.step > 0 &&
      state_.CountEvaluation(state_.evaluation->val_loss, config_.patience > 0)) {
    policy_.MarkBest();
  }
  return true;
}

TrainResult Trainer::Run() {
  if (const auto steps = clock_.Begin(config_, batches_.worthwhile_steps(), state_))
    SetSteps(*steps);
  if (ranks_.first()) {
    log_.emplace(run_, state_.step);
    if (config_.lora.on() && !config_.saves_adapters() && !policy_.begun()) {
      policy_.checkpoints().WriteBase(weights_);
    }
  }
  FetchBatch(0);
  // A resumed generator has drawn the batch again; what it drew after it comes next.
  if (batches_.torch() && state_.torch) batches_.torch()->set_state(*state_.torch);
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
    StepMetrics last{.step = state_.step, .ended_by = ended_by};
    Stamp(last);
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

// The clock has decided how many steps a run with a budget makes.
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

// Restores the parameters, and the state of the optimizer and of the run.
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
  train_step_.WeightsChanged();
  state_ = LoadTrainState(checkpoint, weights_.table(), train_step_.optimizer());
  policy_.Resumed(state_, checkpoint);
  if (batches_.torch()) {
    if (!state_.torch) {
      throw InputError(
          fmt::format("{}: the run was started without --rng torch", checkpoint.string()), "",
          "resume it with --rng folio");
    }
    batches_.torch()->set_state(*state_.torch_before_batch);
  }
}

// Begins to write RUN/best, if that is due, and RUN/last, if that is asked for and not there.
void Trainer::BeginSave(bool asked) {
  const bool last = policy_.LastMissing(state_, asked);
  if (!last && !policy_.best_due()) return;
  policy_.Finish(state_);
  if (batches_.torch()) state_.torch = batches_.torch()->state();
  if (last && log_) log_->Sync();  // the checkpoint stands for its lines
  train_step_.WaitForWeights();
  ranks_.RequireSameBytes(weights_.flat(), train_step_.tensor_communicator().size(), state_.step,
                          policy_.Newest("the last good"));
  policy_.Begin(state_, last);
}

// Writes the last checkpoint; throws if that is impossible.
void Trainer::SaveToEnd() {
  policy_.Finish(state_);
  BeginSave(true);
  policy_.FinishLast(state_);
}

// Returns to the newest checkpoint whose next step was made, and skips the data since then.
bool Trainer::RollBackIfLost() {
  if (!rollback_.due()) return false;
  policy_.Finish(state_);
  const bool allowed = !batches_.from_torch() && state_.rollbacks < config_.max_rollbacks;
  const TrainState before = state_;
  Load(rollback_.Checkpoint(run_, ranks_.group(), state_, allowed));
  rollback_.Finish(before, state_);
  policy_.RolledBack(state_);
  if (ranks_.first()) log_.emplace(run_, state_.step);
  if (hooks_.on_rollback) hooks_.on_rollback(before.step, state_.step, rollback_.note());
  FetchBatch(0);
  return true;
}

}  // namespace folio
