#include "folio/text/encode_parallel.h"

#include <gtest/gtest.h>

#include "folio/text/char_tokenizer.h"
#include "folio/text/test_pair_tokenizer.h"
#include "folio/text/test_tokenizer_properties.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class EncodeParallelTest : public testing::Test {
 private:
  KeptThreads kept_;
};

std::string Words(size_t parts, uint64_t seed) {
  TestRng rng(seed);
  return RandomText({"a", "bc", " ", "  ", "def ", "\n", "\u00E9"}, parts, rng);
}

TEST_F(EncodeParallelTest, IdsDoNotDependOnGrainOrThreads) {
  const PairTokenizer tokenizer;
  const std::string text = Words(20'011, 1) + std::string(5000, 'x') + Words(5003, 2);
  const std::vector<int32_t> expected = tokenizer.EncodeOrdinary(text);
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    for (const size_t grain : {size_t{1}, size_t{7}, size_t{1000}, text.size(), size_t{1} << 40}) {
      EXPECT_EQ(ParallelIds(tokenizer, text, "text", grain), expected) << threads << " " << grain;
    }
  }
  EXPECT_EQ(ParallelIds(tokenizer, ""), std::vector<int32_t>{});
  EXPECT_EQ(ParallelIds(tokenizer, "<|end|>"), tokenizer.EncodeOrdinary("<|end|>"));
}

TEST_F(EncodeParallelTest, ATextWithoutACutStaysWhole) {
  const PairTokenizer tokenizer;
  const std::string text(100'001, 'x');
  EXPECT_EQ(ParallelIds(tokenizer, text, "text", 100), tokenizer.EncodeOrdinary(text));
}

TEST_F(EncodeParallelTest, AddsToWhatIsThereAndStopsBetweenPieces) {
  const PairTokenizer tokenizer;
  const std::string text = Words(2'000, 3);
  SetThreads(1);  // with several, the calling thread may come too late
  std::vector<int32_t> ids = {-1};
  size_t last = 0, heard = 0;
  const auto hear = [&](size_t done) {
    EXPECT_GE(done, last);
    last = done;
    ++heard;
    return true;
  };
  EXPECT_TRUE(EncodeParallel(tokenizer, text, "text", ids, hear, 100));
  EXPECT_EQ(ids, properties::Joined({-1}, tokenizer.EncodeOrdinary(text)));
  EXPECT_GT(heard, 2u);
  EXPECT_LT(last, text.size());
  const size_t all = ids.size();
  ids.clear();
  EXPECT_FALSE(EncodeParallel(
      tokenizer, text, "text", ids, [](size_t) { return false; }, 100));
  EXPECT_EQ(ids.size(), 0u);
  int asked = 0;
  EXPECT_FALSE(EncodeParallel(
      tokenizer, text, "text", ids, [&](size_t) { return ++asked < 5; }, 100));
  EXPECT_GT(ids.size(), 0u);
  EXPECT_LT(ids.size(), all / 2);
  EXPECT_FALSE(EncodeParallel(tokenizer, "ab", "text", ids, [](size_t) { return false; }));
}

TEST_F(EncodeParallelTest, TheFirstErrorInTheTextIsRaised) {
  const CharTokenizer letters({U'\n', U'a', U'\u00E9'});
  const std::string good = "aa\na\u00E9";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += good;
  const std::string bad = text + "ab" + text + "c" + text + "\xE2\x82" + text;
  for (const int threads : {1, 4}) {
    SetThreads(threads);
    for (const size_t grain : {1u, 100u, 1u << 20}) {
      const std::string error = ErrorOf([&] { ParallelIds(letters, bad, "x.txt", grain); });
      EXPECT_TRUE(Contains(error, "x.txt:1001:4: ", "'b'"));
      const std::string invalid =
          ErrorOf([&] { ParallelIds(letters, text + "\xE2\x82" + text, "x.txt", grain); });
      EXPECT_TRUE(Contains(invalid, "offset " + std::to_string(text.size()) + " "));
    }
  }
}

TEST_F(EncodeParallelTest, BatchesOfShortAndLongTextsAreAsOneByOne) {
  const PairTokenizer tokenizer;
  std::vector<std::string> texts = {"", "a", Words(100'000, 3), " "};
  for (uint64_t i = 0; i < 3000; ++i) texts.push_back(Words(i % 37, i));
  texts.push_back(Words(2'500'000, 4));  // long enough to be cut itself
  texts.push_back("end");
  ASSERT_GT(texts[texts.size() - 2].size(), size_t{1} << 22);
  for (const int threads : {1, 3}) {
    SetThreads(threads);
    EXPECT_TRUE(BatchMatchesSingle(tokenizer, texts));
    EXPECT_TRUE(BatchMatchesSingle(tokenizer, {"only one"}));
    EXPECT_TRUE(BatchMatchesSingle(tokenizer, {}));
  }
}

TEST_F(EncodeParallelTest, ABatchNamesTheFirstTextThatFails) {
  const CharTokenizer letters({U'\n', U'a'});
  std::vector<std::string> texts(5000, "aa");
  texts[4000] = "a\nab";
  texts[4001] = "b";
  texts[4999] = "b";
  const auto error = [&] {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    return ErrorOf([&] { EncodeBatch(letters, views); });
  };
  for (const int threads : {1, 4}) {
    SetThreads(threads);
    EXPECT_TRUE(Contains(error(), "texts[4000]:2:2: "));
  }
  texts[17] = std::string(5'000'000, 'a') + "c";
  EXPECT_TRUE(Contains(error(), "texts[17]:1:5000001: "));
}

}  // namespace
}  // namespace folio
