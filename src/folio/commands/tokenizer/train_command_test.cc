// Runs the real program: folio tokenizer train.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "folio/base/rng.h"
#include "folio/commands/tokenizer/test_tokenizer_shell.h"
#include "folio/text/bpe_trainer.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
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
  Write("t", "low lower lowest, slow slower slowest\n\xFF\xFE low");
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
  Write("t", "abab");
  Out("$T train t --vocab-size 259 --specials '<a>,<b>' --specials-first --out made");
  EXPECT_EQ(Out("$T encode --text '<b>ab' --special allow --tokenizer ./made"), "1 258\n");
}

// The text is read in windows, of which one ends in the middle of a pretoken without a place to
// cut, and the others behind whatever comes.
TEST_F(TokenizerTrainTest, TextLongerThanAWindowIsOneText) {
  const std::string text =
      Words((size_t{1} << 25) - 2'000'000) + std::string(3'000'001, 'x') + Words(3'000'000);
  Write("t", text);
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
  Write("a", "aaaa");
  Write("b", "aa");
  const nlohmann::json made =
      nlohmann::json::parse(Out("$T train a b --vocab-size 300 --out made --json"));
  EXPECT_EQ(made["distinct_pieces"], 2);
  EXPECT_EQ(made["vocab_size"], 256 + 2 + 1);
}

TEST_F(TokenizerTrainTest, ReplacesOnlyATokenizerAndOnlyWhenTold) {
  Write("t", "abab");
  Out("$T train t --vocab-size 258 --out made");
  EXPECT_TRUE(Contains(Wrong("$T train t --vocab-size 259 --out made", 2), "--overwrite"));
  Out("$T train t --vocab-size 259 --out made --overwrite");
  EXPECT_EQ(Out("$T encode --text abab --tokenizer ./made"), "257\n");
  Write("made/notes.txt", "mine");
  EXPECT_TRUE(Contains(Wrong("$T train t --out made --overwrite", 2), "notes.txt"));
  EXPECT_EQ(Read("made/notes.txt"), "mine");
}

TEST_F(TokenizerTrainTest, RefusesWhatItCannotLearnFrom) {
  Write("empty", "");
  Write("t", "abab");
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
