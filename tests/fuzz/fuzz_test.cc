#include <gtest/gtest.h>

#include <string>

#include "bodies.h"
#include "folio/text/test_texts.h"
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
  }
}

}  // namespace
}  // namespace folio
