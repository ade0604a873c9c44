#include "folio/commands/chat/dialogue.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/infer/test_small_model.h"

namespace folio {
namespace {

class Dialogues : public testing::Test {
 protected:
  // No text ends by itself.
  static GenerateOptions Endless(uint64_t seed, int64_t max_tokens = 6) {
    GenerateOptions options{.sampling = {.seed = seed}, .max_tokens = max_tokens};
    options.sampling.penalties.min_tokens = max_tokens;
    return options;
  }
  Dialogue::Reply Say(Dialogue& dialogue, const std::string& text, uint64_t seed = 1) {
    shown_.clear();
    return dialogue.Say(text, Endless(seed), Show());
  }
  Dialogue::Reply Again(Dialogue& dialogue, uint64_t seed) {
    shown_.clear();
    return dialogue.Again(Endless(seed), Show());
  }
  Dialogue::OnText Show() {
    return [this](std::string_view more) {
      shown_ += more;
      return true;
    };
  }
  std::string shown_;
};

TEST_F(Dialogues, ARepliesTokensAndTextAreGivenOut) {
  for (const bool answers : {false, true}) {
    const OpenedModel model = SmallModel(answers, 64);
    Dialogue dialogue(model, {});
    EXPECT_EQ(dialogue.answers(), answers);
    EXPECT_FALSE(dialogue.replied());
    const Dialogue::Reply reply = Say(dialogue, "Who?");
    EXPECT_TRUE(dialogue.replied());
    EXPECT_EQ(reply.written.ids.size(), 6u);
    EXPECT_EQ(reply.written.text, shown_);
    ASSERT_EQ(reply.written.probabilities.size(), 6u);
    for (const auto& one : reply.written.probabilities) EXPECT_LT(one.log_probability, 0);
  }
}

TEST_F(Dialogues, AnotherSeedChangesTheReplyAndTheFirstBringsItBack) {
  for (const bool answers : {false, true}) {
    const OpenedModel model = SmallModel(answers, 64);
    Dialogue dialogue(model, {});
    Say(dialogue, "Who?", 1);
    const auto first = Say(dialogue, "Why?", 1).written.ids;
    const auto second = Again(dialogue, 2).written.ids;
    EXPECT_NE(second, first);
    EXPECT_EQ(Again(dialogue, 1).written.ids, first);
    EXPECT_EQ(Again(dialogue, 2).written.ids, second);
    // Later replies know the reply that stayed, and not those before it.
    Dialogue straight(model, {});
    Say(straight, "Who?", 1);
    Say(straight, "Why?", 2);
    EXPECT_EQ(Say(dialogue, "So?", 1).written.ids, Say(straight, "So?", 1).written.ids);
    EXPECT_EQ(Say(dialogue, "", 1).stats.prompt_tokens, Say(straight, "", 1).stats.prompt_tokens);
  }
}

TEST_F(Dialogues, TheOldestTurnsAreForgotten) {
  const OpenedModel model = SmallModel(true, 64);  // 58 tokens for a question; a turn has 7 + 7
  Dialogue dialogue(model, {});
  for (int turn = 0; turn < 6; ++turn) {
    const Dialogue::Reply reply = Say(dialogue, "Who?");
    EXPECT_EQ(reply.forgotten, turn < 4 ? 0 : 1) << turn;
    EXPECT_EQ(reply.stats.prompt_tokens, 7 + 14 * std::min(turn, 3));
  }
}

TEST_F(Dialogues, AModelThatDoesNotAnswerGoesOn) {
  const OpenedModel model = SmallModel(false, 64);
  Dialogue dialogue(model, {});
  EXPECT_EQ(Say(dialogue, "abc").stats.prompt_tokens, 3);
  EXPECT_EQ(Say(dialogue, "").stats.prompt_tokens, 9) << "a little more";
  EXPECT_EQ(Say(dialogue, " de").stats.prompt_tokens, 18);
  EXPECT_EQ(Say(dialogue, "fg").stats.prompt_tokens, 27) << "after a line break";
  dialogue.Begin();
  EXPECT_FALSE(dialogue.replied());
  EXPECT_EQ(Say(dialogue, "abc").stats.prompt_tokens, 3);
}

TEST_F(Dialogues, ATextBeyondTheContextForgetsItsBeginning) {
  const OpenedModel model = SmallModel(false, 64);  // 58 tokens for the text
  Dialogue dialogue(model, {});
  EXPECT_EQ(Say(dialogue, std::string(50, 'x')).forgotten, 0);
  const Dialogue::Reply reply = Say(dialogue, "abc");
  EXPECT_EQ(reply.forgotten, 50 + 6 + 4 - 32);
  EXPECT_EQ(reply.stats.prompt_tokens, 32);
  EXPECT_EQ(Say(dialogue, std::string(200, 'x')).stats.prompt_tokens, 58);
  dialogue.Say("", Endless(1, 300), Show());
  EXPECT_EQ(Say(dialogue, "").forgotten, 64 - 32) << "no more than a context is kept";
}

TEST_F(Dialogues, AReplyThatIsStoppedIsPartOfTheConversation) {
  for (const bool answers : {false, true}) {
    const OpenedModel model = SmallModel(answers, 64);
    Dialogue dialogue(model, {});
    int64_t calls = 0;
    const Dialogue::Reply reply =
        dialogue.Say("Who?", Endless(1), [&](std::string_view) { return ++calls < 4; });
    EXPECT_EQ(reply.written.reason, FinishReason::kCancelled);
    EXPECT_LT(reply.written.ids.size(), 6u);
    EXPECT_TRUE(dialogue.replied());
    const int64_t kept = std::ssize(reply.written.ids);
    EXPECT_EQ(Say(dialogue, "Why?").stats.prompt_tokens, answers ? 7 + kept + 1 + 7 : 4 + kept + 5);
  }
}

TEST_F(Dialogues, WhatCannotBeSaidChangesNothing) {
  const OpenedModel model = SmallModel(true, 64);
  Dialogue dialogue(model, {}), straight(model, {});
  Say(dialogue, "Who?");
  Say(straight, "Who?");
  EXPECT_THROW(Say(dialogue, std::string(70, 'x')), Error);
  GenerateOptions wrong = Endless(1);
  wrong.sampling.temperature = -1;
  EXPECT_THROW(dialogue.Say("Why?", wrong, Show()), Error);
  EXPECT_EQ(Say(dialogue, "Why?").written.ids, Say(straight, "Why?").written.ids);
}

}  // namespace
}  // namespace folio
