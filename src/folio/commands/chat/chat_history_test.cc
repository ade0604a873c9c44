#include "folio/commands/chat/chat_history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "folio/io/file.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

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
