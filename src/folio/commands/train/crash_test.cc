// Runs that are killed, hung up, or begun twice, through the real program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class CrashTest : public TrainTest {
 protected:
  // Shell text that waits, for ten seconds at most, until a file is there (-e) or not empty (-s).
  static std::string Awaited(const std::string& test, const std::string& file) {
    return "i=0; until [ " + test + " " + file +
           " ] || [ $i = 500 ]; do sleep 0.02; i=$((i+1)); done\n";
  }
  // Shell text that begins a long run and waits for its first steps; $p is its process.
  std::string Started(const std::string& more) const {
    return "$F " + Words("--max-steps 1000000 --no-config " + more) + " >/dev/null & p=$!\n" +
           Awaited("-s", "run/metrics.jsonl");
  }
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const StepMetrics& m : ReadRunLog(At("run"))) steps.push_back(m.step);
    return steps;
  }
};

TEST_F(CrashTest, ASecondTrainingInOneRunIsRefusedAndReadersAreNot) {
  const auto tried = [](const std::string& name, const std::string& words) {
    return "$F " + words + " >/dev/null; echo " + name + " $? >&2\n";
  };
  const ProgramRun both = Shell(
      Started("--eval-every 50") + Awaited("-e", "run/last") + "echo $p >pid\n" +
      tried("plain", Words("")) + tried("overwrite", Words("--overwrite")) +
      tried("resume", Resumed("")) + tried("generate", "generate --max-tokens 2 --model run") +
      tried("inspect", "inspect model --model run") + tried("plot", "plot run --out plot.svg") +
      "kill -9 $p; wait $p; echo killed $? >&2\n");
  std::string process = ReadFile(At("pid"));
  process.pop_back();
  EXPECT_TRUE(Contains(both.err, "plain 2", "overwrite 2", "resume 2", "generate 0", "inspect 0",
                       "plot 0", "killed 137"))
      << both.err;
  EXPECT_EQ(Count(both.err, "process " + process + " is training in it"), 3u) << both.err;
  const std::vector<int64_t> steps = Steps();
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int64_t>(i));
  // The kernel has given the lock back.
  const ProgramRun next = RunFolio(Resumed("--max-steps " + std::to_string(steps.size() + 5)));
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_FALSE(fs::exists(At("run/.lock")));
}

TEST_F(CrashTest, AReplacementThatIsKilledLeavesTheOldRunOrTheNew) {
  ASSERT_EQ(Train("--seed 3").status, 0);
  fs::rename(At("run"), At("old"));
  WriteFileAtomically(At("new.txt"), std::string(3000, 'x') + ReadFile(data_));
  const std::string words = "$F " + Words("--overwrite --seed 4 --data " + At("new.txt").string());
  ASSERT_EQ(Shell(words).status, 0);
  fs::rename(At("run"), At("new"));
  const auto data_of = [&](const char* run) { return FilesBelow(At(run) / "data"); };
  int old_ones = 0;
  for (int i = 0; i < 20; ++i) {
    fs::remove_all(At("run"));
    fs::copy(At("old"), At("run"), fs::copy_options::recursive);
    Shell(words + " & p=$!; sleep 0.0" + std::to_string(10 + 4 * i) + "; kill -9 $p; wait $p");
    const ProgramRun text = Shell("$F generate --max-tokens 2 --model run");
    const ProgramRun plain = RunFolio(Words(""));
    EXPECT_EQ(plain.status, 2) << plain.err;
    const bool is_old = data_of("run") == data_of("old");
    old_ones += is_old ? 1 : 0;
    EXPECT_TRUE(is_old || data_of("run") == data_of("new"));
    EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), is_old ? "seed = 3" : "seed = 4"));
    EXPECT_TRUE(!is_old || FilesBelow(At("run/last")) == FilesBelow(At("old/last")));
    const bool saved = fs::exists(At("run/last"));
    EXPECT_TRUE(text.status == 0 || !saved) << text.err;
    const ProgramRun next = i % 2 == 0 && saved ? RunFolio(Resumed("--max-steps 6")) : Shell(words);
    EXPECT_EQ(next.status, 0) << next.err;
    for (const auto& entry : fs::directory_iterator(At("run"))) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(old_ones, 0);
}

TEST_F(CrashTest, OneThatWasKilledBeforeItBeganIsBegunAgainAndTheAdviceSaysSo) {
  const auto prepared = [&] {
    fs::create_directories(At("run/.new/data"));
    WriteFileAtomically(At("run/.new/data/train.bin"), "half");
  };
  prepared();
  ExpectError(3, Resumed(""), "holds no run", "leave out --resume");
  prepared();
  const ProgramRun begun = Train();
  EXPECT_EQ(begun.status, 0) << begun.err;
  EXPECT_FALSE(fs::exists(At("run/.new")));
  // Data without settings, as anybody may have left it.
  for (const char* part : {"last", "best", "config.toml"}) fs::remove_all(At("run") / part);
  ExpectError(3, Resumed(""), "holds no run", "--overwrite");
  ExpectError(2, Words(""), "already holds a run", "--overwrite");
}

TEST_F(CrashTest, AHangUpStopsWithACheckpointUnlessItIsIgnored) {
  const ProgramRun hung =
      Shell(Started("") + "kill -HUP $p; kill -HUP $p; sleep 0.01; kill -HUP $p; wait $p");
  EXPECT_EQ(hung.status, 129) << hung.err;
  EXPECT_TRUE(fs::exists(At("run/last/train_state")));
  fs::remove_all(At("run"));
  const ProgramRun deaf =
      Shell("trap '' HUP\n" + Started("") + "kill -HUP $p; sleep 0.2; kill -TERM $p; wait $p");
  EXPECT_EQ(deaf.status, 143) << deaf.err;
}

TEST_F(CrashTest, ADamagedLogDoesNotKeepARunFromGoingOn) {
  ASSERT_EQ(Train("--sample-every 1").status, 0);
  const std::string log = ReadFile(At("run/metrics.jsonl"));
  const std::string samples = ReadFile(At("run/samples.jsonl"));
  const size_t second = log.find('\n') + 1;
  WriteFileAtomically(At("run/metrics.jsonl"), log.substr(0, second) + std::string(20, '\0') +
                                                   "\n" + log.substr(second) +
                                                   "{\"step\":3,\"lo\nno line at all\n");
  // As a killed process leaves them, which was ahead of its checkpoint.
  WriteFileAtomically(At("run/samples.jsonl"),
                      samples + "{\"event\":\"sample\",\"step\":5,\"text\":\"again\"}\n{\"torn");
  const ProgramRun resumed = RunFolio(Resumed("--max-steps 6"));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(Contains(resumed.err, "metrics.jsonl:2: the line is damaged", "metrics.jsonl:7",
                       "metrics.damaged.jsonl"));
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(Contains(ReadFile(At("run/metrics.damaged.jsonl")), "no line at all\n"));
  const std::string after = ReadFile(At("run/samples.jsonl"));
  EXPECT_TRUE(after.starts_with(samples));
  for (const char* step : {"\"step\":4", "\"step\":5", "\"step\":6"}) {
    EXPECT_EQ(Count(after, step), 1u) << after;
  }
  EXPECT_FALSE(Contains(after, "again"));
}

}  // namespace
}  // namespace folio
