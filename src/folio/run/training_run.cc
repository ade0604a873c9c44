#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/data/conversations.h"
#include "folio/data/dataset.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/run/plan.h"
#include "folio/run/prepared_run.h"
#include "folio/run/run_config.h"
#include "folio/run/run_directory.h"
#include "folio/run/watchdog.h"
#include "folio/term/console.h"
#include "folio/term/signals.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/streaming.h"
#include "folio/text/tokenizer.h"
#include "folio/train/tensorboard.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Turns as people read them: "user: Who are you?\nassistant: ".
std::string TurnsText(const Tokenizer& tokenizer, const ChatFormat& format,
                      std::span<const int32_t> ids) {
  std::string text;
  StreamingDecoder decoder(tokenizer);
  for (const int32_t id : ids) {
    std::string_view role;
    for (const ChatRole one : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
      if (id == format.RoleToken(one)) role = ChatRoleName(one);
    }
    if (!role.empty()) {
      text += fmt::format("{}: ", role);
    } else if (id == format.end) {
      text += decoder.Flush() + "\n";
    } else {
      text += decoder.Add(id);
    }
  }
  return text;
}

// Does what training goes on without: a warning tells of what fails.
template <class F>
void TryTo(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

// Keeps what a run directory holds beside the trainer's own files: samples.jsonl, and tensorboard/
// with log.tensorboard.
class RunRecorder {
 public:
  // The run has trained `first_step` steps before: samples of later ones, which will come again,
  // are dropped. Without a tokenizer there are no samples.
  RunRecorder(const PreparedRun& run, int64_t first_step) : run_(run), inside_(dir()) {
    if (run.tokenizer != nullptr && config().log.sample_every > 0) MakePrompt();
    // A sample of a step comes before the checkpoint of that step.
    CutLines(dir() / kSamplesFile, first_step + 1);
    if (!config().log.tensorboard) return;
    tensorboard_.emplace(dir() / kTensorBoardDir);
    if (first_step > 0) tensorboard_->Restart(first_step, WallSeconds());
  }

  // Records a step, as metrics.jsonl has it.
  void Record(const StepMetrics& m) {
    ToTensorBoard([&](TensorBoardWriter& events) {
      const double now = WallSeconds();
      const auto put = [&](const char* tag, const std::optional<double>& value) {
        if (value) events.Scalar(tag, m.step, *value, now);
      };
      put("loss", m.loss);
      put("lr", m.lr);
      put("grad_norm", m.grad_norm);
      put("tokens_per_second", m.tokens_per_second);
      put("train_eval_loss", m.train_eval_loss);
      put("val_loss", m.val_loss);
      if (m.val_loss) events.Flush();
    });
  }

  // Writes a sample and returns its text, without the prompt. On conversations it is an answer: to
  // log.sample_prompt, or to the first held-out question.
  std::string Sample(int64_t step, const GptWeights& weights) {
    Generator generator(*run_.backend, weights);
    GenerateOptions options{.sampling = {.seed = static_cast<uint64_t>(config().train.seed)},
                            .max_tokens = config().log.sample_tokens,
                            .truncate = true};
    const std::optional<ChatData>& chat = run_.data->info().chat;
    if (chat && chat->end) options.stop_tokens = {*chat->end};
    const GeneratedText written = GenerateText(
        generator, *run_.tokenizer, prompt_ids_, options, static_cast<uint64_t>(step),
        [](auto) { return true; }, chat_ ? &*chat_ : nullptr);
    const Json line = {
        {"event", "sample"}, {"step", step}, {"prompt", prompt_}, {"text", written.text}};
    if (samples_ == nullptr) samples_ = std::make_unique<LineFile>(dir() / kSamplesFile);
    samples_->Write(line.dump() + "\n");
    samples_->Sync();  // the checkpoint that comes after it knows nothing of samples
    ToTensorBoard([&](TensorBoardWriter& events) {
      // A block of code in Markdown, so that line breaks stay.
      const std::string block = "    " + Join(Split(prompt_ + written.text, '\n'), "\n    ");
      events.Text("sample", step, block, WallSeconds());
      events.Flush();
    });
    return written.text;
  }

  // The text that samples go on from, as people read it.
  const std::string& prompt() const { return prompt_; }

  // Throws a kRuntime Error if samples wait for room on the disk in vain.
  void End(const TrainResult& result) {
    if (result.evaluation) {
      Record({.step = result.step,
              .train_eval_loss = result.evaluation->train_loss,
              .val_loss = result.evaluation->val_loss});
    }
    ToTensorBoard([](TensorBoardWriter& events) { events.Flush(); });
    if (samples_ != nullptr) samples_->Finish();
  }

 private:
  const RunConfig& config() const { return run_.config(); }
  const fs::path& dir() const { return run_.options.out; }

  void MakePrompt() {
    const Dataset& data = *run_.data;
    const Tokenizer& tokenizer = *run_.tokenizer;
    const bool chat = data.info().chat.has_value();
    try {
      chat_ = FindChatEncoder(tokenizer);
    } catch (const Error&) {  // a model with a template that folio does not know continues texts
      if (chat) throw;
    }
    prompt_ = config().log.sample_prompt;
    if (chat && chat_) {
      if (prompt_.empty()) {
        prompt_ids_ = FirstQuestion(data.val(), data.val_chats(), config().train.context);
      } else {
        const Conversation asked{.messages = {{ChatRole::kUser, prompt_}}};
        chat_->Encode(tokenizer, asked, /*ask=*/true, "log.sample_prompt", prompt_ids_);
      }
      const ChatFormat* format = chat_->format();
      prompt_ = format != nullptr ? TurnsText(tokenizer, *format, prompt_ids_)
                                  : tokenizer.DecodeText(prompt_ids_);
    }
    if (prompt_ids_.empty()) prompt_ids_ = PromptTokens(tokenizer, prompt_);
  }

  // Training is worth more than its event files: without room they end, and it goes on.
  template <class F>
  void ToTensorBoard(const F& write) {
    if (!tensorboard_) return;
    try {
      write(*tensorboard_);
    } catch (const Error& error) {
      LogWarning(
          fmt::format("cannot write events for TensorBoard: {}: {}", error.what(), error.cause()));
      tensorboard_.reset();
    }
  }

  const PreparedRun& run_;
  GuardedDirectory inside_;
  std::string prompt_;
  std::vector<int32_t> prompt_ids_;
  std::optional<ChatEncoder> chat_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::unique_ptr<LineFile> samples_;  // from the first one on
};

// Tells what a training run does: the plan, the progress line, a note for each evaluation and
// sample, and with --json an event a line as the result.
class TrainReport {
 public:
  TrainReport(const PreparedRun& run, Console& console)
      : run_(run), console_(console), progress_(console, run.options.progress) {
    const std::string plan = run.preview->Plan();
    console_.Note(plan.substr(0, plan.size() - 1));
  }

  // The run has trained `first_step` steps before; the preview has probed the machine.
  void Begin(int64_t first_step) {
    console_.Note(run_.preview->Estimate());
    Event(run_.preview->Event());
    if (first_step > 0) console_.Note(fmt::format("resuming at step {}", first_step));
  }

  // A run that was to go on has all its steps behind it.
  void NothingToDo(int64_t step) {
    console_.Note(fmt::format("the run has completed its {} steps; continue with --max-steps {}",
                              WithCommas(step), 2 * step));
    Event({{"event", "done"}, {"schema", 1}, {"step", step}, {"run", run_.options.out.string()}});
  }

  void Step(const StepMetrics& m) {
    constexpr double kMemory = 0.95;
    if (!m.skipped.empty()) return Skipped(m);
    mean_loss_ = kMemory * mean_loss_ + (1 - kMemory) * *m.loss;
    mean_weight_ = kMemory * mean_weight_ + (1 - kMemory);
    const int64_t done = m.step + 1;
    const double tokens =
        static_cast<double>(run_.config().train.batch_size * run_.config().train.grad_accumulation *
                            run_.config().train.context);
    rate_.Add(1, tokens / *m.tokens_per_second);
    trained_tokens_ += tokens;
    trained_seconds_ += tokens / *m.tokens_per_second;
    const int64_t every = run_.config().log.every;
    const bool milestone =
        (every > 0 && done % every == 0) || done == run_.config().train.max_steps;
    if (!progress_.Due(milestone)) return;
    const double eta = rate_.Eta(static_cast<double>(run_.config().train.max_steps - done));
    ProgressState state{"step", done, run_.config().train.max_steps, {}};
    const double mean = mean_loss_ / mean_weight_;
    state.fields.push_back(
        {"loss", fmt::format("{:.4f}", *m.loss), fmt::format("loss {:.4f}", mean)});
    if (rate_.known()) {
      state.fields.push_back(
          {"eta_seconds", fmt::format("{:.0f}", eta), fmt::format("eta {}", HumanSeconds(eta))});
    }
    if (val_loss_) {
      state.fields.push_back({"val_loss", fmt::format("{:.4f}", *val_loss_),
                              fmt::format("val {:.4f}@{}", *val_loss_, val_step_)});
      state.fields.push_back({"val_step", fmt::format("{}", val_step_), {}});
    }
    state.fields.push_back({"tokens_per_second", fmt::format("{:.0f}", *m.tokens_per_second),
                            fmt::format("{} tok/s", HumanCount(*m.tokens_per_second))});
    state.fields.push_back({"lr", fmt::format("{:.4g}", *m.lr), fmt::format("lr {:.3g}", *m.lr)});
    state.fields.push_back({"grad_norm", fmt::format("{:.4f}", *m.grad_norm),
                            fmt::format("|g| {:.2f}", *m.grad_norm)});
    state.fields.push_back(
        {"model_flops_per_second",
         fmt::format("{:.4g}", *m.tokens_per_second * run_.preview->work().flops_per_token),
         {}});
    progress_.Show(state, milestone);
  }

  void Evaluating(int64_t done, int64_t total) {
    if (progress_.Due()) progress_.Show({"evaluation batch", done, total, {}});
  }

  void RolledBack(int64_t from, int64_t to, const std::string& why) {
    progress_.Finish();
    console_.Note(
        fmt::format("returning to step {} and continuing with data not seen yet; {}", to, why));
    Event({{"event", "rollback"}, {"step", to}, {"from", from}, {"why", why}});
  }

  void Evaluated(int64_t step, const Evaluation& evaluation) {
    val_loss_ = evaluation.val_loss;
    val_step_ = step;
    progress_.Finish();
    console_.Note(fmt::format("step {}: training loss {:.4f}, held-out loss {:.4f}", step,
                              evaluation.train_loss, evaluation.val_loss));
    Event({{"event", "evaluation"},
           {"step", step},
           {"train_eval_loss", evaluation.train_loss},
           {"val_loss", evaluation.val_loss}});
  }

  void Saved(int64_t step, const fs::path& path) {
    Event({{"event", "checkpoint"}, {"step", step}, {"path", path.string()}});
  }

  void Sampled(int64_t step, const std::string& prompt, const std::string& text) {
    progress_.Finish();
    console_.Note(fmt::format("--- sample after step {}\n{}", step,
                              Styled(console_.err(), Style::kDim, prompt + text)));
    Event({{"event", "sample"}, {"step", step}, {"prompt", prompt}, {"text", text}});
  }

  void End(const TrainResult& result) {
    progress_.Finish();
    const std::string model = run_.options.out.string();
    const bool taught = !run_.config().train.init.empty() && result.first_val_loss;
    const std::string advice = AdviceAfter(run_.config(), result);
    if (console_.json()) {
      Json done{{"event", "done"},
                {"schema", 1},
                {"step", result.step},
                {"tokens", result.tokens},
                {"seconds", result.seconds},
                {"stopped", result.stopped},
                {"skipped_steps", result.skipped},
                {"rollbacks", result.rollbacks},
                {"peak_memory_bytes", PeakMemoryBytes()},
                {"run", model}};
      if (!result.ended_by.empty()) done["ended_by"] = result.ended_by;
      if (trained_seconds_ > 0) {
        const double speed = trained_tokens_ / trained_seconds_;
        done["tokens_per_second"] = speed;
        done["model_flops_per_second"] = speed * run_.preview->work().flops_per_token;
      }
      if (result.evaluation) {
        done["train_eval_loss"] = result.evaluation->train_loss;
        done["val_loss"] = result.evaluation->val_loss;
      }
      if (result.first_val_loss) done["first_val_loss"] = *result.first_val_loss;
      if (result.best_val_loss) {
        done["best_val_loss"] = *result.best_val_loss;
        done["best_step"] = result.best_step;
      }
      if (!advice.empty()) done["advice"] = advice;
      Event(done);
      return;
    }
    std::string text =
        fmt::format("{} {} steps, {} tokens in {}\n", result.stopped ? "stopped after" : "trained",
                    result.step, WithCommas(result.tokens), HumanSeconds(result.seconds));
    text += WhyEnded(result);
    if (result.skipped > 0) {
      text += fmt::format("{} steps skipped: loss or gradient not finite, or a spike\n",
                          WithCommas(result.skipped));
    }
    if (result.rollbacks > 0) {
      text += fmt::format("returned to a checkpoint {} times\n", result.rollbacks);
    }
    if (trained_seconds_ > 0) {
      const double speed = trained_tokens_ / trained_seconds_;
      text += fmt::format("{} tokens/s in training; peak memory {}\n",
                          WithCommas(static_cast<int64_t>(speed)),
                          HumanBytes(static_cast<double>(PeakMemoryBytes())));
    }
    if (result.evaluation) {
      text += fmt::format(
          "held-out loss {}{:.4f} (training {:.4f})\n",
          taught ? fmt::format("{:.4f} before training, now ", *result.first_val_loss) : "",
          result.evaluation->val_loss, result.evaluation->train_loss);
    }
    if (result.best_val_loss) {
      text += fmt::format("best held-out loss {:.4f} at step {}: {}\n", *result.best_val_loss,
                          result.best_step, (run_.options.out / kBestDir).string());
    }
    text += fmt::format("run: {}\n", model);
    console_.Result(text);
    if (!advice.empty()) LogWarning(advice);
    console_.Note(NextCommand(result));
  }

 private:
  void Skipped(const StepMetrics& m) {
    progress_.Finish();
    console_.Note(fmt::format(
        "step {} skipped: {}{}; loss {:.4g}, |g| {:.4g}", m.step, m.skipped,
        m.skipped_parameter.empty() ? "" : fmt::format(", first in {}", m.skipped_parameter),
        *m.loss, *m.grad_norm));
    Json event{{"event", "skipped"}, {"step", m.step}, {"reason", m.skipped}};
    if (!m.skipped_parameter.empty()) event["parameter"] = m.skipped_parameter;
    Event(event);
  }

  // With --json each event is a line of the result.
  void Event(const Json& event) {
    if (console_.json()) console_.Result(event.dump() + "\n");
  }

  std::string WhyEnded(const TrainResult& result) const {
    const TrainConfig& train = run_.config().train;
    if (result.ended_by == "patience") {
      return fmt::format("stopped early: no improvement in {} evaluations (--patience)\n",
                         train.patience);
    }
    if (result.ended_by == "max_tokens") {
      return fmt::format("limit reached: train.max_tokens is {}\n", WithCommas(train.max_tokens));
    }
    if (result.ended_by == "max_time") {
      return fmt::format("limit reached: --max-time is {}\n", train.max_time);
    }
    return "";
  }

  std::string NextCommand(const TrainResult& result) const {
    const std::string run = ShellWord(run_.options.out.string());
    const bool complete = result.ended_by == "patience" || result.ended_by == "max_tokens";
    if (result.stopped && !complete)
      return fmt::format("continue with: folio train --resume --out {}", run);
    return fmt::format("next: folio generate --model {}{}", run, run_.tokenizer ? "" : " --ids 0");
  }

  const PreparedRun& run_;
  Console& console_;
  Progress progress_;
  RateMeter rate_;
  double trained_tokens_ = 0, trained_seconds_ = 0;  // in this process, without evaluations
  double mean_loss_ = 0, mean_weight_ = 0;
  std::optional<double> val_loss_;
  int64_t val_step_ = 0;
};

// A prepared run as it trains, with all that looks on.
class RunInTraining {
 public:
  RunInTraining(PreparedRun& run, const RunHooks& hooks) : run_(run), hooks_(hooks) {}

  TrainResult Train() {
    if (Console* console = run_.ranks.console(); console != nullptr) {
      report_.emplace(run_, *console);
    }
    // The model that is measured is gone before that of the run takes its memory.
    run_.ProbePreview();
    const std::optional<FoundModel>& from = run_.initial ? run_.initial : run_.base;
    Trainer trainer(*run_.backend, config().model, config().train, data(), dir(), Hooks(),
                    tokenizer(), from ? &from->model : nullptr, run_.ranks.group(),
                    run_.base_sha256);
    run_.initial.reset();
    run_.base.reset();
    if (run_.resume && NothingToDo(trainer)) return {.step = trainer.step()};
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

 private:
  const fs::path& dir() const { return run_.options.out; }
  RunConfig& config() const { return run_.config(); }
  const Dataset& data() const { return *run_.data; }
  const Tokenizer* tokenizer() const { return run_.tokenizer.get(); }
  bool first() const { return run_.ranks.first(); }
  bool StopAsked() const {
    return StopRequested() != 0 || (hooks_.stop_requested && hooks_.stop_requested());
  }

  // Every rank asks its own process to stop, and takes part in what all measure together; the first
  // alone tells and records.
  TrainerHooks Hooks() {
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
    all.abandon_requested = hooks_.abandon_requested;
    all.checkpoint_requested = [] { return TakeCheckpointRequest(); };
    all.on_plan = [this](int64_t steps) { FollowPlan(steps); };
    all.budget_began = run_.began;
    return all;
  }

  TrainerHooks HooksOfFirst() {
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

  void Step(const StepMetrics& metrics) {
    watchdog_->Step();
    recorder_->Record(metrics);
    if (report_) report_->Step(metrics);
    if (hooks_.on_step) hooks_.on_step(metrics);
    if (!check_) return;
    // Data is looked at before the next checkpoint is begun, and the last one waits for it.
    const bool last = metrics.step + 1 >= config().train.max_steps;
    if (last && !check_->done()) {
      run_.ranks.Note("verifying the hashes of all tokens before the last checkpoint");
    }
    if (last) check_->Wait([this] { return StopAsked(); });
    check_->Look();
  }

  // Goes on from the checkpoint of the run; true if that is its end.
  bool NothingToDo(Trainer& trainer) {
    if (first()) RepairLines(dir() / kMetricsFile);
    run_.ranks.WaitForFirst();
    trainer.Resume(run_.checkpoint);
    config().train.max_steps = trainer.max_steps();
    if (!trainer.ended() || trainer.step() < trainer.max_steps()) return false;
    if (first()) DrawLoss();
    if (report_) report_->NothingToDo(trainer.step());
    return true;
  }

  // The run takes its place, and all that looks on begins to.
  void Begin(const Trainer& trainer) {
    const fs::path parts = run_.Parts();
    // Not before: settings that the run refuses may not take the place of its own.
    WriteFileAtomically(parts / kRunConfigFile, run_.settings.layers.ToToml());
    told_steps_ = config().train.max_steps;
    const ParamTable table(config().model, config().train.lora);
    const int64_t saved =
        config().train.saves_adapters() ? table.trained_size() : table.parameters();
    const uint64_t checkpoint =
        sizeof(float) *
        static_cast<uint64_t>(saved + StateElements(OptimizerSettingsOf(config().train), table));
    std::error_code unknown;
    RequireRoom(dir(), fs::space(dir(), unknown), run_.new_run ? run_.new_run->ReplacedBytes() : 0,
                checkpoint, config().train.keep_last + 1);
    CheckFingerprint(parts, data());
    const bool own = data().dir() == (parts / kRunDataDir).string();
    if (run_.new_run) run_.new_run->Begun();
    const fs::path data_dir = own ? dir() / kRunDataDir : fs::path(data().dir());
    watchdog_.emplace(dir(), checkpoint, data(), data_dir);
    if (data().bytes() > run_.options.hashed_at_once && data().hashed()) {
      run_.ranks.Note(fmt::format("verifying the hashes of {} of tokens during training",
                                  HumanBytes(static_cast<double>(data().bytes()))));
      check_.emplace(data_dir.string());
    }
    if (report_) report_->Begin(trainer.step());
    Record(trainer.step());
    if (run_.finite == nullptr) return;
    run_.finite->Watch({.when = [&trainer] { return fmt::format("step {}", trainer.step()); },
                        .name_of = [&trainer](const std::byte* at) { return trainer.NameOf(at); }});
  }

  void Record(int64_t first_step) { recorder_.emplace(run_, first_step); }

  // The clock has corrected how many steps there are: for whoever reads the settings of the run,
  // where it is no trifle, or the `last` word.
  void FollowPlan(int64_t steps, bool last = false) {
    constexpr int64_t kTrifle = 20;  // one of so many
    config().train.max_steps = steps;
    const int64_t change = std::abs(steps - told_steps_);
    if (change <= (last ? 0 : told_steps_ / kTrifle)) return;
    told_steps_ = steps;
    TryTo([&] { WriteFileAtomically(dir() / kRunConfigFile, run_.settings.layers.ToToml()); });
  }

  // A figure that cannot be written can be drawn again.
  void DrawLoss() const {
    TryTo([&] { DrawLossFigure(dir()); });
  }

  PreparedRun& run_;
  const RunHooks& hooks_;
  int64_t told_steps_ = 0;  // train.max_steps as RUN/config.toml has it
  std::optional<RunRecorder> recorder_;
  std::optional<TrainReport> report_;
  std::optional<Watchdog> watchdog_;
  std::optional<DataCheck> check_;
};

}  // namespace

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : run_(std::make_unique<PreparedRun>(PrepareRun(settings, std::move(options)))) {}

TrainingRun::~TrainingRun() = default;

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  return RunInTraining(*run_, hooks).Train();
}

}  // namespace folio
