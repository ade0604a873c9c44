#include <fmt/format.h>

#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/report/report.h"
#include "folio/run/plot_runs.h"

namespace folio {
namespace {

class PlotCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "plot",
        .summary = "compare training runs: curves, final values, settings",
        .group = "inspect",
        .details =
            "Reads metrics.jsonl of each run, also during training. Curves keep their highest and "
            "lowest points however long a run is, and --smooth leaves the raw values visible "
            "behind the mean. A logarithmic axis cannot show step 0. A page (.html) contains the "
            "curves, the values, and the settings in which the runs differ.",
        .examples = {"folio plot runs/first", "folio plot runs/* --out compare.html --smooth 0.9",
                     "folio plot runs/a runs/b --keys loss,val_loss --x tokens --log-x "
                     "--out loss.svg",
                     "folio plot runs/a runs/b --diff"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("RUN", &runs_, "run directories", {.placeholder = "RUN", .required = true});
    flags.Value(
        Field{"out", &out_, "write the figure (.svg) or a page (.html)"}.WithFlag("-o,--out"),
        {.placeholder = "FILE"});
    flags.Value(Field{"keys", &keys_,
                      "what to compare: loss, val_loss, train_eval_loss, lr, grad_norm, "
                      "tokens_per_second"},
                {.placeholder = "KEY,KEY,..."});
    flags.Value(Field{"x", &options_.axis, "the x axis"}.Choices({"step", "tokens", "time"}));
    flags.Value(Field{"smooth", &options_.smooth,
                      "weight of the past in an exponential mean; 0: none", 0, 0.9999},
                {.placeholder = "WEIGHT"});
    flags.Switch("--log-x", &options_.log_x, "logarithmic x axis");
    flags.Switch("--log-y", &options_.log_y, "logarithmic y axes");
    flags.List("--label", &labels_, "name of a run in the figure; repeat for each run, in order",
               {.placeholder = "NAME"});
    flags.Switch("--diff", &options_.differences, "print the settings in which the runs differ");
    flags.Switch("--series", &options_.series, "with --json: every value too");
  }

  int Run(const Context& context) override {
    const std::string kind = std::filesystem::path(out_).extension().string();
    if (!out_.empty() && kind != ".svg" && kind != ".html") {
      throw UsageError(fmt::format("--out: cannot write '{}'", out_),
                       "figures are SVG, pages are HTML", "use a name that ends in .svg or .html");
    }
    if (!out_.empty()) RequireParentOf(out_);
    if (options_.series && !context.console.json()) {
      throw UsageError("--series is for --json", {}, "add --json");
    }
    const std::vector<Metric> metrics = MetricsNamed(keys_);
    const std::vector<PlottedRun> runs =
        ReadRuns(runs_, labels_, [&](const std::string& text) { context.console.Note(text); });
    const Report report = RunsReport(runs, metrics, options_);
    if (!out_.empty()) {
      CatchSignals();  // until the figure is complete
      // Inside of a run a figure replaces a link instead of following it.
      std::vector<GuardedDirectory> inside;
      for (const PlottedRun& run : runs) inside.emplace_back(run.dir);
      WriteFileAtomically(out_,
                          kind == ".svg" ? RunsSvg(runs, metrics, options_) : ReportHtml(report));
      context.console.Note(fmt::format("wrote {}", out_));
    }
    ShowReport(context.console, report);
    return 0;
  }

 private:
  std::vector<std::string> runs_, labels_;
  std::string out_, keys_ = "loss,val_loss,lr,grad_norm,tokens_per_second";
  PlotOptions options_;
};

}  // namespace

CommandList PlotCommands() {
  return CommandsOf<PlotCommand>();
}

}  // namespace folio
