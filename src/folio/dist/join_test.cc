#include "folio/dist/join.h"

#include <gtest/gtest.h>

#include <map>

#include "folio/dist/group.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

Launcher Found(const std::map<std::string, std::string>& environment) {
  return FindLauncher([&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(Launchers, AreKnownByTheirEnvironment) {
  EXPECT_EQ(Found({}).name, "");
  EXPECT_EQ(Found({{"OMPI_COMM_WORLD_SIZE", "4"}}).mpi, "openmpi");
  EXPECT_EQ(Found({{"OMPI_COMM_WORLD_SIZE", "4"}}).ranks, 4);
  EXPECT_EQ(Found({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).mpi, "mpich");
  const std::map<std::string, std::string> srun = {
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "8"}};
  EXPECT_EQ(Found(srun).mpi, "");
  EXPECT_EQ(Found(srun).ranks, 8);
  auto pmix = srun;
  pmix["PMIX_RANK"] = "2";
  EXPECT_EQ(Found(pmix).mpi, "openmpi");
  EXPECT_EQ(Found(pmix).name, "srun");
  EXPECT_EQ(Found(pmix).ranks, 8);
  // The shell of a batch job is one process.
  EXPECT_EQ(Found({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}).name, "");
}

TEST(Same, TheFirstThatDiffersIsNamedWithItsDifferences) {
  RunOnThreads(3, [](Group& group) {
    RequireSame(group, "settings", "a = 1\nb = 2\n");
    const std::string mine = group.rank() == 2 ? "a = 1\nb = 3\nc = 4\n" : "a = 1\nb = 2\n";
    const std::string error =
        ErrorOf([&] { RequireSame(group, "settings", mine); }, ErrorKind::kUsage);
    EXPECT_TRUE(
        Contains(error, "rank 2 (", "other settings", "'b = 3' there, 'b = 2' at rank 0", "c = 4"));
  });
}

}  // namespace
}  // namespace folio
