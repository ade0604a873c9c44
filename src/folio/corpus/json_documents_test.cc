#include <gtest/gtest.h>

#include "folio/corpus/text_stream.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Messages = std::vector<ChatMessage>;
constexpr ChatRole kSystem = ChatRole::kSystem, kUser = ChatRole::kUser,
                   kAssistant = ChatRole::kAssistant;

Messages Read(const char* line) {
  return ReadConversation(ParseJson(line, "line"), "f:3");
}

TEST(Conversation, IsReadInEverySpelling) {
  EXPECT_EQ(
      Read(R"({"messages": [{"role": "system", "content": "s"},
                     {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                     {"role": "user", "content": ""}, {"role": "assistant", "content": "b"}]})"),
      (Messages{{kSystem, "s"}, {kUser, "q"}, {kAssistant, "a"}, {kUser, ""}, {kAssistant, "b"}}));
  const Messages pair = {{kUser, "q"}, {kAssistant, "a"}};
  EXPECT_EQ(Read(R"({"prompt": "q", "completion": "a", "id": 3})"), pair);
  EXPECT_EQ(Read(R"({"prompt": [{"role": "user", "content": "q"}],
                     "completion": [{"role": "assistant", "content": "a"}]})"),
            pair);
  EXPECT_EQ(Read(R"({"instruction": "q", "output": "a"})"), pair);
  EXPECT_EQ(Read(R"({"instruction": "q", "input": "", "output": "a"})"), pair);
  EXPECT_EQ(Read(R"({"instruction": "q", "input": null, "output": "a"})"), pair);
  EXPECT_EQ(Read(R"({"instruction": "q", "input": "i", "output": "a"})"),
            (Messages{{kUser, "q\n\ni"}, {kAssistant, "a"}}));
}

TEST(Conversation, IsToldFromText) {
  for (const char* text :
       {R"({"text": "a"})", R"({"prompt": "a"})", R"({"output": "a"})", "[]", "3", "{}"}) {
    EXPECT_FALSE(IsConversation(ParseJson(text, "line"))) << text;
  }
  EXPECT_TRUE(IsConversation(ParseJson(R"({"messages": 3})", "line")));
}

TEST(Conversation, WhatIsWrongIsSaid) {
  const auto expect = [](const char* line, const char* cause) {
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { Read(line); }), "f:3: not a conversation", cause,
                         "\"messages\""))
        << line;
  };
  expect(R"({"text": "a"})", "none of the members");
  expect(R"({"messages": 3})", "not a list");
  expect(R"({"messages": []})", "nobody answers");
  expect(R"({"messages": [{"role": "user", "content": "q"}]})", "nobody answers");
  expect(R"({"messages": [3]})", "not an object");
  expect(R"({"messages": [{"role": "tool", "content": "q"}]})", "\"tool\"");
  expect(R"({"messages": [{"content": "q"}]})", "no \"role\"");
  expect(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", "\"content\"");
  expect(R"({"prompt": 1, "completion": "a"})", "\"prompt\" is not text");
  expect(R"({"instruction": "q", "input": 5, "output": "a"})", "\"input\" is not text");
}

}  // namespace
}  // namespace folio
