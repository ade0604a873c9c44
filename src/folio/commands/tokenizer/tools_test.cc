// Runs the real program: folio tokenizer count, info, encode --explain and fetch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/commands/tokenizer/test_tokenizer_shell.h"
#include "folio/io/file.h"
#include "folio/text/encodings.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
TEST_F(TokenizerCommandTest, CountsAddUp) {
  Write("a", "hello é");
  Write("b", "\xFF");
  const nlohmann::json json = nlohmann::json::parse(Out("$T count a b --tokenizer bpe --json"));
  EXPECT_EQ(json.at("files").at(0), nlohmann::json({{"file", "a"},
                                                    {"tokens", 4},
                                                    {"bytes", 8},
                                                    {"characters", 7},
                                                    {"bytes_per_token", 2.0}}));
  EXPECT_EQ(json.at("total").at("tokens"), 5);
  EXPECT_EQ(json.at("total").at("bytes"), 9);
  EXPECT_EQ(json.at("total").at("characters"), 8);
  const std::string table = Out("$T count a b --tokenizer bpe");
  EXPECT_TRUE(Contains(table, "5      9           8        1.800  total\n"));
  EXPECT_EQ(Out("cat a | $T count --tokenizer bpe").find("total"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(Out("$T count --tokenizer bpe --json"))
                .at("total")
                .at("bytes_per_token"),
            0.0);
}

TEST_F(TokenizerCommandTest, InfoTellsWhatTheTokenizerIs) {
  const nlohmann::json json = nlohmann::json::parse(Out("$T info --tokenizer bpe --json"));
  EXPECT_EQ(json.at("kind"), "bpe");
  EXPECT_EQ(json.at("vocab_size"), kSmallEnd + 1);
  EXPECT_EQ(json.at("merges"), 7);
  EXPECT_EQ(json.at("pattern"), "gpt2");
  EXPECT_EQ(json.at("special_tokens"),
            nlohmann::json::parse("[{\"text\":\"<|a_longer_one|>\",\"id\":69999},"
                                  "{\"text\":\"<|end|>\",\"id\":70000}]"));
  EXPECT_EQ(json.at("longest_token"),
            nlohmann::json::parse("{\"id\":259,\"text\":\"hello\",\"hex\":\"68656c6c6f\"}"));
  EXPECT_EQ(json.at("hash").get<std::string>().size(), 32u);
  EXPECT_FALSE(json.at("files").empty());
  EXPECT_TRUE(Contains(Out("$T info --tokenizer bpe"), "70000 \"<|end|>\""));
  EXPECT_TRUE(Contains(Out("$T info --tokenizer char"), "vocabulary    5\n"));
  EXPECT_EQ(Out("$T info --tokenizer bpe --token 10 --token 259"),
            "10 \"\\n\" (1 bytes: 0A)\n259 \"hello\" (5 bytes: 68 65 6C 6C 6F)\n");
  Wrong("$T info --tokenizer bpe --token 70001", 3);
  Wrong("$T info --tokenizer bpe --token x", 2);
}

TEST_F(TokenizerCommandTest, ExplainedMergesLeadToTheIds) {
  Write("t", "hello hello<|end|>\xFFwo wo\n");
  const nlohmann::json json =
      nlohmann::json::parse(Out("$T encode t --explain --json --special allow --tokenizer bpe"));
  std::string bytes;
  std::vector<int32_t> ids;
  const BpeVocab vocab = HelloVocab();
  for (const nlohmann::json& piece : json.at("pieces")) {
    std::vector<int32_t> symbols;
    for (const nlohmann::json& byte : piece.at("bytes")) {
      bytes += static_cast<char>(byte.get<int>());
      symbols.push_back(byte.get<int32_t>());
    }
    if (piece.contains("special")) symbols = {kSmallEnd};
    for (const nlohmann::json& merge : piece.at("merges")) {
      const auto rank = merge.at("rank").get<size_t>();
      const BpeMerge made{merge.at("left"), merge.at("right"), merge.at("merged")};
      ASSERT_LT(rank, vocab.merges.size());
      EXPECT_EQ(vocab.merges[rank], made);
      size_t at = 0;
      while (symbols.at(at) != made.left || symbols.at(at + 1) != made.right) ++at;
      symbols[at] = made.merged;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    EXPECT_EQ(piece.at("ids"), nlohmann::json(symbols)) << piece;
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
  EXPECT_EQ(bytes, Read("t"));
  EXPECT_EQ(
      nlohmann::json::parse(Out("$T encode t --json --special allow --tokenizer bpe")).at("ids"),
      nlohmann::json(ids));
}

TEST_F(TokenizerCommandTest, AnExplanationCanBeRead) {
  EXPECT_EQ(Out("$T encode --text 'hello!' --explain --tokenizer bpe"),
            "\"hello\"  68 65 6C 6C 6F\n"
            "    1. rank      0  \"ll\"     \"h\" \"e\" \"ll\" \"o\"\n"
            "    2. rank      1  \"he\"     \"he\" \"ll\" \"o\"\n"
            "    3. rank      2  \"hell\"   \"hell\" \"o\"\n"
            "    4. rank      3  \"hello\"  \"hello\"\n"
            "  -> 259 \"hello\"\n"
            "\"!\"  21\n"
            "  -> 33 \"!\"\n");
  EXPECT_EQ(Out("$T encode --text 'a é' --explain --tokenizer char"),
            "\"a\"  61\n  -> 2 \"a\"\n\" \"  20\n  -> 1 \" \"\n\"é\"  C3 A9\n  -> 4 \"é\"\n");
}

TEST_F(TokenizerCommandTest, FetchSaysWhatIsWrong) {
  EXPECT_TRUE(Contains(Wrong("$T fetch gpt3", 2), "gpt2"));
  Wrong("$T fetch", 2);
  Wrong("$T fetch gpt2 --from missing", 3);
  EXPECT_TRUE(Contains(Out("$T fetch --list"), "gpt2"));
  const nlohmann::json json = nlohmann::json::parse(Out("FOLIO_HOME=h $T fetch --list --json"));
  EXPECT_EQ(json.at("encodings").size(), PublishedEncodings().size());
  for (const nlohmann::json& encoding : json.at("encodings")) EXPECT_EQ(encoding.at("here"), false);
  EXPECT_FALSE(fs::exists(At("h")));
}

TEST_F(TokenizerCommandTest, WithoutANetworkFetchTellsTheOtherWay) {
  const std::string error =
      Wrong("https_proxy=http://127.0.0.1:1 FOLIO_HOME=h $T fetch gpt2 -q", 1);
  for (const PublishedFile& file : FindPublishedEncoding("gpt2")->files) {
    EXPECT_TRUE(Contains(error, file.url, "h/tokenizers/gpt2/" + std::string(file.name)));
  }
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 3) << error;
}

TEST_F(TokenizerCommandTest, FilesFromADirectoryAreCheckedAndKept) {
  if (TestData("gpt2/vocab.bpe").empty()) GTEST_SKIP() << "vocabulary not here";
  const std::string source = fs::path(TestData("gpt2/vocab.bpe")).parent_path().string();
  fs::create_directories(At("bad"));
  for (const PublishedFile& file : FindPublishedEncoding("gpt2")->files) {
    std::string bytes = ReadFile(fs::path(source) / file.name);
    bytes[bytes.size() / 2] ^= 1;
    Write("bad/" + std::string(file.name), bytes);
  }
  Wrong("FOLIO_HOME=h $T fetch gpt2 --from bad -q", 3);
  const ProgramRun run = Shell("FOLIO_HOME=h $T fetch gpt2 --from '" + source + "'");
  EXPECT_EQ(run.status, 0) << run.err;
  // Nothing is asked of the network any more.
  const ProgramRun again = Shell("https_proxy=http://127.0.0.1:1 FOLIO_HOME=h $T fetch gpt2");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(Contains(again.err, "already"));
  EXPECT_EQ(Out("FOLIO_HOME=h $T encode --text 'Hello, world' --tokenizer gpt2"), "15496 11 995\n");
}

TEST_F(TokenizerCommandTest, AFileOfTwoEncodingsIsFetchedOnce) {
  const std::string source = TestData("tiktoken/p50k_base.tiktoken");
  if (source.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::string from = "'" + fs::path(source).parent_path().string() + "'";
  EXPECT_EQ(Shell("FOLIO_HOME=h $T fetch p50k_base --from " + from).status, 0);
  const ProgramRun edit = Shell("https_proxy=http://127.0.0.1:1 FOLIO_HOME=h $T fetch p50k_edit");
  EXPECT_EQ(edit.status, 0) << edit.err;
  EXPECT_TRUE(Contains(edit.err, "p50k_edit is in h/tokenizers/p50k_base already"));
  EXPECT_EQ(
      Out("FOLIO_HOME=h $T encode --text '<|fim_middle|>' --special allow --tokenizer p50k_edit"),
      "50282\n");
}

}  // namespace
}  // namespace folio
