#include "folio/commands/chat/chat_line.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
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

TEST_F(ChatLines, AWrongCommandSaysWhatIsRight) {
  for (const auto& row : std::vector<std::pair<std::string, std::string>>{
           {"/set top-k", "/set is typed otherwise |  | /set [KEY VALUE]"},
           {"/seed", "/seed is typed otherwise |  | /seed N"},
           {"/quit now", "/quit is typed otherwise |  | /quit"},
           {"/rety",
            "there is no command /rety | did you mean /retry? | /help lists them; a message that "
            "begins with / is typed with //"},
           {"/",
            "there is no command / |  | /help lists them; a message that begins with / is typed "
            "with //"}}) {
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
            "'top' is more than one setting |  | one of: temperature, top-k, top-p");
  EXPECT_EQ(refusal("heat", "1"), "'heat' is no setting |  | one of: temperature, top-k, top-p");
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

}  // namespace
}  // namespace folio
