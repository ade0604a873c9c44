// Training on conversations, on a nanoGPT data set, and on one that was shortened, through the real
// program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"
#include "folio/io/file.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/json.h"
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
  EXPECT_TRUE(Contains(info.out, "tokenizer     char", "vocabulary    65"));
  EXPECT_TRUE(Contains(info.err, "characters of nanoGPT's meta.pkl", "uint16"));
  const ProgramRun run = Well(Train());
  EXPECT_TRUE(Contains(run.err, "vocabulary 65", "next: folio generate --model"));
  EXPECT_EQ(Count(run.err, "--ids"), 0u) << run.err;
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "\nvocab_size = 65\n"));
  const std::string model = " --model " + At("run").string();
  EXPECT_TRUE(Contains(
      Well(RunFolio("generate --max-tokens 9 --json --prompt 'ROMEO:\n'" + model)).out, "ROMEO:"));
  ExpectError(3, "generate --prompt 7" + model, "no token for the character '7'");
  // It continues, also without the data's tokenizer: the run has its own.
  Well(RunFolio(Resumed("--max-steps 5")));
  fs::remove(At("chars/meta.pkl"));
  Well(RunFolio("generate --max-tokens 2 --prompt Thou" + model));
  // A model with other characters is detected.
  fs::copy_file(SourceDir() / "tests/fixtures/nanogpt-tiny/meta.pkl", At("chars/meta.pkl"));
  ExpectError(3, Resumed("--max-steps 6"),
              ": the data was prepared with a different tokenizer than the model's");
}

TEST_F(NanoGptData, HeldOutTokensMayBeCalledValidAndTheTextJoinsOthers) {
  fs::rename(At("chars/val.bin"), At("chars/valid.bin"));
  Well(Train());
  Well(RunFolio("eval perplexity --json " + data_ + " --model " + At("run").string()));
  // As a separate tokenizer.
  const ProgramRun ids = RunFolio("tokenizer encode --tokenizer " + data_ + " --text '\n ROMEO'");
  EXPECT_TRUE(Contains(ids.out, "0", "1", "30")) << ids.out << ids.err;
}

TEST_F(NanoGptData, WhatDoesNotFitIsRefusedByName) {
  Write("train.bin", std::vector<int32_t>(100, 65));
  EXPECT_TRUE(
      Contains(Ended(3, Train()).err, "train.bin: token 65 is outside the vocabulary", "below 65"));
  const std::string meta = ReadFile(At("chars/meta.pkl"));
  WriteFileAtomically(At("chars/meta.pkl"), meta.substr(0, 300));
  ExpectError(3, Words("--overwrite"), "meta.pkl is not a valid pickle");
  ExpectError(3, "data info " + data_, "meta.pkl is not a valid pickle");
}

class TrainsOnConversations : public TrainTest {
 protected:
  // Forty of them; every tenth asks for "held out N"; the first has the given length.
  void Write(size_t longest) {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string question =
          (i % 10 < 9 ? "what is " : "held out ") + std::to_string(i) + "?";
      std::string answer = "it is " + std::to_string(i) + ".";
      if (i == 0) answer += std::string(longest, 'x');
      const nlohmann::json messages = {{{"role", "user"}, {"content", question}},
                                       {{"role", "assistant"}, {"content", answer}}};
      lines += nlohmann::json{{"messages", messages}}.dump() + "\n";
    }
    data_ = At("talk.jsonl").string();
    WriteFileAtomically(data_, lines);
  }
  std::vector<nlohmann::json> Samples() const {
    return JsonLines(ReadFile(At("run/samples.jsonl")));
  }
};

TEST_F(TrainsOnConversations, ASampleAnswersAHeldOutQuestionAndBeginsNoTurn) {
  Write(0);
  const std::string size =
      "model.n_positions=64 log.sample_tokens=60 --context 64 --sample-every 1 ";
  const ProgramRun run = Well(Train(size));
  std::vector<nlohmann::json> samples = Samples();
  ASSERT_EQ(samples.size(), 4u);
  for (const nlohmann::json& sample : samples) {
    EXPECT_EQ(sample.at("prompt"), "user: held out 9?\nassistant: ");
    EXPECT_EQ(Count(sample.at("text").get<std::string>(), "<|"), 0u) << sample;
  }
  EXPECT_TRUE(Contains(run.err, "--- sample after step 1\nuser: held out 9?\nassistant: "));
  // The user's own question.
  Well(Train(size + "--overwrite --set 'log.sample_prompt=what?'"));
  samples = Samples();
  EXPECT_EQ(samples.at(0).at("prompt"), "user: what?\nassistant: ");
  // An answer with its own prompt does not begin another turn either.
  const ProgramRun answer = Well(
      RunFolio("generate --chat --prompt 'what is 3?' --temperature 3 --max-tokens 60 --model " +
               At("run").string()));
  EXPECT_EQ(Count(answer.out, "<|"), 0u) << answer.out;
}

// Messages are ordinary text nevertheless.
TEST_F(TrainsOnConversations, TheTemplateWritesTokensThatWereAdded) {
  Write(0);
  const std::string said = ReadFile(data_);
  WriteFileAtomically(data_, Replaced(said, "it is 3.", "<|im_end|>"));
  Well(
      Train("model.n_positions=128 --context 128 --tokenizer bytes --chat-template chatml "
            "--add-tokens '<|im_start|>,<|im_end|>'"));
  const Dataset data(At("run/data").string());
  EXPECT_EQ(data.info().vocab_size, 259);
  int64_t begins = 0, ends = 0, conversations = 0;
  for (const TokenFile* part : {&data.train(), &data.val()}) {
    std::vector<int32_t> ids(static_cast<size_t>(part->size()));
    part->Read(0, ids);
    begins += std::ranges::count(ids, 257);
    ends += std::ranges::count(ids, 258);
    conversations += std::ranges::count(ids, 256);
  }
  EXPECT_EQ(conversations, 40);
  EXPECT_EQ(begins, 80);
  EXPECT_EQ(ends, 80);
  Well(RunFolio(Resumed("--max-steps 5")));
  // Without a template the role tokens are added to them.
  Well(Train("model.n_positions=64 --context 64 --tokenizer bytes --add-tokens '<a>' --overwrite"));
  EXPECT_EQ(LoadModelConfig(At("run/last")).vocab_size, 262);
  Well(RunFolio(Resumed("--max-steps 5")));
}

TEST_F(TrainsOnConversations, ALengthThatIsChosenHasRoomForAllOfThem) {
  Write(300);
  const std::string out = " --budget 1s --max-steps 1 --out " + At("run").string();
  const ProgramRun run = Well(RunFolio("train --data " + data_ + out));
  // user, 10 characters, end, assistant, 308 characters, and the end, a target alone.
  EXPECT_TRUE(Contains(run.err, "sequences of 321"));
  Write(3000);
  EXPECT_TRUE(Contains(Ended(2, RunFolio("train --overwrite --data " + data_ + out)).err,
                       "conversations would be truncated",
                       "1 of 40 conversations are longer than a sequence of 2,048 tokens",
                       "tokens; the longest has 3,021",
                       "--context 3021 fits all of them; --context 2048 truncates"));
  Well(RunFolio("train --overwrite --context 32 --data " + data_ + out));
}

TEST_F(TrainsOnConversations, OneThatIsNotIsRefusedWithHowManyWouldBeCut) {
  Write(60);
  const std::string out = " --max-steps 1 --set train.eval_batches=1 --out " + At("run").string();
  EXPECT_TRUE(Contains(Ended(2, RunFolio("train --preset char-cpu --data " + data_ + out)).err,
                       "1 of 40 conversations are longer than a sequence of 64 tokens",
                       "--set model.n_positions=81 fits all of them; --context 64 truncates them"));
  EXPECT_FALSE(std::filesystem::exists(At("run")));
  const ProgramRun cut =
      Well(RunFolio("train --preset char-cpu --context 64 --data " + data_ + out));
  EXPECT_TRUE(Contains(cut.err, "the longest has 81; they are truncated"));
  Well(RunFolio(Resumed("--max-steps 2")));
  // An existing model keeps its number of positions.
  const std::string init = "train --init " + At("run").string() + " --max-steps 1 --out " +
                           At("tuned").string() + " --data " + data_;
  EXPECT_TRUE(
      Contains(Ended(2, RunFolio(init)).err, "remove the long ones; --context 64 truncates them"));
}

TEST_F(NanoGptData, ThatIsShortenedEndsTrainingWithAMessage) {
  const ProgramRun run = RunShell(At(""), "$F " + Words("--max-steps 1000000 --quiet --no-config") +
                                              " & p=$!\n" + Awaited("[ -s run/metrics.jsonl ]") +
                                              "truncate -s 100 chars/train.bin; wait $p");
  EXPECT_TRUE(Contains(Ended(3, run).err, "train.bin became shorter while it was read"));
}

}  // namespace
}  // namespace folio
