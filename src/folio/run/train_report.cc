#include "folio/run/train_report.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"

namespace folio {

TrainReport::TrainReport(Console& console, ProgressMode mode, const RunConfig& config,
                         std::filesystem::path run, const TrainPreview& preview, bool has_tokenizer)
    : console_(console),
      config_(config),
      run_(std::move(run)),
      preview_(preview),
      has_tokenizer_(has_tokenizer),
      progress_(console, mode) {
  const std::string plan = preview_.Plan();
  console_.Note(plan.substr(0, plan.size() - 1));
}

void TrainReport::Begin(int64_t first_step) {
  console_.Note(preview_.Estimate());
  Event(preview_.Event());
  if (first_step > 0) console_.Note(fmt::format("going on after step {}", first_step));
}

void TrainReport::NothingToDo(int64_t step) {
  console_.Note(fmt::format("the run has made its {} steps; --max-steps {} goes on",
                            WithCommas(step), 2 * step));
  Event(Json{{"event", "done"}, {"schema", 1}, {"step", step}, {"run", run_.string()}}.dump());
}

void TrainReport::Evaluating(int64_t done, int64_t total) {
  if (progress_.Due()) progress_.Show({"evaluation batch", done, total, {}});
}

void TrainReport::Saved(int64_t step, const std::filesystem::path& path) {
  Event(Json{{"event", "checkpoint"}, {"step", step}, {"path", path.string()}}.dump());
}

void TrainReport::Step(const StepMetrics& m) {
  constexpr double kMemory = 0.95;
  if (!m.skipped.empty()) return Skipped(m);
  mean_loss_ = kMemory * mean_loss_ + (1 - kMemory) * *m.loss;
  mean_weight_ = kMemory * mean_weight_ + (1 - kMemory);
  const int64_t done = m.step + 1;
  const double tokens = static_cast<double>(
      config_.train.batch_size * config_.train.grad_accumulation * config_.train.context);
  rate_.Add(1, tokens / *m.tokens_per_second);
  trained_tokens_ += tokens;
  trained_seconds_ += tokens / *m.tokens_per_second;
  const int64_t every = config_.log.every;
  const bool milestone = (every > 0 && done % every == 0) || done == config_.train.max_steps;
  if (!progress_.Due(milestone)) return;
  const double eta = rate_.Eta(static_cast<double>(config_.train.max_steps - done));
  ProgressState state{"step", done, config_.train.max_steps, {}};
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
       fmt::format("{:.4g}", *m.tokens_per_second * preview_.work().flops_per_token),
       {}});
  progress_.Show(state, milestone);
}

void TrainReport::Skipped(const StepMetrics& m) {
  progress_.Finish();
  console_.Note(fmt::format(
      "step {} skipped: {}{}; loss {:.4g}, |g| {:.4g}", m.step, m.skipped,
      m.skipped_parameter.empty() ? "" : fmt::format(", first in {}", m.skipped_parameter), *m.loss,
      *m.grad_norm));
  Json event{{"event", "skipped"}, {"step", m.step}, {"reason", m.skipped}};
  if (!m.skipped_parameter.empty()) event["parameter"] = m.skipped_parameter;
  Event(event.dump());
}

void TrainReport::RolledBack(int64_t from, int64_t to, const std::string& why) {
  progress_.Finish();
  console_.Note(fmt::format("back to step {}, and on with data not seen yet; {}", to, why));
  Event(Json{{"event", "rollback"}, {"step", to}, {"from", from}, {"why", why}}.dump());
}

void TrainReport::Evaluated(int64_t step, const Evaluation& evaluation) {
  val_loss_ = evaluation.val_loss;
  val_step_ = step;
  progress_.Finish();
  console_.Note(fmt::format("step {}: training loss {:.4f}, held-out loss {:.4f}", step,
                            evaluation.train_loss, evaluation.val_loss));
  Event(Json{{"event", "evaluation"},
             {"step", step},
             {"train_eval_loss", evaluation.train_loss},
             {"val_loss", evaluation.val_loss}}
            .dump());
}

void TrainReport::Sampled(int64_t step, const std::string& prompt, const std::string& text) {
  progress_.Finish();
  console_.Note(fmt::format("--- sample after step {}\n{}", step,
                            Styled(console_.err(), Style::kDim, prompt + text)));
  Event(Json{{"event", "sample"}, {"step", step}, {"prompt", prompt}, {"text", text}}.dump());
}

void TrainReport::Event(const std::string& json_line) {
  if (console_.json()) console_.Result(json_line + "\n");
}

void TrainReport::End(const TrainResult& result) {
  progress_.Finish();
  const std::string model = run_.string();
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
      done["model_flops_per_second"] = speed * preview_.work().flops_per_token;
    }
    if (result.evaluation) {
      done["train_eval_loss"] = result.evaluation->train_loss;
      done["val_loss"] = result.evaluation->val_loss;
    }
    if (result.best_val_loss) {
      done["best_val_loss"] = *result.best_val_loss;
      done["best_step"] = result.best_step;
    }
    Event(done.dump());
    return;
  }
  std::string text =
      fmt::format("{} {} steps, {} tokens in {}\n", result.stopped ? "stopped after" : "trained",
                  result.step, WithCommas(result.tokens), HumanSeconds(result.seconds));
  text += WhyEnded(result);
  if (result.skipped > 0) {
    text += fmt::format("{} of them skipped: loss or gradient was not finite, or a spike\n",
                        WithCommas(result.skipped));
  }
  if (result.rollbacks > 0) {
    text += fmt::format("went back to a checkpoint {} times\n", result.rollbacks);
  }
  if (trained_seconds_ > 0) {
    const double speed = trained_tokens_ / trained_seconds_;
    text += fmt::format("{} tokens/s in training; peak memory {}\n",
                        WithCommas(static_cast<int64_t>(speed)),
                        HumanBytes(static_cast<double>(PeakMemoryBytes())));
  }
  if (result.evaluation) {
    text += fmt::format("held-out loss {:.4f} (training {:.4f})\n", result.evaluation->val_loss,
                        result.evaluation->train_loss);
  }
  if (result.best_val_loss) {
    text += fmt::format("best held-out loss {:.4f} at step {}: {}\n", *result.best_val_loss,
                        result.best_step, (run_ / kBestDir).string());
  }
  text += fmt::format("run: {}\n", model);
  console_.Result(text);
  console_.Note(NextCommand(result));
}

std::string TrainReport::WhyEnded(const TrainResult& result) const {
  const TrainConfig& train = config_.train;
  if (result.ended_by == "patience") {
    return fmt::format("because {} evaluations in a row had no better held-out loss (patience)\n",
                       train.patience);
  }
  if (result.ended_by == "max_tokens") {
    return fmt::format("because train.max_tokens is {}\n", WithCommas(train.max_tokens));
  }
  if (result.ended_by == "max_time") {
    return fmt::format("because --max-time is {}\n", train.max_time);
  }
  return "";
}

std::string TrainReport::NextCommand(const TrainResult& result) const {
  const std::string run = ShellWord(run_.string());
  const bool complete = result.ended_by == "patience" || result.ended_by == "max_tokens";
  if (result.stopped && !complete) return fmt::format("go on: folio train --resume --out {}", run);
  return fmt::format("next: folio generate --model {}{}", run, has_tokenizer_ ? "" : " --ids 0");
}

}  // namespace folio
