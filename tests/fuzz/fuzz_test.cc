#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "bodies.h"
#include "folio/text/test_texts.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

std::string RandomBytes(TestRng& rng, size_t most) {
  std::string bytes;
  for (size_t length = rng.Below(most + 1); length > 0; --length) {
    bytes += static_cast<char>(rng.Below(256));
  }
  return bytes;
}

TEST(Fuzz, TokenizersAgreeOnRandomInputs) {
  TestRng rng(1);
  for (int i = 0; i < (kSanitized ? 100 : 500); ++i)
    ASSERT_TRUE(TokenizerAgrees(RandomBytes(rng, 200))) << i;
}

TEST(Fuzz, RandomTokenizerFilesAreReadOrRefused) {
  TestRng rng(2);
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(TokenizerFileIsReadOrRefused(RandomBytes(rng, i % 2 == 0 ? 10 : 40))) << i;
  }
}

TEST(Fuzz, RandomChatTemplatesAreRenderedOrRefused) {
  TestRng rng(7);
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(ChatTemplateIsRenderedOrRefused(RandomBytes(rng, i % 2 == 0 ? 20 : 60))) << i;
  }
}

TEST(Fuzz, RandomTextsAndTokensAreReadOrRefused) {
  TestRng rng(3);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(TextIsReadOrRefused(RandomBytes(rng, 100))) << i;
    ASSERT_TRUE(TokensAreReadOrRefused(RandomBytes(rng, 100))) << i;
  }
}

TEST(Fuzz, RandomModelFilesAreReadOrRefused) {
  TestRng rng(4);
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(GgufIsReadOrRefused(RandomBytes(rng, i % 2 == 0 ? 12 : 60))) << i;
    ASSERT_TRUE(TorchFileIsReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(LlmcFileIsReadOrRefused(RandomBytes(rng, 20))) << i;
    ASSERT_TRUE(TfBundleIsReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(SafetensorsAreReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(ModelDirectoryIsReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(RunFilesAreReadOrRefused(RandomBytes(rng, 40))) << i;
  }
}

TEST(Fuzz, RandomRequestsAreAnswered) {
  TestRng rng(6);
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(RequestIsAnswered(RandomBytes(rng, 30))) << i;
}

TEST(Fuzz, RandomJsonSettingsAndLinesAreReadOrRefused) {
  TestRng rng(5);
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(JsonIsReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(SettingsAreReadOrRefused(RandomBytes(rng, 40))) << i;
    ASSERT_TRUE(LinesAreReadOrRefused(RandomBytes(rng, 40))) << i;
  }
}

// The corpus has the inputs that fuzzing has found, including those that once broke something:
// tests/fuzz/corpus, a directory for each target.
TEST(Fuzz, TheCorpusIsReadOrRefused) {
  const std::map<std::string, testing::AssertionResult (*)(std::string_view)> bodies = {
#include "targets.inc"
  };
  std::set<std::string> targets;
  for (const auto& [file, bytes] : FilesBelow(SourceDir() / "tests/fuzz/corpus")) {
    const std::string target = file.substr(0, file.find('/'));
    ASSERT_TRUE(bodies.contains(target)) << file;
    EXPECT_TRUE(bodies.at(target)(bytes)) << file;
    targets.insert(target);
  }
  EXPECT_EQ(targets.size(), bodies.size());
}

}  // namespace
}  // namespace folio
