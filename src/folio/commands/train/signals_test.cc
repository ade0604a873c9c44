// These tests check what each signal does to training, through the real program: the table in
// docs/reliability.md.
#include <gtest/gtest.h>

#include <csignal>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Signals : public TrainTest {
 protected:
  // Shell text that waits, for ten seconds at most, until the test holds.
  static std::string Awaited(const std::string& test) {
    return "i=0; until " + test + " || [ $i = 500 ]; do sleep 0.02; i=$((i+1)); done\n";
  }
  // Shell text that begins a long run and waits for its first steps; $p is its process.
  std::string Started(const std::string& more = "") const {
    return "$F " + Words(more + " --max-steps 1000000 --no-config") + " >/dev/null & p=$!\n" +
           Awaited("[ -s run/metrics.jsonl ]");
  }
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }
  // The run went on for some steps, left them all, and goes on from there.
  void ExpectGoesOn() const {
    const int64_t step = SavedStep(At("run/last"));
    EXPECT_GT(step, 0);
    std::vector<int64_t> logged;
    for (const StepMetrics& m : ReadRunLog(At("run"))) logged.push_back(m.step);
    ASSERT_EQ(std::ssize(logged), step);
    for (int64_t i = 0; i < step; ++i) ASSERT_EQ(logged[static_cast<size_t>(i)], i);
    const ProgramRun on = RunFolio(Resumed("--max-steps " + std::to_string(step + 2)));
    EXPECT_EQ(on.status, 0) << on.err;
  }
};

TEST_F(Signals, ThatAskForAnEndLeaveACheckpointAndTheirStatus) {
  for (const auto& [name, number] :
       {std::pair("INT", SIGINT), std::pair("TERM", SIGTERM), std::pair("HUP", SIGHUP),
        std::pair("QUIT", SIGQUIT), std::pair("ALRM", SIGALRM), std::pair("XCPU", SIGXCPU)}) {
    fs::remove_all(At("run"));
    const ProgramRun run = Shell(Started() + "kill -" + name + " $p; wait $p");
    EXPECT_EQ(run.status, 128 + number) << name << run.err;
    ExpectGoesOn();
    if (HasFailure()) return;
  }
}

// Signals that the kernel sends again are no impatience.
TEST_F(Signals, ASecondOneEndsAtOnceUnlessItComesByItself) {
  for (const auto& [name, number] : {std::pair("HUP", SIGHUP), std::pair("XCPU", SIGXCPU)}) {
    fs::remove_all(At("run"));
    const std::string kill = std::string("kill -") + name + " $p\n";
    const ProgramRun run = Shell(Started() + kill + kill + "sleep 0.01\n" + kill + "wait $p");
    EXPECT_EQ(run.status, 128 + number) << name << run.err;
    EXPECT_TRUE(fs::exists(At("run/last/train_state"))) << name;
  }
}

TEST_F(Signals, ThatAskForACheckpointGetOneAndTrainingGoesOn) {
  for (const std::string name : {"USR1", "USR2"}) {
    fs::remove_all(At("run"));
    const ProgramRun run =
        Shell(Started("train.checkpoint_every=1000000 --eval-every 0") +
              "[ ! -e run/last ] || echo early\n" + "kill -" + name + " $p\n" +
              Awaited("[ -e run/last/train_state ]") +
              "cp -r run/last then; n=$(wc -l <run/metrics.jsonl)\n" +
              Awaited("[ $(wc -l <run/metrics.jsonl) -gt $((n+5)) ]") + "kill -TERM $p; wait $p");
    EXPECT_EQ(run.status, 128 + SIGTERM) << name << run.err;
    EXPECT_EQ(run.out, "") << name;
    EXPECT_GT(SavedStep(At("run/last")), SavedStep(At("then")) + 4) << name;
    fs::remove_all(At("then"));
    ExpectGoesOn();
  }
}

TEST_F(Signals, ALimitOfCpuTimeEndsWithACheckpoint) {
  const ProgramRun run = Shell("ulimit -S -t 1\n" + Started() + "wait $p");
  EXPECT_EQ(run.status, 128 + SIGXCPU) << run.err;
  ExpectGoesOn();
}

// As a full disk: training goes on, and loses nothing if the limit is raised again.
TEST_F(Signals, ALimitOfTheSizeOfFilesIsAFullDisk) {
  if (kSanitized) GTEST_SKIP() << "sanitizers write files of their own";
  const std::string state = "$(cat run/last/train_state/state.json)";
  // The limit would hold for a file of what is told, too.
  const ProgramRun run = Shell(
      "mkfifo told; tee seen <told >&2 & t=$!\n" +
      Started("train.checkpoint_every=20 --eval-every 0 2>told") + Awaited("[ -e run/last ]") +
      "prlimit --pid $p --fsize=100:unlimited\n" + Awaited("grep -q 'no checkpoint of' seen") +
      Awaited("grep -q 'lines are kept' seen") + "kill -0 $p || echo gone\nn=\"" + state +
      "\"; prlimit --pid $p --fsize=unlimited:unlimited\n" +
      Awaited("[ \"$n\" != \"" + state + "\" ]") +
      "kill -TERM $p; wait $p; s=$?; wait $t; exit $s");
  EXPECT_EQ(run.status, 128 + SIGTERM) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(Contains(run.err, "no checkpoint of step", "File too large",
                       "metrics.jsonl: File too large; its lines are kept"))
      << run.err;
  ExpectGoesOn();
}

TEST_F(Signals, ALimitOfTheSizeOfFilesIsAnErrorOfEveryCommand) {
  if (kSanitized) GTEST_SKIP() << "sanitizers write files of their own";
  ASSERT_EQ(Train().status, 0);
  for (const std::string words : {"tokenizer train text.txt --vocab-size 300 --out made",
                                  "plot run --out made.svg", "data prepare text.txt --out made"}) {
    const ProgramRun run = Shell("ulimit -f 1; $F " + words);
    EXPECT_EQ(run.status, 1) << words << run.err;
    EXPECT_TRUE(Contains(run.err, "File too large", "ulimit -f")) << words << run.err;
    EXPECT_FALSE(fs::exists(At("made")) || fs::exists(At("made.svg"))) << words;
  }
}

}  // namespace
}  // namespace folio
