#include "folio/commands/train/train_screen.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/run/plan.h"

namespace folio {

TrainScreen::TrainScreen(const TrainingRun& run, const RunSettings& settings,
                         std::filesystem::path dir, Console& console, ProgressMode mode)
    : run_(run),
      settings_(settings),
      dir_(std::move(dir)),
      console_(console),
      progress_(console, mode) {
  const std::string plan = run.preview().Plan();
  console_.Note(plan.substr(0, plan.size() - 1));
}

RunHooks TrainScreen::Hooks() {
  return {
      .on_begin = [this](int64_t step) { Begin(step); },
      .on_step = [this](const StepMetrics& metrics) { Step(metrics); },
      .on_evaluation_progress = [this](int64_t done, int64_t total) { Evaluating(done, total); },
      .on_evaluation = [this](int64_t step, const Evaluation& e) { Evaluated(step, e); },
      .on_sample = [this](int64_t step, const std::string& prompt,
                          const std::string& text) { Sampled(step, prompt, text); },
      .on_checkpoint = [this](int64_t step,
                              const std::filesystem::path& path) { Saved(step, path); },
      .on_rollback = [this](int64_t from, int64_t to,
                            const std::string& why) { RolledBack(from, to, why); }};
}

void TrainScreen::Begin(int64_t first_step) {
  begun_ = true;
  console_.Note(run_.preview().Estimate());
  Event(run_.preview().Event());
  if (first_step > 0) console_.Note(fmt::format("resuming at step {}", first_step));
}

// The run that was to go on has completed all its steps.
void TrainScreen::NothingToDo(int64_t step) {
  console_.Note(fmt::format("the run has completed its {} steps; continue with --max-steps {}",
                            WithCommas(step), 2 * step));
  Event({{"event", "done"}, {"schema", 1}, {"step", step}, {"run", dir_.string()}});
}

void TrainScreen::Step(const StepMetrics& m) {
  constexpr double kMemory = 0.95;
  if (!m.skipped.empty()) return Skipped(m);
  mean_loss_ = kMemory * mean_loss_ + (1 - kMemory) * *m.loss;
  mean_weight_ = kMemory * mean_weight_ + (1 - kMemory);
  const int64_t done = m.step + 1;
  const TrainConfig& train = settings_.config.train;
  const auto tokens =
      static_cast<double>(train.batch_size * train.grad_accumulation * train.context);
  rate_.Add(1, tokens / *m.tokens_per_second);
  trained_tokens_ += tokens;
  trained_seconds_ += tokens / *m.tokens_per_second;
  const int64_t every = settings_.config.log.every;
  const bool milestone = (every > 0 && done % every == 0) || done == train.max_steps;
  if (!progress_.Due(milestone)) return;
  const double eta = rate_.Eta(static_cast<double>(train.max_steps - done));
  ProgressState state{"step", done, train.max_steps, {}};
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
  state.fields.push_back(
      {"grad_norm", fmt::format("{:.4f}", *m.grad_norm), fmt::format("|g| {:.2f}", *m.grad_norm)});
  state.fields.push_back(
      {"model_flops_per_second",
       fmt::format("{:.4g}", *m.tokens_per_second * run_.preview().work().flops_per_token),
       {}});
  progress_.Show(state, milestone);
}

void TrainScreen::Evaluating(int64_t done, int64_t total) {
  if (progress_.Due()) progress_.Show({"evaluation batch", done, total, {}});
}

void TrainScreen::RolledBack(int64_t from, int64_t to, const std::string& why) {
  progress_.Finish();
  console_.Note(
      fmt::format("returning to step {} and continuing with data not seen yet; {}", to, why));
  Event({{"event", "rollback"}, {"step", to}, {"from", from}, {"why", why}});
}

void TrainScreen::Evaluated(int64_t step, const Evaluation& evaluation) {
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

void TrainScreen::Saved(int64_t step, const std::filesystem::path& path) {
  Event({{"event", "checkpoint"}, {"step", step}, {"path", path.string()}});
}

void TrainScreen::Sampled(int64_t step, const std::string& prompt, const std::string& text) {
  progress_.Finish();
  console_.Note(fmt::format("--- sample after step {}\n{}", step,
                            Styled(console_.err(), Style::kDim, prompt + text)));
  Event({{"event", "sample"}, {"step", step}, {"prompt", prompt}, {"text", text}});
}

void TrainScreen::End(const TrainResult& result) {
  if (!begun_) return NothingToDo(result.step);
  progress_.Finish();
  const std::string advice = AdviceAfter(settings_.config, result);
  if (console_.json()) {
    Json done = DoneEvent(result);
    if (!advice.empty()) done["advice"] = advice;
    return Event(done);
  }
  console_.Result(DoneText(result));
  if (!advice.empty()) LogWarning(advice);
  console_.Note(NextCommand(result));
}

Json TrainScreen::DoneEvent(const TrainResult& result) const {
  Json done{{"event", "done"},
            {"schema", 1},
            {"step", result.step},
            {"tokens", result.tokens},
            {"seconds", result.seconds},
            {"stopped", result.stopped},
            {"skipped_steps", result.skipped},
            {"rollbacks", result.rollbacks},
            {"peak_memory_bytes", PeakMemoryBytes()},
            {"run", dir_.string()}};
  if (!result.ended_by.empty()) done["ended_by"] = result.ended_by;
  if (trained_seconds_ > 0) {
    const double speed = trained_tokens_ / trained_seconds_;
    done["tokens_per_second"] = speed;
    done["model_flops_per_second"] = speed * run_.preview().work().flops_per_token;
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
  return done;
}

std::string TrainScreen::DoneText(const TrainResult& result) const {
  const bool taught = !settings_.config.train.init.empty() && result.first_val_loss;
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
                        result.best_step, (dir_ / kBestDir).string());
  }
  text += fmt::format("run: {}\n", dir_.string());
  return text;
}

void TrainScreen::Skipped(const StepMetrics& m) {
  progress_.Finish();
  console_.Note(fmt::format(
      "step {} skipped: {}{}; loss {:.4g}, |g| {:.4g}", m.step, m.skipped,
      m.skipped_parameter.empty() ? "" : fmt::format(", first in {}", m.skipped_parameter), *m.loss,
      *m.grad_norm));
  Json event{{"event", "skipped"}, {"step", m.step}, {"reason", m.skipped}};
  if (!m.skipped_parameter.empty()) event["parameter"] = m.skipped_parameter;
  Event(event);
}

void TrainScreen::Event(const Json& event) {
  if (console_.json()) console_.Result(event.dump() + "\n");
}

std::string TrainScreen::WhyEnded(const TrainResult& result) const {
  const TrainConfig& train = settings_.config.train;
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

std::string TrainScreen::NextCommand(const TrainResult& result) const {
  const std::string run = ShellWord(dir_.string());
  const bool complete = result.ended_by == "patience" || result.ended_by == "max_tokens";
  if (result.stopped && !complete)
    return fmt::format("continue with: folio train --resume --out {}", run);
  return fmt::format("next: folio generate --model {}{}", run,
                     run_.has_tokenizer() ? "" : " --ids 0");
}

}  // namespace folio
