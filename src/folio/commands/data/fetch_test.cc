#include <gtest/gtest.h>

#include "folio/corpus/fetch_published.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class DataFetch : public InTemporaryDirectory {
 protected:
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }
};

constexpr char kFetch[] = "https_proxy=http://127.0.0.1:1 $F data fetch tinyshakespeare ";

TEST_F(DataFetch, WithoutANetworkItSaysWhatToPutWhere) {
  const std::string fetch = std::string(kFetch) + "--out texts/t.txt -q";
  const ProgramRun nowhere = Shell(fetch);
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_TRUE(Contains(nowhere.err, "texts is not an existing directory", "mkdir -p "));
  fs::create_directory(At("texts"));
  const ProgramRun run = Shell(fetch);
  EXPECT_EQ(run.status, 1);
  const std::string url(PublishedText("tinyshakespeare").url);
  EXPECT_TRUE(Contains(run.err, "download " + url + " elsewhere and put it here as texts/t.txt"));
  EXPECT_TRUE(fs::is_empty(At("texts")));
}

TEST_F(DataFetch, KnowsItsTexts) {
  const ProgramRun run = Shell("$F data fetch shakespeare");
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(Contains(run.err, "'shakespeare'", "tinyshakespeare"));
}

TEST_F(DataFetch, NeverReplacesOrKeepsAnotherText) {
  WriteFileAtomically(At("mine.txt"), "my own");
  const ProgramRun refused = Shell(std::string(kFetch) + "--out mine.txt");
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Contains(refused.err, "mine.txt: is there already", "--overwrite"));
  const ProgramRun other = Shell("$F data fetch tinyshakespeare --from mine.txt");
  EXPECT_EQ(other.status, 3);
  EXPECT_TRUE(Contains(other.err, "mine.txt is not the published file", "1115394"));
  EXPECT_FALSE(fs::exists(At("tinyshakespeare.txt")));
  EXPECT_EQ(ReadFile(At("mine.txt")), "my own");
}

TEST_F(DataFetch, ThePublishedTextIsKept) {
  const std::string source = TestData("tinyshakespeare/input.txt");
  if (source.empty()) GTEST_SKIP() << "tinyshakespeare is not here; set FOLIO_TEST_DATA";
  const ProgramRun run = Shell("$F data fetch tinyshakespeare --from '" + source + "'");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.err, "next: folio train --data tinyshakespeare.txt"));
  EXPECT_TRUE(ReadFile(At("tinyshakespeare.txt")) == ReadFile(source));
  // Nothing is asked of the network any more.
  const ProgramRun again = Shell(std::string(kFetch) + "--json");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(Contains(again.err, "already"));
  EXPECT_TRUE(Contains(again.out, "\"path\":\"tinyshakespeare.txt\""));
}

}  // namespace
}  // namespace folio
