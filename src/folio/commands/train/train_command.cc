#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/commands/prepare_progress.h"
#include "folio/commands/serve/program_page.h"
#include "folio/corpus/prepare.h"
#include "folio/io/json.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/preview.h"
#include "folio/run/training_run.h"
#include "folio/serve/page_runs.h"
#include "folio/serve/service.h"
#include "folio/term/console.h"

namespace folio {
namespace {

// The page of `folio serve` for one run, while this object exists.
class RunPage {
 public:
  RunPage(Console& console, const std::string& run, int port)
      : service_({.page = WithStop(ProgramPage({run}))}, [](const AccessLogEntry&) {}),
        serving_(service_, "127.0.0.1", port) {
    serving_.Begin();
    console.Note("training page: " + serving_.url() + PageUrlPath(run));
  }

 private:
  // Stops the run like Ctrl-C; a second one would end the process at once.
  static PageOptions WithStop(PageOptions page) {
    page.stop_training = [] {
      if (StopRequested() == 0) kill(getpid(), SIGINT);
    };
    return page;
  }

  Service service_;
  BackgroundServer serving_;
};

// Shows a training run on the console: its plan, the progress line, a note for each evaluation and
// sample, and with --json an event a line as the result.
class TrainScreen {
 public:
  // `settings` are those of the run, which trains in `dir`. All must outlive the object.
  TrainScreen(const TrainingRun& run, const RunSettings& settings, std::filesystem::path dir,
              Console& console, ProgressMode mode)
      : run_(run),
        settings_(settings),
        dir_(std::move(dir)),
        console_(console),
        progress_(console, mode) {
    const std::string plan = run.preview().Plan();
    console_.Note(plan.substr(0, plan.size() - 1));
  }

  // The hooks for TrainingRun::Train, which this must outlive.
  RunHooks Hooks() {
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

  // Shows the result of Train.
  void End(const TrainResult& result) {
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

 private:
  void Begin(int64_t first_step) {
    begun_ = true;
    console_.Note(run_.preview().Estimate());
    Event(run_.preview().Event());
    if (first_step > 0) console_.Note(fmt::format("resuming at step {}", first_step));
  }

  // The run that was to go on has completed all its steps.
  void NothingToDo(int64_t step) {
    console_.Note(fmt::format("the run has completed its {} steps; continue with --max-steps {}",
                              WithCommas(step), 2 * step));
    Event({{"event", "done"}, {"schema", 1}, {"step", step}, {"run", dir_.string()}});
  }

  void Step(const StepMetrics& m) {
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
    ProgressState state{"step", done, train.max_steps, {}};
    const double mean = mean_loss_ / mean_weight_;
    state.fields.push_back(
        {"loss", fmt::format("{:.4f}", *m.loss), fmt::format("loss {:.4f}", mean)});
    if (rate_.known()) {
      state.fields.push_back(rate_.EtaField(static_cast<double>(train.max_steps - done)));
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
         fmt::format("{:.4g}", *m.tokens_per_second * run_.preview().work().flops_per_token),
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

  void Saved(int64_t step, const std::filesystem::path& path) {
    Event({{"event", "checkpoint"}, {"step", step}, {"path", path.string()}});
  }

  void Sampled(int64_t step, const std::string& prompt, const std::string& text) {
    progress_.Finish();
    console_.Note(fmt::format("--- sample after step {}\n{}", step,
                              Styled(console_.err(), Style::kDim, prompt + text)));
    Event({{"event", "sample"}, {"step", step}, {"prompt", prompt}, {"text", text}});
  }

  Json DoneEvent(const TrainResult& result) const {
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

  std::string DoneText(const TrainResult& result) const {
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
                          WithCommas(static_cast<int64_t>(speed)), HumanBytes(PeakMemoryBytes()));
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

  void Event(const Json& event) {
    if (console_.json()) console_.Result(event.dump() + "\n");
  }

  std::string WhyEnded(const TrainResult& result) const {
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

  std::string NextCommand(const TrainResult& result) const {
    const std::string run = ShellWord(dir_.string());
    const bool complete = result.ended_by == "patience" || result.ended_by == "max_tokens";
    if (result.stopped && !complete)
      return fmt::format("continue with: folio train --resume --out {}", run);
    return fmt::format("next: folio generate --model {}{}", run,
                       run_.has_tokenizer() ? "" : " --ids 0");
  }

  const TrainingRun& run_;
  const RunSettings& settings_;
  std::filesystem::path dir_;
  Console& console_;
  Progress progress_;
  bool begun_ = false;
  RateMeter rate_;
  double trained_tokens_ = 0, trained_seconds_ = 0;  // in this process, without evaluations
  double mean_loss_ = 0, mean_weight_ = 0;
  std::optional<double> val_loss_;
  int64_t val_step_ = 0;
};

class TrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "train",
        .summary = "train a model on text, or on prepared tokens",
        .group = "model",
        .details =
            "A text is converted to tokens first: a file, a directory of files, JSON lines, a "
            "compressed file, or - for standard input (see folio data prepare --help). The run "
            "directory contains the settings, metrics.jsonl, loss.svg and two checkpoints: last/ "
            "for resuming, and best/ with the lowest held-out loss. Ctrl-C stops after the current "
            "step and saves; --resume continues the run.\n\n--resume auto is for supervisors such "
            "as systemd or Slurm: the same command starts the run, continues it, and exits with 0 "
            "once the run is complete. With --serve a page on this machine shows the run while it "
            "trains; folio serve --runs DIR also shows runs that have ended. Under mpirun or srun "
            "the ranks share the micro-batches of each step, and the run has the same bytes as "
            "with one process.\n\nTraining uses the CPU; there is no GPU backend yet.",
        .examples = {
            "folio train --data book.txt --out runs/book",
            "folio train --data input.txt --preset char-cpu --out runs/first",
            "folio train --data input.txt --out runs/tiny --set model.n_layer=2 "
            "--max-steps 500",
            "folio train --init runs/first --lora 8 --data more.txt --out runs/more",
            "folio train --resume --out runs/first --max-steps 4000",
            "folio train --resume auto --data book.txt --out runs/book",
            "mpirun -n 4 folio train --data book.txt --grad-accumulation 4 --out runs/book"}};
  }

  void AddFlags(Flags& flags) override {
    flags.List("--data", &options_.data,
               "a text, a directory of texts, - for standard input, or a directory of tokens; may "
               "be repeated for several texts",
               {.placeholder = "DIR|FILE", .meant = ""});
    flags.Value(Field{"out", &out_, "the run directory"}.WithFlag("-o,--out"),
                {.placeholder = "RUN", .required = true});
    AddPresetFlag(flags, &preset_);
    flags.SwitchOr("--resume", &resume_,
                   "continue from the last checkpoint of the run; auto: start the run if there is "
                   "no checkpoint",
                   {"auto"});
    flags.Switch("--overwrite", &options_.overwrite, "replace an existing run");
    flags.Switch("--dry-run", &options_.dry_run,
                 "check the settings and the data, print the plan, and train nothing");
    flags.Switch("--serve", &serve_, "show the run while it trains, on a web page on this machine");
    flags.Value(Field{"port", &port_, "port of the page; 0 chooses a free one", 0, 65535});
    simd_.Add(flags);
    flags.Settings(&settings_.layers, {"train", "lora", "data", "log"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    RefuseTogether(!resume_.empty() && options_.overwrite, "--resume", "--overwrite");
    Console& console = context.console;
    Group& group = JoinRanks(console, "folio train");
    simd_.Use();
    RequireSameSimd(group);
    options_.group = &group;
    options_.resume = resume_ == "yes";
    options_.begin_or_resume = resume_ == "auto";
    settings_.UsePreset(preset_);
    options_.out = out_;
    options_.sources = context.sources;
    options_.on_note = [&](const std::string& note) { console.Note(note); };
    options_.prepare = [&](const PrepareOptions& texts) {
      PrepareWithProgress(texts, console, context.progress_mode);
    };
    constexpr double kMinutes = 10;  // where nothing says how long
    if (preset_.empty()) options_.budget_seconds = 60 * kMinutes;
    std::optional<RunPage> page;
    if (serve_ && !options_.dry_run && group.first())
      page.emplace(context.console, out_, static_cast<int>(port_));
    TrainingRun run(settings_, options_);
    if (options_.dry_run) {
      const std::string plan = run.Plan(console.json());
      if (group.first()) console.Result(plan);
      return 0;
    }
    std::optional<TrainScreen> screen;
    if (group.first()) screen.emplace(run, settings_, out_, console, context.progress_mode);
    const TrainResult result = run.Train(screen ? screen->Hooks() : RunHooks{});
    if (screen) screen->End(result);
    // The signal is that of whichever rank was asked.
    int signal = 0;
    for (const auto& other : GatherNumbers(group, std::vector<int>{StopRequested()})) {
      signal = std::max(signal, other[0]);
    }
    return signal != 0 ? SignalExitStatus(signal) : 0;
  }

 private:
  TrainingRunOptions options_;
  std::string out_, preset_, resume_;
  bool serve_ = false;
  int64_t port_ = 8080;
  RunSettings settings_;
  SimdFlag simd_;
};

}  // namespace

CommandList TrainCommands() {
  return CommandsOf<TrainCommand>();
}

}  // namespace folio
