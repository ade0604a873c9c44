// A data set as nanoGPT's prepare.py leaves it, through the real program.
#include <gtest/gtest.h>

#include "folio/commands/train/test_train.h"
#include "folio/data/test_tokens.h"
#include "folio/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class NanoGptData : public TrainTest {
 protected:
  NanoGptData() {
    fs::create_directory(At("chars"));
    fs::copy_file(SourceDir() / "tests/fixtures/nanogpt-chars/meta-4.pkl", At("chars/meta.pkl"));
    std::string text;
    for (int i = 0; i < 100; ++i) text += "ROMEO:\nThou art; what? 'Tis not!\n\n";
    const std::vector<int32_t> ids = LoadTokenizer(At("chars").string())->EncodeOrdinary(text);
    const auto train = static_cast<ptrdiff_t>(ids.size() * 9 / 10);
    Write("train.bin", {ids.begin(), ids.begin() + train});
    Write("val.bin", {ids.begin() + train, ids.end()});
    data_ = At("chars").string();
  }
  void Write(const std::string& name, const std::vector<int32_t>& ids) {
    WriteTokens(At("chars/" + name), TokenWidth::k16, ids);
  }
};

TEST_F(NanoGptData, TrainsWithItsCharactersAndItsAlphabet) {
  const ProgramRun info = RunFolio("data info " + data_);
  EXPECT_TRUE(Contains(info.out, "tokenizer     char", "vocabulary    65")) << info.out;
  EXPECT_TRUE(Contains(info.err, "characters of nanoGPT's meta.pkl", "uint16")) << info.err;
  const ProgramRun run = Train();
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.err, "vocabulary 65", "next: folio generate --model"));
  EXPECT_EQ(Count(run.err, "--ids"), 0u) << run.err;
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "\nvocab_size = 65\n"));
  const std::string model = " --model " + At("run").string();
  const ProgramRun text = RunFolio("generate --max-tokens 9 --json --prompt 'ROMEO:\n'" + model);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(Contains(text.out, "ROMEO:"));
  ExpectError(3, "generate --prompt 7" + model, "no token for the character '7'");
  // It goes on, and by itself too: the run has its tokenizer.
  EXPECT_EQ(RunFolio(Resumed("--max-steps 5")).status, 0);
  fs::remove(At("chars/meta.pkl"));
  EXPECT_EQ(RunFolio("generate --max-tokens 2 --prompt Thou" + model).status, 0);
  // A model of characters that are not these is told from it.
  fs::copy_file(SourceDir() / "tests/fixtures/nanogpt-tiny/meta.pkl", At("chars/meta.pkl"));
  ExpectError(3, Resumed("--max-steps 6"), "another tokenizer than the model");
}

TEST_F(NanoGptData, HeldOutTokensMayBeCalledValidAndTheTextJoinsOthers) {
  fs::rename(At("chars/val.bin"), At("chars/valid.bin"));
  ASSERT_EQ(Train().status, 0);
  const ProgramRun loss =
      RunFolio("eval perplexity --json " + data_ + " --model " + At("run").string());
  EXPECT_EQ(loss.status, 0) << loss.err;
  // As a tokenizer by itself.
  const ProgramRun ids = RunFolio("tokenizer encode --tokenizer " + data_ + " --text '\n ROMEO'");
  EXPECT_TRUE(Contains(ids.out, "0", "1", "30")) << ids.out << ids.err;
}

TEST_F(NanoGptData, WhatDoesNotFitIsRefusedByName) {
  Write("train.bin", std::vector<int32_t>(100, 65));
  const ProgramRun run = Train();
  EXPECT_EQ(run.status, 3);
  EXPECT_TRUE(Contains(run.err, "train.bin: token 65 is outside the vocabulary", "below 65"));
  const std::string meta = ReadFile(At("chars/meta.pkl"));
  WriteFileAtomically(At("chars/meta.pkl"), meta.substr(0, 300));
  ExpectError(3, Words("--overwrite"), "meta.pkl is not a sound pickle");
  ExpectError(3, "data info " + data_, "meta.pkl is not a sound pickle");
}

}  // namespace
}  // namespace folio
