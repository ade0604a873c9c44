#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_bpe_oracle.h"
#include "folio/text/test_texts.h"
#include "folio/text/vocab_files.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

// The published vocabularies, and numbers that must come out.

namespace folio {
namespace {

using Ids = std::vector<int32_t>;
std::unique_ptr<Tokenizer> Gpt2() {
  const std::string merges = TestData("gpt2/vocab.bpe");
  return merges.empty() ? nullptr : LoadTokenizer(merges);
}

std::vector<nlohmann::json> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(BpeTokenizerGolden, Vectors) {
  const auto gpt2 = Gpt2();
  const std::string path = GoldenFile("tokenizer/golden_public.jsonl");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::vector<nlohmann::json> lines = Lines(path);
  EXPECT_EQ(lines.size(), 40u);
  for (const nlohmann::json& line : lines) {
    const SpecialRule rule =
        line["mode"] == "special" ? SpecialRule::Allow() : SpecialRule::Ordinary();
    EXPECT_EQ(gpt2->Encode(line["text"].get<std::string>(), "text", rule), line["ids"].get<Ids>())
        << line["id"];
  }
}

TEST(BpeTokenizerGolden, DecodedBytesAndText) {
  const auto gpt2 = Gpt2();
  const std::string path = GoldenFile("tokenizer/golden_decode.jsonl");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::vector<nlohmann::json> lines = Lines(path);
  EXPECT_EQ(lines.size(), 60u);
  for (const nlohmann::json& line : lines) {
    const Ids ids = line["ids"].get<Ids>();
    std::string hex;
    for (const char byte : gpt2->Decode(ids)) {
      constexpr char kDigits[] = "0123456789abcdef";
      hex += kDigits[static_cast<unsigned char>(byte) >> 4];
      hex += kDigits[byte & 15];
    }
    EXPECT_EQ(hex, line["bytes_hex"]) << line["id"];
    EXPECT_EQ(gpt2->DecodeText(ids), line["text_replace"]) << line["id"];
  }
}

TEST(BpeTokenizerGolden, TinyShakespeare) {
  const auto gpt2 = Gpt2();
  const std::string path = TestData("tinyshakespeare/input.txt");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::string text = ReadFile(path);
  EXPECT_EQ(gpt2->Count(text), 338025);
  const size_t cut = text.size() * 9 / 10;  // it is ASCII
  EXPECT_EQ(gpt2->Count(std::string_view(text).substr(0, cut)), 301966);
  EXPECT_EQ(gpt2->Count(std::string_view(text).substr(cut)), 36059);
}

// Every token that can be a text by itself is encoded as itself; and the oracle agrees on texts of
// the real vocabularies' own tokens.
TEST(BpeTokenizerGolden, TokensOfEveryVocabulary) {
  constexpr size_t kStep = kSanitized ? 16 : 1;
  for (const char* file : {"r50k_base", "p50k_base", "cl100k_base", "o200k_base"}) {
    const std::string path = TestData(std::string("tiktoken/") + file + ".tiktoken");
    if (path.empty()) GTEST_SKIP() << "vocabulary not here";
    const BpeTokenizer tokenizer(ReadTiktoken(path, file));
    const BpeOracle oracle(tokenizer);
    const ByteStrings& tokens = tokenizer.vocab().tokens;
    std::vector<bool> special(tokens.size());
    for (const SpecialToken& s : tokenizer.vocab().specials)
      special[static_cast<size_t>(s.id)] = true;
    int64_t alone = 0;
    for (size_t id = 0; id < tokens.size(); id += kStep) {
      if (tokens[id].empty() || special[id]) continue;
      const std::string text(tokens[id]);
      if (NextPretoken(tokenizer.vocab().pattern, text, 0) != text.size())
        continue;  // several pretokens
      ASSERT_EQ(tokenizer.EncodeOrdinary(text), Ids{static_cast<int32_t>(id)}) << file;
      ++alone;
    }
    EXPECT_GT(alone, static_cast<int64_t>(tokens.size() / kStep) * 95 / 100) << file;
    TestRng rng(5);
    for (int i = 0; i < (kSanitized ? 50 : 200); ++i) {
      std::string text;
      for (size_t n = rng.Below(40); n > 0; --n) text += tokens[rng.Below(tokens.size())];
      ASSERT_EQ(tokenizer.EncodeOrdinary(text), oracle.Encode(text)) << file << ": " << text;
    }
  }
}

}  // namespace
}  // namespace folio
