#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "folio/base/signals.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/commands/prepare_progress.h"
#include "folio/commands/serve/program_page.h"
#include "folio/commands/train/train_screen.h"
#include "folio/run/training_run.h"
#include "folio/serve/page_runs.h"
#include "folio/serve/service.h"

namespace folio {
namespace {

// The page of `folio serve` that shows one run, while this exists.
class RunPage {
 public:
  RunPage(Console& console, const std::string& run, int port)
      : service_({.page = WithStop(ProgramPage({run}))}, [](const AccessLogEntry&) {}),
        serving_(service_, "127.0.0.1", port) {
    serving_.Begin();
    console.Note("training page: " + serving_.url() + PageUrlPath(run));
  }

 private:
  // Stops as Ctrl-C does; a second one would end the process at once.
  static PageOptions WithStop(PageOptions page) {
    page.stop_training = [] {
      if (StopRequested() == 0) kill(getpid(), SIGINT);
    };
    return page;
  }

  Service service_;
  BackgroundServer serving_;
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
