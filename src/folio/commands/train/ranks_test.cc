// Ranks of one run under the installed MPIs, through the real program.
#include <gtest/gtest.h>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

// The parameter is the name of the MPI in its plug-in.
class MpiRun : public TrainTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "MPI itself does not pass the sanitizers";
    const ProgramRun here = RunShell(".", "command -v mpirun." + GetParam() +
                                              " && $F doctor | grep -x 'mpi *" + GetParam() + "'");
    if (here.status != 0) GTEST_SKIP() << "there is no " << GetParam() << ", or no plug-in for it";
  }

  // The shell's words before `$F`: this many ranks, even on fewer processors.
  std::string Ranks(int ranks) const {
    const std::string mpirun = "mpirun." + GetParam() + " -n " + std::to_string(ranks) + " ";
    if (GetParam() == "mpich") return mpirun;
    return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
           "OMPI_MCA_rmaps_base_oversubscribe=1 "
           "OMPI_MCA_hwloc_base_binding_policy=none " +
           mpirun;
  }
  ProgramRun On(int ranks, const std::string& words) const {
    return RunShell(".", "unset HOME; " + Ranks(ranks) + "$F " + words + " --no-config");
  }
  std::string Kept(const std::string& name) {
    std::filesystem::rename(At("run"), At(name));
    return name;
  }
  static std::map<int64_t, double> Losses(const std::vector<StepMetrics>& steps) {
    std::map<int64_t, double> losses;
    for (const StepMetrics& step : steps) {
      if (step.loss) losses[step.step] = *step.loss;
    }
    return losses;
  }
  std::map<std::string, std::string> Last(const std::string& run) const {
    return FilesBelow(At(run) / "last");
  }
};

TEST_P(MpiRun, LeavesTheBytesOfOneProcess) {
  const std::string words = "train.eval_every=2 --grad-accumulation 6 --threads 1";
  Well(Train(words));
  Kept("one");
  for (const int ranks : {2, 3}) {
    const ProgramRun run = Well(On(ranks, Words("log.ranks=true " + words)));
    EXPECT_TRUE(Contains(run.err, "on each of " + std::to_string(ranks) + " ranks"));
    // only the first rank prints
    EXPECT_EQ(Count(run.err, "step 2: training loss"), 1u) << run.err;
    EXPECT_EQ(ReadRunLog(At("run"))[0].rank_seconds.size(), static_cast<size_t>(ranks));
    EXPECT_EQ(Last(Kept("ranks" + std::to_string(ranks))), Last("one")) << ranks;
  }
}

TEST_P(MpiRun, GoesOnWithAnotherNumberOfRanks) {
  const std::string words = "--grad-accumulation 6 --threads 1 ";
  Well(Train(words));
  Kept("one");
  ASSERT_EQ(On(3, Words("train.decay_steps=4 " + words + "--max-steps 1")).status, 0);
  Well(On(2, Resumed("--max-steps 3")));
  Well(RunFolio(Resumed("--max-steps 4")));
  const auto one = Last("one"), parts = Last("run");
  EXPECT_EQ(one.at("model.safetensors"), parts.at("model.safetensors"));
  EXPECT_EQ(one.at("train_state/optimizer.safetensors"),
            parts.at("train_state/optimizer.safetensors"));
}

TEST_P(MpiRun, SumsOfSeveralMicroBatchesAreThoseOfOneProcess) {
  const std::string words = "--grad-accumulation 6 --reduce-every 3 --threads 1";
  Well(Train(words));
  Kept("one");
  const ProgramRun run = Well(On(2, Words(words)));
  EXPECT_EQ(Last("run"), Last("one"));
}

// Ranks that share layers give the same result as one rank, except for rounding; and one rank can
// continue.
TEST_P(MpiRun, SharesLayersAndGoesOnAlone) {
  const std::string words =
      "model.n_head=2 train.decay_steps=6 --grad-accumulation 2 --dtype fp32 --threads 1";
  Well(Train(words + " --max-steps 6"));
  const std::vector<StepMetrics> one = ReadRunLog(At("run"));
  Kept("one");
  Well(On(4, Words(words + " --tensor-parallel 2")));
  Well(RunFolio(Resumed("--tensor-parallel 1 --max-steps 6")));
  const std::vector<StepMetrics> parts = ReadRunLog(At("run"));
  for (const auto& [step, loss] : Losses(one)) {
    ASSERT_TRUE(Losses(parts).contains(step)) << step;
    EXPECT_NEAR(Losses(parts).at(step), loss, 1e-5 * loss) << step;
  }
}

TEST_P(MpiRun, RanksThatDoNotBelongTogetherAreRefused) {
  const ProgramRun uneven = Ended(2, On(2, Words("--grad-accumulation 3")));
  EXPECT_EQ(Count(uneven.err, "error: 2 ranks cannot share 3 micro-batches"), 1u) << uneven.err;
  EXPECT_FALSE(std::filesystem::exists(At("run")));
  const std::string words = Words("--grad-accumulation 2 --no-config ");
  EXPECT_TRUE(Contains(Ended(2, RunShell(".", "unset HOME; " + Ranks(1) + "$F " + words +
                                                  " : -n 1 $F " + words + " --learning-rate 0.5"))
                           .err,
                       "rank 1 (", "and the first rank have different settings",
                       "'train.learning_rate = 0.5' there"));
  EXPECT_FALSE(std::filesystem::exists(At("run")));
}

TEST_P(MpiRun, RanksThatDoSomethingElseAreNamed) {
  const std::string words = Words("--grad-accumulation 2 --no-config ");
  const auto both = [&](const std::string& one, const std::string& other) {
    return RunShell(".", "unset HOME; " + Ranks(1) + "$F " + one + " : -n 1 $F " + other);
  };
  const ProgramRun simd = Ended(2, both(words + " --simd SSE4", words + " --simd AVX2"));
  EXPECT_TRUE(Contains(simd.err, "rank 1 (", "and the first rank have different instruction sets",
                       "'AVX2' there, 'SSE4' at rank 0", "--simd NAME"));
  EXPECT_TRUE(Contains(Ended(2, both(words, "data prepare " + data_ + " --out " +
                                                At("data").string() + " --no-config"))
                           .err,
                       "rank 1 (", "and the first rank have different commands",
                       "'folio data prepare' there, 'folio train' at rank 0"));
  EXPECT_FALSE(std::filesystem::exists(At("run")));
  Well(Train());
  const std::string measure =
      "eval perplexity --no-config --model " + At("run").string() + " " + data_;
  EXPECT_TRUE(Contains(Ended(2, both(measure + " --simd SSE4", measure + " --simd AVX2")).err,
                       "different instruction sets"));
}

TEST_P(MpiRun, ThePlanSaysWhatEachRankDoes) {
  const ProgramRun run = Well(On(2, Words("--grad-accumulation 4 --dry-run")));
  EXPECT_TRUE(Contains(run.out, "rank 0 (", "rank 1 (", "2 of 4 micro-batches"));
  EXPECT_FALSE(std::filesystem::exists(At("run")));
}

// When a rank is killed all end; the run continues from its checkpoint.
TEST_P(MpiRun, OneRanksDeathIsTheEndOfAll) {
  const std::string words =
      "train.checkpoint_every=20 train.decay_steps=50 --grad-accumulation 2 --threads 1 ";
  const ProgramRun run =
      RunShell(".", "unset HOME; " + Ranks(2) + "$F " + Words(words + "--max-steps 1000000") +
                        " --no-config & m=$!\n"
                        "until test -d " +
                        At("run/last").string() +
                        "; do kill -0 $m || break; sleep 0.05; done\n"
                        "kill -9 $(pgrep -n -f 'folio train.*" +
                        At("run").string() +
                        "')\n"
                        "wait $m; s=$?\n"
                        "pgrep -f 'folio train.*" +
                        At("run").string() +
                        "' | grep -v $$ && exit 99\n"
                        "exit $s");
  EXPECT_NE(run.status, 0) << run.err;
  EXPECT_NE(run.status, 99) << "a rank is left: " << run.out;
  const int64_t step = SavedStep(At("run/last"));
  const std::string goal = std::to_string(step + 20);
  ASSERT_EQ(On(2, Resumed("--max-steps " + goal)).status, 0);
  Kept("killed");
  Well(Train(words + "--max-steps " + goal));
  EXPECT_EQ(Last("run").at("model.safetensors"), Last("killed").at("model.safetensors"));
}

// Data and measures equal those of one process, too, and a mistake is reported once.
TEST_P(MpiRun, PreparesAndMeasuresAsOne) {
  const std::string data = "data prepare " + data_ + " --tokenizer bytes --out ";
  Well(RunFolio(data + At("one").string()));
  const ProgramRun prepared = Well(On(3, data + At("three").string()));
  EXPECT_EQ(FilesBelow(At("three")), FilesBelow(At("one")));
  EXPECT_EQ(Count(prepared.out, "tokens"),
            Count(RunFolio("data info " + At("one").string()).out, "tokens"));
  Well(Train());
  const std::string measure =
      "eval perplexity --model " + At("run").string() + " " + data_ + " --json --csv ";
  const ProgramRun one = Well(RunFolio(measure + At("1.csv").string()));
  const ProgramRun two = Well(On(2, measure + At("2.csv").string()));
  EXPECT_EQ(two.out, one.out);
  EXPECT_EQ(ReadFile(At("2.csv")), ReadFile(At("1.csv")));
  const ProgramRun missing =
      Ended(3, On(2, "eval perplexity --model " + At("run").string() + " nowhere"));
  EXPECT_EQ(Count(missing.err, "error: "), 1u) << missing.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiRun, testing::Values("openmpi", "mpich"),
                         [](const auto& tested) { return tested.param; });

TEST(Launchers, TasksWithoutMpiAreRefused) {
  EXPECT_TRUE(Contains(
      Ended(2,
            RunShell(
                ".",
                "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 $F train --data a --out b"))
          .err,
      "srun has started 4 tasks that are not connected", "srun --mpi=pmix"));
}

}  // namespace
}  // namespace folio
