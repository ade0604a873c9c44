#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/run/plot_runs.h"
#include "folio/term/terminal_text.h"
#include "tests/figures/figure_checks.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Plot : public InTemporaryDirectory {
 protected:
  // A run of this many steps whose loss falls from about `begin`, evaluated at every tenth step.
  void MakeRun(const std::string& name, int64_t steps, double begin = 4,
               const std::string& config = "") {
    CreateDirectories(At(name));
    RunLog log(At(name), 0);
    for (int64_t step = 0; step < steps; ++step) {
      const double x = static_cast<double>(step);
      StepMetrics m{.step = step,
                    .loss = begin / (1 + x / 20) + 0.3 * std::sin(x * 7),
                    .lr = 1e-3 * (x + 1) / static_cast<double>(steps),
                    .grad_norm = 1 + 0.5 * std::cos(x * 5),
                    .tokens = 64 * (step + 1),
                    .tokens_per_second = 1000 + x,
                    .seconds = 0.25 * (x + 1)};
      if (step % 10 == 0) m.val_loss = begin / (1 + x / 20) + 0.1;
      log.Write(m);
    }
    if (!config.empty()) WriteFileAtomically(At(name) / "config.toml", config);
  }
  static ProgramRun Run(const std::string& arguments) { return RunFolio("plot " + arguments); }
  std::string Path(const std::string& name) const { return At(name).string(); }
  nlohmann::json AsJson(const std::string& arguments) const {
    const ProgramRun run = Well(Run("--json " + arguments));
    return nlohmann::json::parse(run.out, nullptr, false);
  }
  // Draws the runs; with labels, also checks the figure, which takes half a second.
  std::string Drawn(const std::string& arguments, const std::vector<std::string>& labels) const {
    Well(Run(arguments + " --out " + Path("figure.svg")));
    const std::string svg = ReadFile(At("figure.svg"));
    EXPECT_LT(svg.size(), 200000u);
    if (!labels.empty() && WhyNoRenderer().empty()) {
      EXPECT_EQ(CheckFigure(svg, labels), "");
    }
    return svg;
  }
};

TEST(DistinctNames, TakeAsManyNamesAsTheyNeed) {
  const std::vector<fs::path> paths = {"/r/a/one", "/r/b/one", "/r/b/two", "/q/b/one/"};
  EXPECT_EQ(DistinctNames(paths), (Strings{"a/one", "r/b/one", "two", "q/b/one"}));
  EXPECT_EQ(DistinctNames(std::vector<fs::path>{"/one", "/x/one"}), (Strings{"/one", "x/one"}));
  EXPECT_EQ(DistinctNames(std::vector<fs::path>{"/a", "/a"}), (Strings{"/a", "/a"}));
}

TEST_F(Plot, TheTableSaysHowRunsEnded) {
  MakeRun("a", 41);
  MakeRun("b", 12, 2);
  const ProgramRun run = Well(Run(Path("a") + " " + Path("b")));
  const Strings lines = Split(run.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << run.err;
  EXPECT_TRUE(Contains(lines[0], "steps", "lowest", "val_loss", "grad_norm"));
  EXPECT_TRUE(Contains(lines[1], "a", "41", "2,624", "1.4333", "40"));
  EXPECT_TRUE(Contains(lines[2], "b", "12", "768", "1.4333", "10"));
}

TEST_F(Plot, TheTableFitsATerminal) {
  MakeRun("a", 41);
  MakeRun("a-run-with-a-long-name-of-its-own", 12, 2);
  const std::vector<std::string> dirs = {Path("a"), Path("a-run-with-a-long-name-of-its-own")};
  const std::vector<PlottedRun> runs = ReadRuns(dirs, {}, [](const std::string&) {});
  const std::vector<Metric> metrics = MetricsNamed("loss,val_loss,lr,grad_norm,tokens_per_second");
  for (const int width : {40, 60, 80, 400}) {
    const std::string text = ReportText(RunsReport(runs, metrics, {}),
                                        {.is_terminal = true, .utf8 = true, .width = width});
    for (const std::string& line : Split(text, '\n')) EXPECT_LE(DisplayWidth(line), width) << line;
    EXPECT_TRUE(Contains(text, "1.4333", "2,624", "768")) << text;
    EXPECT_EQ(text.starts_with("run "), true);
  }
}

TEST_F(Plot, IdenticalRunsAreBothSeen) {
  MakeRun("a", 30);
  MakeRun("b", 30);
  const std::string svg = Drawn(Path("a") + " " + Path("b"), {"a", "b"});
  EXPECT_EQ(Count(svg, "stroke-dasharray=\"8 8\""), 5u);  // in every panel
}

TEST_F(Plot, APageHasOneTitle) {
  MakeRun("a", 30);
  Well(Run(Path("a") + " --out " + Path("p.html")));
  const std::string html = ReadFile(At("p.html"));
  EXPECT_EQ(Count(html, ">Training of a<"), 2u);  // of the page and at its top
  EXPECT_EQ(Count(html, "Training runs"), 0u);
}

TEST_F(Plot, JsonHasFinalsBestsAndSeries) {
  MakeRun("a", 25);
  nlohmann::json run = AsJson(Path("a"))["runs"][0];
  EXPECT_EQ(run["label"], "a");
  EXPECT_EQ(run["steps"], 25);
  EXPECT_EQ(run["metrics"]["val_loss"]["final_step"], 20);
  EXPECT_NEAR(run["metrics"]["val_loss"]["best"].get<double>(), 2.1, 1e-12);
  EXPECT_EQ(run["metrics"]["lr"]["final"], 1e-3);
  EXPECT_FALSE(run["metrics"]["lr"].contains("best"));
  EXPECT_FALSE(run["metrics"]["loss"].contains("series"));
  run = AsJson("--series --keys val_loss " + Path("a"))["runs"][0]["metrics"];
  EXPECT_EQ(run.size(), 1u);
  EXPECT_EQ(run["val_loss"]["series"]["step"], (nlohmann::json{0, 10, 20}));
  // An evaluation comes before the update of its step.
  EXPECT_EQ(run["val_loss"]["series"]["tokens"], (nlohmann::json{0, 640, 1280}));
  EXPECT_EQ(run["val_loss"]["series"]["value"].size(), 3u);
}

TEST_F(Plot, LossesThatAreNoNumbersAreGaps) {
  MakeRun("a", 5);
  RunLog(At("a"), 5).Write({.step = 5, .loss = NAN, .tokens = 384, .seconds = 2});
  const nlohmann::json loss = AsJson("--series " + Path("a"))["runs"][0]["metrics"]["loss"];
  EXPECT_EQ(loss["final"], "nan");
  EXPECT_LT(loss["best_step"].get<int>(), 5);
  EXPECT_EQ(loss["series"]["value"][5], "nan");
  EXPECT_TRUE(Contains(Run(Path("a")).out, " nan "));
  EXPECT_TRUE(Contains(Drawn("--smooth 0.9 " + Path("a"), {}), "Training loss"));
}

TEST_F(Plot, FiguresHaveAPanelForEachKeyThatIsThere) {
  MakeRun("long name of a run", 200);
  MakeRun("b", 60, 3);
  const std::string both = "'" + Path("long name of a run") + "' " + Path("b");
  Drawn(both, {"Training loss", "Held-out loss", "Learning rate", "Gradient norm", "Speed", "step",
               "nats per token", "long name of a run", "b"});
  const std::string some =
      Drawn("--keys loss,lr,train_eval_loss --x tokens --log-x --log-y --smooth 0.8 " + both, {});
  EXPECT_EQ(some.find("Loss on the training set"), std::string::npos);  // never measured
  EXPECT_TRUE(Contains(some, "weight 0.8", ">tokens</text>"));
  EXPECT_TRUE(Contains(some, "stroke-opacity=\"0.4\""));  // the raw values
  EXPECT_TRUE(Contains(Drawn("--x time --keys grad_norm " + both, {}), "training time (seconds)"));
}

TEST_F(Plot, ARunHasOneColourInEveryPanel) {
  MakeRun("a", 100);
  MakeRun("b", 100, 3);
  const std::string svg = Drawn("--smooth 0.5 " + Path("a") + " " + Path("b"), {});
  // Three of five panels have a line behind each mean; each label is there once.
  const size_t each = 1 + 5 + 3 + 1;  // the legend, lines, raw lines, dots of the evaluations
  EXPECT_EQ(Count(svg, "class=\"line s0"), each);
  EXPECT_EQ(Count(svg, "class=\"line s1"), each);
  EXPECT_EQ(Count(svg, "class=\"line s"), 2 * each);
}

TEST_F(Plot, TwentyLongRunsStaySmall) {
  std::string runs;
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("run-{}", i);
    MakeRun(name, i == 0 ? 3000 : 300, 3 + i * 0.1);
    runs += " " + Path(name);
  }
  Drawn("--smooth 0.9" + runs, {"run-0", "run-19"});
}

TEST_F(Plot, RunsThatHaveHardlyBegun) {
  MakeRun("none", 0);
  MakeRun("one", 1);
  MakeRun("torn", 3);
  WriteFileAtomically(At("torn/metrics.jsonl"),
                      ReadFile(At("torn/metrics.jsonl")) + "{\"step\":3,\"lo");
  const ProgramRun run = Well(Run(Path("none")));
  EXPECT_TRUE(Contains(run.out + run.err, "' has no steps yet"));
  EXPECT_EQ(AsJson(Path("torn"))["runs"][0]["steps"], 3);
  EXPECT_TRUE(Contains(Drawn(Path("none"), {}), "no data"));
  EXPECT_TRUE(Contains(Drawn(Path("one"), {}), "Training loss"));
  Drawn(Path("none") + " " + Path("one") + " " + Path("torn"), {"none", "one", "torn"});
}

TEST_F(Plot, MistakesSayWhatToDo) {
  MakeRun("a", 3);
  const auto fails = [&](const std::string& arguments, int status, auto... parts) {
    ExpectError(status, "plot " + arguments, "help: ", parts...);
  };
  fails("", 2, "RUN");
  fails(Path("missing"), 3, "missing", "no such file or directory");
  fails(Path(""), 3, "metrics.jsonl");
  fails(Path("a") + " --keys loss,vall_loss", 2, "did you mean val_loss");
  fails(Path("a") + " --keys ''", 2, "available keys: ");
  fails(Path("a") + " --out figure.png", 2, ".svg");
  fails(Path("a") + " --smooth 1", 2, "smooth");
  fails(Path("a") + " --label x --label y", 2, "runs: 1, labels: 2");
  fails(Path("a") + " --series", 2, "--json");
  WriteFileAtomically(At("a/metrics.jsonl"), "{}\n{}\n");
  Ended(3, Run(Path("a")));
  EXPECT_FALSE(fs::exists("figure.png"));
}

TEST_F(Plot, ARunThatIsGivenTwiceIsDrawnOnce) {
  MakeRun("a", 3);
  EXPECT_TRUE(Contains(Well(Run(Path("a") + " " + Path("./a/metrics.jsonl"))).err, "given twice"));
  EXPECT_EQ(AsJson(Path("a") + " " + Path("a/"))["runs"].size(), 1u);
}

TEST_F(Plot, DifferencesAreThoseOfTheSettings) {
  MakeRun("a", 3, 4, "[train]\nseed = 1\nlearning_rate = 0.001\n[log]\nnew = true\n");
  MakeRun("b", 3, 4, "[train]\nseed = 1\nlearning_rate = 0.003\nname = \"x\"\n");
  MakeRun("c", 3);
  const std::string all = Path("a") + " " + Path("b") + " " + Path("c");
  const ProgramRun run = Run("--diff --label A --label B --label C " + all);
  const std::string table = run.out.substr(run.out.find("\n\n"));
  EXPECT_TRUE(Contains(table, "run  train.learning_rate", "A ", "0.001", "0.003\n", "-"));
  EXPECT_EQ(table.find("seed"), std::string::npos);
  EXPECT_EQ(table.find("log.new"), std::string::npos);  // one run alone knows it
  EXPECT_EQ(AsJson(all)["differences"].size(), 1u);
  WriteFileAtomically(At("c/config.toml"), "[train]\nseed = 2\nlearning_rate = 1\nname = \"y\"\n");
  EXPECT_TRUE(Contains(Run("--diff " + all).out, "setting ", "train.seed ", "train.name "));
  fs::remove(At("c/config.toml"));
  EXPECT_TRUE(Contains(Run("--diff " + Path("a")).out, "There is only one run."));
  EXPECT_TRUE(Contains(Run("--diff " + Path("a") + " " + Path("c")).out, "Fewer than two"));
  WriteFileAtomically(At("c/config.toml"), "[train\n");
  Ended(3, Run(Path("c")));
}

TEST_F(Plot, ThePageHoldsFigureValuesAndDifferences) {
  MakeRun("a", 30, 4, "[train]\nseed = 1\n");
  MakeRun("b", 30, 3, "[train]\nseed = 2\n");
  const std::string out = Path("compare.html");
  Well(Run(Path("a") + " " + Path("b") + " --label '<i>&' --label b --out " + out));
  const std::string page = ReadFile(out);
  EXPECT_TRUE(Contains(page, "&lt;i&gt;&amp;", "train.seed", "<td>2</td>", "2.1000", "1.6000"));
  EXPECT_EQ(page.find("<i>"), std::string::npos);
  if (WhyNoRenderer().empty()) {
    EXPECT_EQ(CheckPage(page, {"Training loss", "<i>&"}), "");
  }
}

}  // namespace
}  // namespace folio
