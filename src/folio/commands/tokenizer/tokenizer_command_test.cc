// Runs the real program: folio tokenizer encode and decode.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "folio/commands/tokenizer/test_tokenizer_shell.h"
#include "folio/io/file.h"
#include "folio/term/token_streams.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
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
  Write("t", AllBytes());
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
  Write("t", "a<|end|>hello");
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
  Write("t", text);
  EXPECT_TRUE(Contains(Wrong("$T encode t --tokenizer bpe", 3), "t:2:37748738: "));
}

TEST_F(TokenizerCommandTest, LongInputsGiveTheIdsOfTheWhole) {
  // The beginning makes the pieces that are read, a power of two long, end inside special tokens.
  std::string text = "hello hello ";
  while (text.size() < (size_t{kSanitized ? 10 : 70} << 20))
    text += "hello wo, hello <|end|> hell é\n";
  Write("t", text);
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
  Write("t", "a b\na?");
  EXPECT_TRUE(Contains(Wrong("$T encode t --tokenizer char", 3), "t:2:2: no token"));
  EXPECT_TRUE(Contains(Wrong("cat t | $T encode --tokenizer char", 3), ":2:2: no token"));
}

TEST_F(TokenizerCommandTest, JsonLinesMapToJsonLines) {
  Write("t", "{\"text\":\"hello\",\"n\":1}\n{\"hex\":\"fF00\"}\r\n{\"text\":\"\"}");
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
  Write("t", lines);
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
    Write("t", "{\"text\":\"a\"}\n" + line + "\n{\"text\":\"a\"}\n");
    const ProgramRun run = Shell("$T encode t --jsonl --tokenizer bpe");
    EXPECT_EQ(run.status, 3) << line;
    EXPECT_EQ(run.out, "{\"ids\":[97]}\n") << line;
    EXPECT_TRUE(run.err.starts_with("error: t:2:")) << run.err;
  }
  for (const std::string line : {"{\"ids\":[-1]}", "{\"ids\":[1.5]}", "{\"ids\":1}",
                                 "{\"ids\":[99999]}", "{\"ids\":[4294967296]}", "{\"id\":[1]}"}) {
    Write("t", "{\"ids\":[97]}\n" + line + "\n");
    const ProgramRun run =
        Shell("$T decode t --jsonl --tokenizer bpe --out o; s=$?; test ! -e o && exit $s");
    EXPECT_EQ(run.status, 3) << line;
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
    Write("t", ids);
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
  Write("15496", "104 105");
  EXPECT_EQ(Out("$T decode 15496 --tokenizer bpe"), "hi");
}

TEST_F(TokenizerCommandTest, WhatIsNoIdIsNamed) {
  EXPECT_TRUE(Contains(Wrong("printf '1 2\\n3 4x 5' | $T decode --tokenizer bpe", 3), ":2:3: "));
  for (const char* ids :
       {"-1", "1.5", "2147483648", "99999999999999999999", "70001", "x", "{\"ids\":[1",
        "{\"ids\":[1]} 2", "{\"ids\":{\"a\":1}}", "{\"ids\":3}", "{}", "[1,[2]]", "[true]", "[-1]",
        "[1e3]", "[99999999999]", "{\"ids\":[1],\"ids\":[2]}"}) {
    Write("t", ids);
    Wrong("$T decode t --tokenizer bpe", 3);
    Wrong("$T decode t --tokenizer bpe --out o", 3);
    EXPECT_FALSE(fs::exists(At("o")));
  }
  Write("t", std::string("[1]\0[2]", 7));
  Wrong("$T decode t --tokenizer bpe", 3);
  Write("t", std::string("\x01\0\0\0\x01", 5));
  Wrong("$T decode t --tokenizer bpe --format u32", 3);
  Write("t", "\xFF\xFF\xFF\xFF");
  Wrong("$T decode t --tokenizer bpe --format u32", 3);
}

TEST_F(TokenizerCommandTest, WrongUseIsToldBeforeAnythingIsRead) {
  EXPECT_TRUE(Contains(Wrong("$T encode --text a", 2), "--tokenizer"));
  Wrong("$T encode --text a t --tokenizer bytes", 2);
  Wrong("$T encode --jsonl --explain --tokenizer bytes", 2);
  Wrong("$T encode --jsonl --format u16 --tokenizer bytes", 2);
  EXPECT_EQ(Shell("$T encode --json --format u16 --tokenizer bytes").status, 2);
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
  Write("t", std::string(8 << 20, 'a'));
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
  Write("run/last/config.json", "{}");
  Write("run/last/model.safetensors", "");
  EXPECT_EQ(Out("$T encode --text hello --tokenizer run"), "259\n");
}

}  // namespace
}  // namespace folio
