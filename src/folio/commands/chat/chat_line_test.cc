#include "folio/commands/chat/chat_line.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Texts = std::vector<std::string>;

class ChatLines : public testing::Test {
 protected:
  static std::string Refusal(const std::function<void()>& what) {
    try {
      what();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what() + (" " + error.cause()) + " " + error.help();
    }
    ADD_FAILURE() << "nothing was refused";
    return "";
  }

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
  EXPECT_TRUE(Contains(Refusal([] { ParseChatLine("/set top-k"); }), "/set [KEY VALUE]"));
  EXPECT_TRUE(Contains(Refusal([] { ParseChatLine("/seed"); }), "/seed N"));
  EXPECT_TRUE(Contains(Refusal([] { ParseChatLine("/quit now"); }), "/quit"));
}

TEST_F(ChatLines, AWrongCommandNamesTheNearest) {
  EXPECT_TRUE(Contains(Refusal([] { ParseChatLine("/rety"); }), "/rety", "/retry", "/help"));
  EXPECT_TRUE(Contains(Refusal([] { ParseChatLine("/"); }), "/help", "//"));
}

TEST_F(ChatLines, SettingsAreFoundByTheirBeginning) {
  SetByKey(fields_, "temperature", "0.5");
  EXPECT_EQ(temperature_, 0.5);
  SetByKey(fields_, "temp", "2");
  EXPECT_EQ(temperature_, 2);
  SetByKey(fields_, "top-k", "3");
  EXPECT_EQ(top_k_, 3);
  EXPECT_TRUE(Contains(Refusal([&] { SetByKey(fields_, "top", "1"); }), "more than one"));
  EXPECT_TRUE(Contains(Refusal([&] { SetByKey(fields_, "heat", "1"); }), "no setting", "top-p"));
  EXPECT_TRUE(Contains(Refusal([&] { SetByKey(fields_, "top-k", "x"); }), "top-k"));
  EXPECT_TRUE(Contains(Refusal([&] { SetByKey(fields_, "top-p", "2"); }), "top-p"));
  EXPECT_EQ(top_p_, 1);
}

TEST_F(ChatLines, WhatIsBegunIsCompleted) {
  EXPECT_EQ(CompleteChatLine(fields_, "/se"), (Texts{"/set ", "/seed "}));
  EXPECT_EQ(CompleteChatLine(fields_, "/r"), Texts{"/retry"});
  EXPECT_EQ(CompleteChatLine(fields_, "/set te"), Texts{"/set temperature "});
  EXPECT_EQ(CompleteChatLine(fields_, "/set top"), (Texts{"/set top-k ", "/set top-p "}));
  EXPECT_EQ(CompleteChatLine(fields_, "/x"), Texts());
}

}  // namespace
}  // namespace folio
