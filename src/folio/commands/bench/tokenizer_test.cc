// These tests check that the benchmark runs and counts right; how fast anything is, is not tested.
#include <gtest/gtest.h>

#include <map>

#include "folio/bench/tokenizer_speed.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

class BenchTokenizerTest : public InTemporaryDirectory {
 protected:
  // 2,345,678 letters, and a multibyte one across the end of the first kilobyte.
  std::string GenerateText() const {
    std::string text(2'345'678, 'a');
    text.replace(999, 3, "日");
    WriteFileAtomically(At("text.txt"), text);
    return At("text.txt").string();
  }
};

TEST_F(BenchTokenizerTest, EveryMeasureCountsTheSameBytesAndTokens) {
  const BenchTokenizerOptions options{
      .tokenizer = "bytes",
      .files = {GenerateText()},
      .measures = {TokenizerMeasure::kLoad, TokenizerMeasure::kFirst, TokenizerMeasure::kEncode,
                   TokenizerMeasure::kDecode, TokenizerMeasure::kTrain},
      .bytes = 1'234'567,
      .merges = 5,
      .seconds = 0};
  std::map<std::string, int> rows;
  BenchTokenizer(options, [&](const TokenizerTiming& timing) {
    ++rows[std::string(TokenizerMeasureName(timing.measure))];
    const bool train = timing.measure == TokenizerMeasure::kTrain;
    ASSERT_EQ(timing.seconds.size(), train ? 1u : 3u);
    EXPECT_GT(timing.median(), 0);
    if (timing.measure == TokenizerMeasure::kLoad) {
      EXPECT_EQ(timing.bytes, 0u);
      return;
    }
    if (train) {
      EXPECT_LT(timing.tokens, static_cast<int64_t>(timing.bytes) / 10);
    } else {
      EXPECT_EQ(timing.tokens, static_cast<int64_t>(timing.bytes));
    }
    if (timing.measure == TokenizerMeasure::kFirst) {
      EXPECT_EQ(timing.bytes, 999u);
      return;
    }
    EXPECT_GT(timing.copy_seconds, 0);
    if (timing.calls == 1) {
      EXPECT_TRUE(timing.bytes == 1'000'000 || timing.bytes == 1'234'567) << timing.bytes;
    } else {
      EXPECT_EQ(timing.calls, 1235);
      EXPECT_EQ(timing.bytes, 1'234'567u);
    }
  });
  // Calls of 1 KB, 1 MB and all, on one thread cold and warm; all and 1 KB on all threads.
  EXPECT_EQ(rows, (std::map<std::string, int>{
                      {"load", 1}, {"first", 1}, {"encode", 9}, {"decode", 1}, {"train", 1}}));
}

TEST_F(BenchTokenizerTest, ShortTextIsMeasuredOnce) {
  WriteFileAtomically(At("short.txt"), "abc");
  std::vector<uint64_t> bytes;
  BenchTokenizer({.tokenizer = "bytes",
                  .files = {At("short.txt").string()},
                  .measures = {TokenizerMeasure::kEncode},
                  .seconds = 0},
                 [&](const TokenizerTiming& timing) { bytes.push_back(timing.bytes); });
  EXPECT_EQ(bytes, (std::vector<uint64_t>{3, 3, 3, 3, 3}));
}

TEST_F(BenchTokenizerTest, JsonHasSpeedsAndShares) {
  const nlohmann::json json = Answer(
      "bench tokenizer --tokenizer bytes --language russian --only encode --only load --bytes "
      "20001 "
      "--threads 1");
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("rows").size(), 8u);
  for (const nlohmann::json& row : json.at("rows")) {
    const double seconds = row.at("seconds");
    EXPECT_LE(row.at("seconds_min").get<double>(), seconds);
    EXPECT_GE(row.at("seconds_max").get<double>(), seconds);
    EXPECT_NEAR(row.at("ns_per_call").get<double>() * row.at("calls").get<double>(), seconds * 1e9,
                seconds);
    if (row.at("what") == "load") {
      EXPECT_FALSE(row.contains("bytes_per_second")) << row;
      continue;
    }
    EXPECT_EQ(row.at("text"), "russian");
    const double bytes = row.at("bytes");
    EXPECT_NEAR(row.at("bytes_per_second").get<double>() * seconds, bytes, bytes * 1e-9);
    EXPECT_EQ(row.at("bytes_per_token"), 1);
    EXPECT_NEAR(row.at("ns_per_token").get<double>() * bytes, seconds * 1e9, seconds);
    const double share = row.at("memcpy_share");
    EXPECT_NEAR(share * row.at("memcpy_bytes_per_second").get<double>(),
                row.at("bytes_per_second").get<double>(),
                row.at("bytes_per_second").get<double>() * 1e-9);
  }
}

TEST_F(BenchTokenizerTest, TableIsForPeople) {
  EXPECT_TRUE(
      Contains(Well(RunFolio("bench tokenizer --tokenizer bytes --only decode --bytes 5000")).out,
               "MB/s", "of memcpy", "english", "code", "chinese", "japanese", "russian", "decode"));
}

TEST_F(BenchTokenizerTest, MistakesAreRefused) {
  EXPECT_EQ(RunFolio("bench tokenizer --tokenizer bytes --only speed").status, 2);
  EXPECT_EQ(RunFolio("bench tokenizer --tokenizer bytes --language klingon").status, 2);
  EXPECT_EQ(RunFolio("bench tokenizer --tokenizer bytes --file " + At("none").string()).status, 3);
  WriteFileAtomically(At("empty.txt"), "");
  EXPECT_EQ(RunFolio("bench tokenizer --tokenizer bytes --file " + At("empty.txt").string()).status,
            3);
}

}  // namespace
}  // namespace folio
