// Training on conversations, through the real program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"

namespace folio {
namespace {

using nlohmann::json;

class TrainsOnConversations : public TrainTest {
 protected:
  // Forty of them, of which every tenth, which is held out, asks for "held out N"; the first is as
  // long as it should be.
  void Write(size_t longest) {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string question =
          (i % 10 == 9 ? "held out " : "what is ") + std::to_string(i) + "?";
      std::string answer = "it is " + std::to_string(i) + ".";
      if (i == 0) answer += std::string(longest, 'x');
      const json messages = {{{"role", "user"}, {"content", question}},
                             {{"role", "assistant"}, {"content", answer}}};
      lines += json{{"messages", messages}}.dump() + "\n";
    }
    data_ = At("talk.jsonl").string();
    WriteFileAtomically(data_, lines);
  }
  std::vector<json> Samples() const {
    std::vector<json> samples;
    for (const std::string& line : Split(ReadFile(At("run/samples.jsonl")), '\n')) {
      if (!line.empty()) samples.push_back(json::parse(line));
    }
    return samples;
  }
};

TEST_F(TrainsOnConversations, ASampleAnswersAHeldOutQuestionAndBeginsNoTurn) {
  Write(0);
  const std::string size =
      "model.n_positions=64 log.sample_tokens=60 --context 64 --sample-every 1 ";
  const ProgramRun run = Train(size);
  ASSERT_EQ(run.status, 0) << run.err;
  std::vector<json> samples = Samples();
  ASSERT_EQ(samples.size(), 4u);
  for (const json& sample : samples) {
    EXPECT_EQ(sample.at("prompt"), "user: held out 9?\nassistant: ");
    EXPECT_EQ(Count(sample.at("text").get<std::string>(), "<|"), 0u) << sample;
  }
  EXPECT_TRUE(Contains(run.err, "--- sample after step 1\nuser: held out 9?\nassistant: "));
  // One's own question.
  ASSERT_EQ(Train(size + "--overwrite --set 'log.sample_prompt=what?'").status, 0);
  samples = Samples();
  EXPECT_EQ(samples.at(0).at("prompt"), "user: what?\nassistant: ");
  // Nor does an answer begin one that somebody asks for.
  const ProgramRun answer =
      RunFolio("generate --chat --prompt 'what is 3?' --temperature 3 --max-tokens 60 --model " +
               At("run").string());
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(Count(answer.out, "<|"), 0u) << answer.out;
}

TEST_F(TrainsOnConversations, ALengthThatIsChosenHasRoomForAllOfThem) {
  Write(300);
  const std::string out = " --budget 1s --max-steps 1 --out " + At("run").string();
  const ProgramRun run = RunFolio("train --data " + data_ + out);
  ASSERT_EQ(run.status, 0) << run.err;
  // user, 10 characters, end, assistant, 308 characters, and the end, a target alone.
  EXPECT_TRUE(Contains(run.err, "sequences of 321"));
  Write(3000);
  const ProgramRun refused = RunFolio("train --overwrite --data " + data_ + out);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Contains(refused.err, "conversations would be cut",
                       "1 of 40 conversations are longer than a sequence of 2,048 tokens",
                       "the longest takes 3,021",
                       "--context 3021 has room for all; --context 2048 cuts"));
  EXPECT_EQ(RunFolio("train --overwrite --context 32 --data " + data_ + out).status, 0);
}

TEST_F(TrainsOnConversations, OneThatIsNotIsRefusedWithHowManyWouldBeCut) {
  Write(60);
  const std::string out =
      " --max-steps 1 --set train.eval_batches=1 train.eval_every=0 --out " + At("run").string();
  ExpectError(2, "train --preset char-cpu --data " + data_ + out,
              "1 of 40 conversations are longer than a sequence of 64 tokens",
              "--set model.n_positions=81 has room for all; --context 64 cuts them");
  EXPECT_FALSE(std::filesystem::exists(At("run")));
  const ProgramRun cut = RunFolio("train --preset char-cpu --context 64 --data " + data_ + out);
  EXPECT_EQ(cut.status, 0) << cut.err;
  EXPECT_TRUE(Contains(cut.err, "the longest takes 81: they are cut there"));
  EXPECT_EQ(RunFolio(Resumed("--max-steps 2")).status, 0);
  // A model that is there has the positions that it has.
  const std::string init = "train --init " + At("run").string() + " --max-steps 1 --out " +
                           At("tuned").string() + " --data " + data_;
  const ProgramRun tuned = RunFolio(init);
  EXPECT_EQ(tuned.status, 2);
  EXPECT_TRUE(Contains(tuned.err, "leave the long ones out; --context 64 cuts them"));
}

}  // namespace
}  // namespace folio
