#include "folio/commands/chat/conversation.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/infer/test_small_model.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class ChatLines : public testing::Test {
 protected:
  double temperature_ = 1, top_p_ = 1;
  int64_t top_k_ = 0;
  std::vector<Field> fields_ = {{"temperature", &temperature_, "", 0, 10},
                                {"top-k", &top_k_, "", 0, 100},
                                {"top-p", &top_p_, "", 0.1, 1}};
};

TEST_F(ChatLines, AMessageIsTakenAsItIs) {
  for (const char* text : {"", " ", "Who?", "a/b", " /set", "two\nlines "}) {
    const ChatLine line = ParseChatLine(text);
    EXPECT_EQ(line.word, ChatWord::kMessage);
    EXPECT_EQ(line.text, text);
  }
  EXPECT_EQ(ParseChatLine("//set").text, "/set");
  EXPECT_EQ(ParseChatLine("//set").word, ChatWord::kMessage);
}

TEST_F(ChatLines, ACommandTakesItsArguments) {
  const ChatLine set = ParseChatLine("/set  top-k\t5 ");
  EXPECT_EQ(set.word, ChatWord::kSet);
  EXPECT_EQ(set.arguments, (Texts{"top-k", "5"}));
  EXPECT_EQ(ParseChatLine("/set").arguments, Texts());
  EXPECT_EQ(ParseChatLine("/seed 7").arguments, Texts{"7"});
  EXPECT_EQ(ParseChatLine("/retry").word, ChatWord::kRetry);
  EXPECT_EQ(ParseChatLine("/quit").word, ChatWord::kQuit);
}

TEST_F(ChatLines, ASystemMessageIsAllThatFollows) {
  const ChatLine line = ParseChatLine("/system  You are a \"pirate\",\n be brief ");
  EXPECT_EQ(line.word, ChatWord::kSystem);
  EXPECT_EQ(line.text, "You are a \"pirate\",\n be brief ");
  EXPECT_EQ(ParseChatLine("/system").text, "");
  EXPECT_EQ(ParseChatLine("/system ").text, "");
}

TEST_F(ChatLines, AWrongCommandSaysWhatIsRight) {
  for (const auto& row : std::vector<std::pair<std::string, std::string>>{
           {"/set top-k", "wrong arguments for /set |  | /set [KEY VALUE]"},
           {"/seed", "wrong arguments for /seed |  | /seed N"},
           {"/quit now", "wrong arguments for /quit |  | /quit"},
           {"/rety",
            "unknown command /rety | did you mean /retry? | /help lists them; to send a message "
            "that "
            "begins with /, type //"},
           {"/",
            "unknown command / |  | /help lists them; to send a message that begins with /, type "
            "//"}}) {
    EXPECT_EQ(ErrorAndHelp([&] { ParseChatLine(row.first); }, ErrorKind::kUsage), row.second);
  }
}

TEST_F(ChatLines, SettingsAreFoundByTheirBeginning) {
  SetByKey(fields_, "temperature", "0.5");
  EXPECT_EQ(temperature_, 0.5);
  SetByKey(fields_, "temp", "2");
  EXPECT_EQ(temperature_, 2);
  SetByKey(fields_, "top-k", "3");
  EXPECT_EQ(top_k_, 3);
  const auto refusal = [&](const std::string& key, const std::string& value) {
    return ErrorAndHelp([&] { SetByKey(fields_, key, value); }, ErrorKind::kUsage);
  };
  EXPECT_EQ(refusal("top", "1"),
            "'top' is an ambiguous setting |  | the settings are temperature, top-k, top-p");
  EXPECT_EQ(refusal("heat", "1"),
            "'heat' is an unknown setting |  | the settings are temperature, top-k, top-p");
  EXPECT_TRUE(Contains(refusal("top-k", "x"), "top-k"));
  EXPECT_TRUE(Contains(refusal("top-p", "2"), "top-p"));
  EXPECT_EQ(top_p_, 1);
}

TEST_F(ChatLines, WhatIsBegunIsCompleted) {
  EXPECT_EQ(CompleteChatLine(fields_, "/se"), (Texts{"/set ", "/seed "}));
  EXPECT_EQ(CompleteChatLine(fields_, "/r"), Texts{"/retry"});
  EXPECT_EQ(CompleteChatLine(fields_, "/set te"), Texts{"/set temperature "});
  EXPECT_EQ(CompleteChatLine(fields_, "/set top"), (Texts{"/set top-k ", "/set top-p "}));
  EXPECT_EQ(CompleteChatLine(fields_, "/x"), Texts());
}

class ChatHistories : public InTemporaryDirectory {
 protected:
  fs::perms Mode(const fs::path& path) const { return fs::status(path).permissions(); }
  fs::path path_ = At("state/folio/history");
};

TEST_F(ChatHistories, WhatWasTypedComesBackInItsOrder) {
  {
    ChatHistory history(path_);
    EXPECT_EQ(history.earlier(), Texts());
    for (const char* text : {"one", "two\nlines \"x\"", "two\nlines \"x\"", "", "Ж"}) {
      history.Add(text);
    }
  }
  ChatHistory again(path_);
  EXPECT_EQ(again.earlier(), (Texts{"one", "two\nlines \"x\"", "Ж"}));
  again.Add("Ж");
  EXPECT_EQ(ChatHistory(path_).earlier().size(), 3u) << "not the same twice in a row";
}

TEST_F(ChatHistories, OnlyTheOwnerReadsIt) {
  ChatHistory(path_).Add("secret");
  EXPECT_EQ(Mode(path_), fs::perms(0600));
  EXPECT_EQ(Mode(path_.parent_path()), fs::perms(0700));
  fs::permissions(path_, fs::perms(0644));
  ChatHistory history(path_);
  EXPECT_EQ(Mode(path_), fs::perms(0600));
  EXPECT_EQ(history.earlier(), Texts{"secret"});
  const mode_t mask = umask(022);
  umask(mask);
  EXPECT_NE(mask, mode_t{077}) << "other files are made as before";
}

TEST_F(ChatHistories, DamagedLinesAreLeftOut) {
  fs::create_directories(path_.parent_path());
  WriteFileAtomically(path_, "\"a\"\n{\n\"b\nnull\n\"c\"\n");
  EXPECT_EQ(ChatHistory(path_).earlier(), (Texts{"a", "c"}));
}

TEST_F(ChatHistories, AFileThatGrewTooLongKeepsItsEnd) {
  fs::create_directories(path_.parent_path());
  std::string lines;
  for (size_t i = 0; i <= 2 * ChatHistory::kKept; ++i) lines += '"' + std::to_string(i) + "\"\n";
  WriteFileAtomically(path_, lines);
  const ChatHistory history(path_);
  EXPECT_EQ(history.earlier().size(), ChatHistory::kKept);
  EXPECT_EQ(history.earlier().back(), std::to_string(2 * ChatHistory::kKept));
  EXPECT_EQ(ChatHistory(path_).earlier(), history.earlier());
  EXPECT_EQ(Mode(path_), fs::perms(0600));
}

TEST_F(ChatHistories, WithoutAPlaceForItNothingFails) {
  ChatHistory("").Add("x");
  fs::create_directories(path_);  // a directory in its place
  ChatHistory history(path_);
  history.Add("x");
  EXPECT_EQ(history.earlier(), Texts());
}

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
    // Later replies see the reply that stayed, and not those before it.
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
