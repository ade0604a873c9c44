#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encode_input.h"
#include "folio/text/published_encodings.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kSmallEnd = 70'000;  // more than 16 bits

// Bytes, a few merges ("hello" is 259, " wo" 261, the last one begins a character) and two special
// tokens; one has a place to cut inside.
BpeVocab HelloVocab() {
  BpeVocab vocab = ByteVocab();
  const int32_t ll = AddMerge(vocab, 'l', 'l');
  const int32_t he = AddMerge(vocab, 'h', 'e');
  AddMerge(vocab, AddMerge(vocab, he, ll), 'o');
  AddMerge(vocab, AddMerge(vocab, ' ', 'w'), 'o');
  AddMerge(vocab, 'x', 0xC3);
  while (vocab.tokens.size() < kSmallEnd - 1) AddToken(vocab, "");
  for (const char* special : {"<|a_longer_one|>", "<|end|>"}) AddSpecial(vocab, special);
  return vocab;
}

// Runs `folio tokenizer` in a directory with the tokenizers bpe/ (HelloVocab) and char/ (line
// break, space, a, b, é).
class TokenizerCommandTest : public InTemporaryDirectory {
 protected:
  TokenizerCommandTest() {
    for (const char* name : {"bpe", "char"}) std::filesystem::create_directories(At(name));
    BpeTokenizer(HelloVocab()).Save(At("bpe").string());
    CharTokenizer({'\n', ' ', 'a', 'b', U'é'}).Save(At("char").string());
  }

  // Runs shell text in the directory; $T is `folio tokenizer`.
  ProgramRun Shell(const std::string& text) const {
    return RunShell(At(""), "T=\"$F tokenizer\"\n" + text);
  }
  std::string Out(const std::string& text) {
    const ProgramRun run = Well(Shell(text));
    return run.out;
  }
  // The standard error of a run that must end with `status` and print nothing else.
  std::string Wrong(const std::string& text, int status) {
    const ProgramRun run = Shell(text);
    EXPECT_EQ(run.status, status) << text << "\n" << run.err;
    EXPECT_EQ(run.out, "") << text;
    EXPECT_TRUE(run.err.starts_with("error: ")) << run.err;
    return run.err;
  }

  std::string Read(const std::string& name) { return ReadFile(At(name)); }
};
std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256 * 3; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}

TEST_F(TokenizerCommandTest, IdsAreOneLineOfNumbersOrOneObject) {
  EXPECT_EQ(Out("printf 'hello wo' | $T encode --tokenizer bpe"), "259 261\n");
  EXPECT_EQ(Out("$T encode --text 'hello wo' --tokenizer bpe --json"), "{\"ids\":[259,261]}\n");
  EXPECT_EQ(Out("printf 'ab' >t; $T encode t --tokenizer bytes"), "97 98\n");
  EXPECT_EQ(Out("$T encode --text '' --tokenizer bpe"), "\n");
  EXPECT_EQ(Out("$T encode - --tokenizer bpe --json </dev/null"), "{\"ids\":[]}\n");
  EXPECT_EQ(Out("$T encode --text 'a é' --tokenizer char"), "2 1 4\n");
}

TEST_F(TokenizerCommandTest, EveryByteComesBackInEveryFormat) {
  PutFile("t", AllBytes());
  for (const std::string tokenizer : {"bytes", "bpe"}) {
    for (const std::string format : {"text", "u16", "u32", "bin"}) {
      if (tokenizer == "bpe" && format == "u16") continue;
      const std::string flags = " --tokenizer " + tokenizer + " --format " + format;
      EXPECT_EQ(Out("$T encode t" + flags + " | $T decode" + flags), AllBytes()) << flags;
      EXPECT_EQ(Out("$T encode --out i" + flags + " <t; $T decode i" + flags), AllBytes()) << flags;
    }
    const std::string flag = " --tokenizer " + tokenizer;
    EXPECT_EQ(Out("$T encode t --json" + flag + " | $T decode" + flag), AllBytes());
  }
}

TEST_F(TokenizerCommandTest, RawIdsAreLittleEndianAndAsWideAsTheVocabularyNeeds) {
  EXPECT_EQ(Out("$T encode --text ab --format bin --tokenizer bytes"), std::string("a\0b\0", 4));
  EXPECT_EQ(Out("$T encode --text hello --format bin --tokenizer bpe"),
            std::string("\x03\x01\0\0", 4));
  EXPECT_TRUE(Contains(Wrong("$T encode --text a --format u16 --out o --tokenizer bpe", 2),
                       "--format u32"));
  EXPECT_FALSE(fs::exists(At("o")));
  if (Shell("command -v script").status != 0) GTEST_SKIP() << "needs the program script";
  EXPECT_TRUE(Contains(
      Shell("script -qec \"$T encode --text a --format u16 --tokenizer bytes\" /dev/null").out,
      "--out FILE"));
}

TEST_F(TokenizerCommandTest, SpecialTokensAreWhatTheFlagSays) {
  PutFile("t", "a<|end|>hello");
  EXPECT_EQ(Out("$T encode t --special allow --tokenizer bpe"), "97 70000 259\n");
  EXPECT_EQ(Out("$T encode --special allow --tokenizer bpe <t | cat"), "97 70000 259\n");
  EXPECT_EQ(Out("cat t | $T encode --special allow --tokenizer bpe"), "97 70000 259\n");
  EXPECT_EQ(Out("$T encode t --special ordinary --tokenizer bpe"),
            "97 60 124 101 110 100 124 62 259\n");
  for (const char* command :
       {"$T encode t", "cat t | $T encode", "$T count t", "$T encode --explain t"}) {
    EXPECT_TRUE(
        Contains(Wrong(std::string(command) + " --tokenizer bpe", 3), ":1:2: ", "--special allow"));
  }
}

TEST_F(TokenizerCommandTest, ADisallowedTokenFarBackIsSeenBeforeAnythingIsWritten) {
  std::string text = "line\n" + std::string(36 << 20, 'x') + " <|e";
  text += "nd|>";
  PutFile("t", text);
  EXPECT_TRUE(Contains(Wrong("$T encode t --tokenizer bpe", 3), "t:2:37748738: "));
}

TEST_F(TokenizerCommandTest, LongInputsGiveTheIdsOfTheWhole) {
  // The beginning makes the pieces that are read, whose size is a power of two, end inside of
  // special tokens.
  std::string text = "hello hello ";
  while (text.size() < (size_t{kSanitized ? 10 : 70} << 20))
    text += "hello wo, hello <|end|> hell é\n";
  PutFile("t", text);
  for (const std::string special : {"allow", "ordinary"}) {
    if (kSanitized && special == "ordinary") continue;
    const std::string flags = " --tokenizer bpe --format u32 --special " + special;
    EXPECT_EQ(
        Out("$T encode t --threads 2 --out a" + flags + " && cat t | $T encode --out b" + flags +
            " && $T encode t --threads 1 --out c" + flags + " && cmp a b && cmp a c && wc -c <a"),
        std::to_string(4 * (4 + text.size() / 32 * (special == "allow" ? 13 : 19))) + "\n");
  }
  EXPECT_EQ(
      Out("$T encode t --tokenizer bpe --special allow | $T decode --tokenizer bpe | cmp - t"), "");
}

TEST_F(TokenizerCommandTest, TextCutAnywhereGivesTheIdsOfTheWhole) {
  const BpeTokenizer tokenizer(HelloVocab());
  const SpecialFinder specials(tokenizer.special_tokens(), SpecialRule::Allow());
  const char* parts[] = {"hello", " wo",    "<|end|>", "<|end", "<|a_longer_one|>", "x",
                         "|>",    "  \n",   "é",       "中",    "\xE4\xB8",         "7",
                         "a'll",  "\u3000", "<",       "\xFF"};
  const CounterRng rng(3, 0);
  uint64_t draw = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    while (text.size() < 500) text += parts[rng.Below(draw++, std::size(parts))];
    std::vector<int32_t> ids;
    std::string held;
    for (size_t read = 0; read < text.size();) {
      const size_t n = std::min<size_t>(1 + rng.Below(draw++, 40), text.size() - read);
      held += text.substr(read, n);
      read += n;
      held.erase(0, EncodeChunk(tokenizer, specials, held, read == text.size(), "text", ids));
    }
    EXPECT_EQ(held, "");
    ASSERT_EQ(ids, tokenizer.Encode(text, "text", SpecialRule::Allow())) << text;
  }
}

TEST_F(TokenizerCommandTest, AnUnknownCharacterIsNamedWithItsPlace) {
  PutFile("t", "a b\na?");
  EXPECT_TRUE(Contains(Wrong("$T encode t --tokenizer char", 3), "t:2:2: no token"));
  EXPECT_TRUE(Contains(Wrong("cat t | $T encode --tokenizer char", 3), ":2:2: no token"));
}

TEST_F(TokenizerCommandTest, JsonLinesMapToJsonLines) {
  PutFile("t", "{\"text\":\"hello\",\"n\":1}\n{\"hex\":\"fF00\"}\r\n{\"text\":\"\"}");
  EXPECT_EQ(Out("$T encode t --jsonl --tokenizer bpe"),
            "{\"ids\":[259]}\n{\"ids\":[255,0]}\n{\"ids\":[]}\n");
  EXPECT_EQ(Out("$T encode t --jsonl --tokenizer bpe | $T decode --jsonl --tokenizer bpe"),
            "{\"text\":\"hello\"}\n{\"hex\":\"ff00\"}\n{\"text\":\"\"}\n");
  EXPECT_EQ(Out("echo '{\"ids\":[104,255]}' | $T decode --jsonl --replace --tokenizer bpe"),
            "{\"text\":\"h\xEF\xBF\xBD\"}\n");
  EXPECT_EQ(Out("echo '{\"ids\":[104]}' | $T decode --jsonl --hex --tokenizer bpe"),
            "{\"hex\":\"68\"}\n");
}

TEST_F(TokenizerCommandTest, ManyJsonLinesKeepTheirOrder) {
  std::string lines, ids;
  for (int i = 0; i < (kSanitized ? 4'000 : 20'000); ++i) {
    const std::string text(static_cast<size_t>(i % 97), 'a');
    lines += nlohmann::json{{"text", text + std::to_string(i % 10)}}.dump() + "\n";
    nlohmann::json expected = nlohmann::json::array();
    for (const char c : text + std::to_string(i % 10)) expected.push_back(static_cast<int>(c));
    ids += nlohmann::json{{"ids", expected}}.dump() + "\n";
  }
  PutFile("t", lines);
  EXPECT_EQ(Out("$T encode t --jsonl --tokenizer bytes"), ids);
  EXPECT_EQ(Out("cat t | $T encode --jsonl --tokenizer bytes --threads 1"), ids);
}

TEST_F(TokenizerCommandTest, AWrongJsonLineIsNamedAfterTheGoodOnes) {
  const char* wrong[] = {"{\"text\":1}",
                         "{\"text\":\"a\"",
                         "[]",
                         "",
                         "{\"hex\":\"0\"}",
                         "{\"hex\":\"0g\"}",
                         "{\"text\":\"a\",\"hex\":\"00\"}",
                         "{}",
                         "{\"text\":\"<|end|>\"}"};
  for (const std::string line : wrong) {
    PutFile("t", "{\"text\":\"a\"}\n" + line + "\n{\"text\":\"a\"}\n");
    const ProgramRun run = Ended(3, Shell("$T encode t --jsonl --tokenizer bpe"));
    EXPECT_EQ(run.out, "{\"ids\":[97]}\n") << line;
    EXPECT_TRUE(run.err.starts_with("error: t:2:")) << run.err;
  }
  for (const std::string line : {"{\"ids\":[-1]}", "{\"ids\":[1.5]}", "{\"ids\":1}",
                                 "{\"ids\":[99999]}", "{\"ids\":[4294967296]}", "{\"id\":[1]}"}) {
    PutFile("t", "{\"ids\":[97]}\n" + line + "\n");
    const ProgramRun run = Ended(
        3, Shell("$T decode t --jsonl --tokenizer bpe --out o; s=$?; test ! -e o && exit $s"));
    EXPECT_TRUE(run.err.starts_with("error: t:2")) << run.err;
  }
}

TEST_F(TokenizerCommandTest, ALineIsAnsweredBeforeTheNextIsAsked) {
  EXPECT_EQ(Out("mkfifo to from\n"
                "$T encode --jsonl --tokenizer bytes <to >from &\n"
                "exec 3>to 4<from\n"
                "echo '{\"text\":\"a\"}' >&3; timeout 20 head -n1 <&4\n"
                "echo '{\"text\":\"b\"}' >&3; timeout 20 head -n1 <&4\n"
                "exec 3>&-; wait"),
            "{\"ids\":[97]}\n{\"ids\":[98]}\n");
}

TEST_F(TokenizerCommandTest, APipeIsAnsweredAsItComes) {
  for (const std::string command :
       {"encode --special ordinary", "encode --special ordinary --json", "decode"}) {
    EXPECT_NE(Out("rm -f to from; mkfifo to from\n$T " + command +
                  " --tokenizer bytes <to >from &\n"
                  "exec 3>to 4<from\n"
                  "printf '49 50 ' >&3; timeout 20 head -c2 <&4; echo; exec 3>&-; cat <&4 >rest"),
              "\n")
        << command;
  }
}

TEST_F(TokenizerCommandTest, DecodingTakesIdsInManyForms) {
  for (const char* ids :
       {"104 105", " 104,105\n", "104\n105\n", "{\"ids\":[104,105]}",
        "{\"schema\":1,\"more\":[[1],{\"ids\":2}],\"ids\":[104, 105]}\n", "[104,\n105]"}) {
    PutFile("t", ids);
    EXPECT_EQ(Out("$T decode t --tokenizer bpe"), "hi") << ids;
    EXPECT_EQ(Out("cat t | $T decode --tokenizer bpe"), "hi") << ids;
  }
  EXPECT_EQ(Out("$T decode --ids '104 255' --tokenizer bpe"), "h\xFF");
  EXPECT_EQ(Out("$T decode --ids '104 255' --replace --tokenizer bpe"), "h\xEF\xBF\xBD");
  EXPECT_EQ(Out("$T decode --ids '104 195 169 195' --replace --tokenizer bpe"), "hé\xEF\xBF\xBD");
  EXPECT_EQ(Out("$T decode --ids '104 255' --hex --tokenizer bpe"), "68ff\n");
  EXPECT_EQ(Out("$T decode --ids '104 255' --json --tokenizer bpe"), "{\"hex\":\"68ff\"}\n");
  EXPECT_EQ(Out("$T decode --ids '259 70000' --json --tokenizer bpe"),
            "{\"text\":\"hello<|end|>\"}\n");
  EXPECT_EQ(Out("$T decode --ids '' --tokenizer bpe"), "");
  EXPECT_TRUE(Contains(Wrong("$T decode 15496 --tokenizer bpe", 2), "did you mean --ids 15496?"));
  PutFile("15496", "104 105");
  EXPECT_EQ(Out("$T decode 15496 --tokenizer bpe"), "hi");
}

TEST_F(TokenizerCommandTest, WhatIsNoIdIsNamed) {
  EXPECT_TRUE(Contains(Wrong("printf '1 2\\n3 4x 5' | $T decode --tokenizer bpe", 3), ":2:3: "));
  for (const char* ids :
       {"-1", "1.5", "2147483648", "99999999999999999999", "70001", "x", "{\"ids\":[1",
        "{\"ids\":[1]} 2", "{\"ids\":{\"a\":1}}", "{\"ids\":3}", "{}", "[1,[2]]", "[true]", "[-1]",
        "[1e3]", "[99999999999]", "{\"ids\":[1],\"ids\":[2]}"}) {
    PutFile("t", ids);
    Wrong("$T decode t --tokenizer bpe", 3);
    Wrong("$T decode t --tokenizer bpe --out o", 3);
    EXPECT_FALSE(fs::exists(At("o")));
  }
  PutFile("t", std::string("[1]\0[2]", 7));
  Wrong("$T decode t --tokenizer bpe", 3);
  PutFile("t", std::string("\x01\0\0\0\x01", 5));
  Wrong("$T decode t --tokenizer bpe --format u32", 3);
  PutFile("t", "\xFF\xFF\xFF\xFF");
  Wrong("$T decode t --tokenizer bpe --format u32", 3);
}

TEST_F(TokenizerCommandTest, WrongUseIsToldBeforeAnythingIsRead) {
  EXPECT_TRUE(Contains(Wrong("$T encode --text a", 2), "--tokenizer"));
  Wrong("$T encode --text a t --tokenizer bytes", 2);
  Wrong("$T encode --jsonl --explain --tokenizer bytes", 2);
  Wrong("$T encode --jsonl --format u16 --tokenizer bytes", 2);
  Ended(2, Shell("$T encode --json --format u16 --tokenizer bytes"));
  Wrong("$T encode --special never --tokenizer bytes", 2);
  Wrong("$T decode --hex --replace --tokenizer bytes", 2);
  Wrong("$T encode missing --tokenizer bytes", 3);
  Wrong("$T encode . --tokenizer bytes", 3);
  Wrong("$T encode --text a --tokenizer nothing", 2);
  Wrong("$T encode --text a --tokenizer ./nothing", 3);
  Wrong("$T encode --text a --tokenizer .", 3);
  Wrong("$T encode --text a --tokenizer bytes --out no/such/dir", 1);
  EXPECT_TRUE(
      Contains(Wrong("$T encode --text a --tokenizer gpt2", 3), "folio tokenizer fetch gpt2"));
}

TEST_F(TokenizerCommandTest, AReaderThatLeavesEarlyIsNoError) {
  PutFile("t", std::string(8 << 20, 'a'));
  for (const std::string command : {"encode t", "encode t --json", "encode --explain t"}) {
    const ProgramRun run =
        Shell("{ $T " + command + " --tokenizer bytes; echo $? >&2; } | head -c1 | wc -c");
    EXPECT_EQ(run.out, "1\n") << command;
    EXPECT_EQ(run.err, "0\n") << command;
  }
}

TEST_F(TokenizerCommandTest, ARunGivesTheTokenizerOfItsCheckpoint) {
  fs::create_directories(At("run") / "last");
  fs::copy(At("bpe"), At("run") / "last");
  PutFile("run/last/config.json", "{}");
  PutFile("run/last/model.safetensors", "");
  EXPECT_EQ(Out("$T encode --text hello --tokenizer run"), "259\n");
}

TEST_F(TokenizerCommandTest, CountsAddUp) {
  PutFile("a", "hello é");
  PutFile("b", "\xFF");
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
  EXPECT_TRUE(Contains(Out("$T info --tokenizer char"), "vocabulary     5\n"));
  EXPECT_EQ(Out("$T info --tokenizer bpe --token 10 --token 259"),
            "10 \"\\n\" (1 bytes: 0A)\n259 \"hello\" (5 bytes: 68 65 6C 6C 6F)\n");
  Wrong("$T info --tokenizer bpe --token 70001", 3);
  Wrong("$T info --tokenizer bpe --token x", 2);
}

TEST_F(TokenizerCommandTest, ExplainedMergesLeadToTheIds) {
  PutFile("t", "hello hello<|end|>\xFFwo wo\n");
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
    PutFile("bad/" + std::string(file.name), bytes);
  }
  Wrong("FOLIO_HOME=h $T fetch gpt2 --from bad -q", 3);
  Well(Shell("FOLIO_HOME=h $T fetch gpt2 --from '" + source + "'"));
  // Nothing is requested from the network any more.
  EXPECT_TRUE(Contains(Well(Shell("https_proxy=http://127.0.0.1:1 FOLIO_HOME=h $T fetch gpt2")).err,
                       "already"));
  EXPECT_EQ(Out("FOLIO_HOME=h $T encode --text 'Hello, world' --tokenizer gpt2"), "15496 11 995\n");
}

TEST_F(TokenizerCommandTest, AFileOfTwoEncodingsIsFetchedOnce) {
  const std::string source = TestData("tiktoken/p50k_base.tiktoken");
  if (source.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::string from = "'" + fs::path(source).parent_path().string() + "'";
  Well(Shell("FOLIO_HOME=h $T fetch p50k_base --from " + from));
  EXPECT_TRUE(
      Contains(Well(Shell("https_proxy=http://127.0.0.1:1 FOLIO_HOME=h $T fetch p50k_edit")).err,
               "p50k_edit is already in h/tokenizers/p50k_base"));
  EXPECT_EQ(
      Out("FOLIO_HOME=h $T encode --text '<|fim_middle|>' --special allow --tokenizer p50k_edit"),
      "50282\n");
}

using TokenizerTrainTest = TokenizerCommandTest;

std::string Words(size_t bytes) {
  const CounterRng rng(8, 0);
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) {
    text += " w\xC3\xA9" + std::to_string(rng.Below(i, 1 + i % 3000));
  }
  return text;
}

TEST_F(TokenizerTrainTest, WhatItWritesLoadsAndGivesTheTokensItTells) {
  PutFile("t", "low lower lowest, slow slower slowest\n\xFF\xFE low");
  const nlohmann::json made =
      nlohmann::json::parse(Out("$T train t --vocab-size 270 --out made --json"));
  EXPECT_EQ(made["vocab_size"], 270);
  EXPECT_EQ(made["merges"], 13);
  const nlohmann::json count = nlohmann::json::parse(Out("$T count t --tokenizer ./made --json"));
  EXPECT_EQ(made["tokens"], count["total"]["tokens"]);
  EXPECT_EQ(made["bytes"], count["total"]["bytes"]);
  EXPECT_EQ(Out("$T encode t --tokenizer ./made | $T decode --tokenizer ./made"), Read("t"));
  EXPECT_EQ(Out("$T encode --text '<|endoftext|>' --special allow --tokenizer ./made"), "269\n");
  for (const char* file : {"vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_TRUE(fs::exists(At("made") / file)) << file;
  }
}

TEST_F(TokenizerTrainTest, SpecialTokensComeFirstWhereThatIsAsked) {
  PutFile("t", "abab");
  Out("$T train t --vocab-size 259 --specials '<a>,<b>' --specials-first --out made");
  EXPECT_EQ(Out("$T encode --text '<b>ab' --special allow --tokenizer ./made"), "1 258\n");
}

// The text is read in windows, one of which ends in the middle of a pretoken without a place to
// cut, and the others at arbitrary places.
TEST_F(TokenizerTrainTest, TextLongerThanAWindowIsOneText) {
  const std::string text =
      Words((size_t{1} << 25) - 2'000'000) + std::string(3'000'001, 'x') + Words(3'000'000);
  PutFile("t", text);
  BpeTrainer trainer({.vocab_size = 400});
  trainer.AddText(text);
  const std::string hash = BpeTokenizer(trainer.Train()).hash();
  const std::string command = "$T train - --vocab-size 400 --out made --overwrite --json";
  for (const std::string& run : {command + " <t", "cat t | " + command}) {
    const nlohmann::json made = nlohmann::json::parse(Out(run));
    EXPECT_EQ(made["tokenizer_hash"], hash) << run;
    EXPECT_EQ(made["pieces"], trainer.pretokens());
    EXPECT_EQ(made["distinct_pieces"], trainer.distinct_pretokens());
  }
}

TEST_F(TokenizerTrainTest, EachFileIsATextOfItsOwn) {
  PutFile("a", "aaaa");
  PutFile("b", "aa");
  const nlohmann::json made =
      nlohmann::json::parse(Out("$T train a b --vocab-size 300 --out made --json"));
  EXPECT_EQ(made["distinct_pieces"], 2);
  EXPECT_EQ(made["vocab_size"], 256 + 2 + 1);
}

TEST_F(TokenizerTrainTest, ReplacesOnlyATokenizerAndOnlyWhenTold) {
  PutFile("t", "abab");
  Out("$T train t --vocab-size 258 --out made");
  EXPECT_TRUE(Contains(Wrong("$T train t --vocab-size 259 --out made", 2), "--overwrite"));
  Out("$T train t --vocab-size 259 --out made --overwrite");
  EXPECT_EQ(Out("$T encode --text abab --tokenizer ./made"), "257\n");
  PutFile("made/notes.txt", "mine");
  EXPECT_TRUE(Contains(Wrong("$T train t --out made --overwrite", 2), "notes.txt"));
  EXPECT_EQ(Read("made/notes.txt"), "mine");
}

TEST_F(TokenizerTrainTest, RefusesWhatItCannotLearnFrom) {
  PutFile("empty", "");
  PutFile("t", "abab");
  EXPECT_TRUE(Contains(Wrong("$T train empty --out made", 3), "empty: empty"));
  Wrong("$T train nosuch --out made", 3);
  Wrong("$T train t --vocab-size 256 --out made", 2);
  Wrong("$T train t --specials '<a>,<a>' --out made", 2);
  EXPECT_FALSE(fs::exists(At("made")));
}

TEST_F(TokenizerTrainTest, StoppedItLeavesNothing) {
  const ProgramRun run = Shell(
      "{ printf 'abab'; sleep 1; } | timeout --preserve-status -s INT 0.5 $T train - --out made");
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_EQ(Names(), (Strings{"bpe", "char"}));
}

}  // namespace
}  // namespace folio
