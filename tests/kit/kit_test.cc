// Tests of the kit itself: mistakes must fail a test, and correct results must not.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

const auto kRefuse = [] { throw InputError("what", "cause", "help"); };

TEST(Kit, RefusalsAreOfTheirKindAndInWords) {
  EXPECT_EQ(ErrorOf(kRefuse, ErrorKind::kInput), "what | cause");
  EXPECT_EQ(ErrorAndHelp(kRefuse, ErrorKind::kInput), "what | cause | help");
  EXPECT_NONFATAL_FAILURE(Refused([] {}, ErrorKind::kInput), "no folio::Error");
  EXPECT_NONFATAL_FAILURE(Refused(kRefuse, ErrorKind::kUsage), "what: cause");
}

TEST(Kit, TextsAreSearchedForAllParts) {
  EXPECT_TRUE(Contains("one two", "one", std::string("two")));
  EXPECT_FALSE(Contains("one two", "one", "three"));
  EXPECT_EQ(Count("aaa", "aa"), 2u);
  EXPECT_EQ(Count("", "a"), 0u);
}

TEST(Kit, NumbersMustBeNearAndThere) {
  ExpectNear({1, 2}, {1, 2 + kFloat32Row / 2}, kFloat32Row);
  EXPECT_NONFATAL_FAILURE(ExpectNear({1, 2}, {1, 2 + 2 * kFloat32Row}, kFloat32Row), "tolerance");
  EXPECT_NONFATAL_FAILURE(ExpectNear({1, NAN}, {1, 2}, kFloat32Row), "tolerance");
  EXPECT_FATAL_FAILURE(ExpectNear({1}, {1, 2}, kFloat32Row), "size");
  const std::vector<double> large = {100, 0.1}, off = {100, 0.2}, none = {100, NAN};
  ExpectClose(off, large, 1.1e-3);
  EXPECT_NONFATAL_FAILURE(ExpectClose(off, large, 0.9e-3), "Difference");
  EXPECT_NONFATAL_FAILURE(ExpectClose(none, large, 1), "Difference");
  EXPECT_EQ(QuotedTo(4), 0.5e-4);
}

class KitDirectory : public InTemporaryDirectory {};

TEST_F(KitDirectory, BelongsToOneTest) {
  EXPECT_EQ(Names(), Strings{});
  std::filesystem::create_directory(At("d"));
  std::ofstream(At("d/f")) << "bytes";
  EXPECT_EQ(Names(), Strings{"d"});
  EXPECT_EQ(FilesBelow(At("")), (std::map<std::string, std::string>{{"d/f", "bytes"}}));
}

TEST_F(KitDirectory, ShellTextRunsInItWithoutSettingsFromOutside) {
  setenv("FOLIO_TRAIN_SEED", "7", 1);
  const ProgramRun run = RunShell(At(""), "pwd; env | grep -c FOLIO; echo e >&2; cat; exit 3");
  unsetenv("FOLIO_TRAIN_SEED");
  EXPECT_EQ(run.out, std::filesystem::canonical(At("")).string() + "\n0\n");
  EXPECT_EQ(run.err, "e\n");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(RunShell(At(""), "kill -9 $$").status, 128 + 9);
  EXPECT_EQ(Names(), Strings{});
}

TEST(Kit, PathsLeadSomewhere) {
  EXPECT_TRUE(exists(SourceDir() / "tests/kit/kit_test.cc"));
  EXPECT_TRUE(exists(Fixture("gpt2-tiny") / "expected.safetensors"));
  EXPECT_EQ(TestData("no/such/file"), "");
}

}  // namespace
}  // namespace folio
