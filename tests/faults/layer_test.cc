// These tests look at what the preloaded layer does to a program that writes one file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/faults/calls.h"
#include "tests/faults/disk.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/program.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using faults::Change;

class FaultLayer : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the sanitizers stand between a program and the C library";
    if (std::getenv("FOLIO_LAYER") == nullptr) GTEST_SKIP() << "FOLIO_LAYER names no layer";
    fs::create_directory(At("root"));
    if (Write("").status != 0 || CountsNow().loaded != faults::kLoaded) {
      GTEST_SKIP() << "nothing can be preloaded into the program";
    }
  }
  // Writes 30,000 bytes and more to root/new and ends with its status.
  ProgramRun Write(const std::string& rules, const std::string& out = "root/new") const {
    fs::remove(At("counts"));
    fs::remove(At("journal"));
    const std::string root = fs::canonical(At("root")).string();
    return RunShell(At(""), "FOLIO_FAULT_ROOT='" + root +
                                "' FOLIO_FAULT_COUNTS=\"$PWD/counts\""
                                " FOLIO_FAULT_JOURNAL=\"$PWD/journal\" FOLIO_FAULTS='" +
                                rules + "' LD_PRELOAD='" + std::getenv("FOLIO_LAYER") +
                                "' $F data stories --overwrite --bytes 30000 --out " + out);
  }
  faults::Counts CountsNow() const {
    faults::Counts counts;
    const std::string bytes = FilesBelow(At(""))["counts"];
    if (bytes.size() == sizeof(counts)) std::memcpy(&counts, bytes.data(), sizeof(counts));
    return counts;
  }
};

TEST_F(FaultLayer, CountsWhatIsBelowTheRootAndNothingElse) {
  const faults::Counts counts = CountsNow();
  EXPECT_EQ(counts.calls[faults::kOpenCall], 1u);
  EXPECT_GT(counts.calls[faults::kWriteCall], 0u);
  EXPECT_EQ(counts.calls[faults::kSyncCall], 2u);  // the file and the directory
  EXPECT_EQ(counts.calls[faults::kRenameCall], 1u);
  EXPECT_EQ(counts.calls[faults::kCloseCall], 1u);
  EXPECT_EQ(counts.injected, 0u);
  EXPECT_EQ(Write("any:1+:EIO", "beside").status, 0);
  EXPECT_EQ(CountsNow().any, 0u);
}

TEST_F(FaultLayer, FailsTheCallThatIsAskedFor) {
  const std::string before = FilesBelow(At("root"))["new"];
  for (const auto& [rule, cause] : {std::pair{"write:1:ENOSPC", "No space left"},
                                    {"sync:1:EIO", "Input/output error"},
                                    {"rename:1:EROFS", "Read-only file system"},
                                    {"open:1:EDQUOT", "quota"},
                                    {"space:1000", "No space left"}}) {
    const ProgramRun run = Write(rule);
    EXPECT_EQ(run.status, 1) << rule;
    EXPECT_TRUE(Contains(run.err, cause)) << run.err;
    EXPECT_GT(CountsNow().injected, 0u) << rule;
    EXPECT_EQ(FilesBelow(At("root")), (std::map<std::string, std::string>{{"new", before}}));
  }
  EXPECT_EQ(Write("write:1000:ENOSPC").status, 0);
  EXPECT_EQ(Write("write:nonsense").status, faults::kCannotFollow);
}

TEST_F(FaultLayer, WritesShortOrTearsAndKills) {
  const std::string before = FilesBelow(At("root"))["new"];
  const uint64_t writes = CountsNow().calls[faults::kWriteCall];
  EXPECT_EQ(Write("write:1+:short").status, 0);
  EXPECT_GT(CountsNow().calls[faults::kWriteCall], writes);
  EXPECT_EQ(FilesBelow(At("root"))["new"], before);
  EXPECT_EQ(Write("write:1:tear").status, 128 + 9);
  auto files = FilesBelow(At("root"));
  EXPECT_EQ(files["new"], before);
  files.erase("new");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_GT(files.begin()->second.size(), 0u);
  EXPECT_LT(files.begin()->second.size(), before.size());
  EXPECT_EQ(Write("any:3:kill").status, 128 + 9);
  EXPECT_EQ(Write("").status, 0);
  EXPECT_EQ(FilesBelow(At("root")), (std::map<std::string, std::string>{{"new", before}}));
}

TEST_F(FaultLayer, TheJournalTellsOfEveryChange) {
  fs::create_directory(At("before"));
  fs::remove(At("root/new"));
  ASSERT_EQ(Write("").status, 0);
  faults::Disk disk(At("before"));
  for (const Change& change : faults::ReadJournal(At("journal"))) disk.Apply(change);
  disk.Cut(At("all"), faults::Survives::kAll);
  disk.Cut(At("safe"), faults::Survives::kNothing);
  EXPECT_EQ(FilesBelow(At("all")), FilesBelow(At("root")));
  EXPECT_EQ(FilesBelow(At("safe")), FilesBelow(At("root")));
}

}  // namespace
}  // namespace folio
