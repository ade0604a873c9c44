#include "folio/corpus/conversation_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Messages = std::vector<ChatMessage>;
constexpr ChatRole kSystem = ChatRole::kSystem, kUser = ChatRole::kUser,
                   kAssistant = ChatRole::kAssistant, kTool = ChatRole::kTool;

Messages ReadTurns(const std::string& line) {
  return ReadConversation(ParseJson(line, "line"), "f:3").messages;
}

TEST(ConversationLines, AreReadInEveryShape) {
  EXPECT_EQ(
      ReadTurns(R"({"messages": [{"role": "system", "content": "s"},
                     {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                     {"role": "user", "content": ""}, {"role": "assistant", "content": "b"}]})"),
      (Messages{{kSystem, "s"}, {kUser, "q"}, {kAssistant, "a"}, {kUser, ""}, {kAssistant, "b"}}));
  const Messages pair = {{kUser, "q"}, {kAssistant, "a"}};
  for (
      const char* line :
      {R"({"prompt": "q", "completion": "a", "id": 3})",
       R"({"prompt": [{"role": "user", "content": "q"}],
            "completion": [{"role": "assistant", "content": "a"}]})",
       R"({"instruction": "q", "output": "a"})",
       R"({"instruction": "q", "input": "", "output": "a"})",
       R"({"instruction": "q", "input": null, "output": "a"})",
       R"({"instruction": "q", "context": "", "response": "a", "category": "c"})",
       R"({"INSTRUCTION": "q", "RESPONSE": "a"})",
       R"({"Question": "q", "Answer": "a"})",
       R"({"query": "q", "response": "a"})",
       R"({"input": "q", "output": "a"})",
       R"({"prompt": "q", "generation": "a"})",
       R"({"prompt": "q", "response": "a"})",
       R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])",
       R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
       R"({"conversation": [{"from": "user", "value": "q"}, {"from": "chatgpt", "value": "a"}]})",
       R"({"conversations": [{"role": "user", "content": "q"},
                              {"role": "assistant", "content": "a"}]})",
       R"({"messages": [{"role": "User", "content": "q"}, {"role": "ASSISTANT", "content": "a"}]})",
       R"({"messages": [{"role": "human", "content": "q"}, {"role": "bot", "content": "a"}]})",
       R"({"conversations": [{"from": "Human", "value": "q"}, {"from": "GPT", "value": "a"}]})",
       R"({"messages": "[{\"role\": \"user\", \"content\": \"q\"}, )"
       R"({\"role\": \"assistant\", \"content\": \"a\"}]"})",
       R"({"messages": null, "question": "q", "answer": "a"})",
       R"({"system": "", "question": "q", "response": "a"})"}) {
    EXPECT_EQ(ReadTurns(line), pair) << line;
  }
  EXPECT_EQ(ReadTurns(R"({"instruction": "q", "input": "i", "output": "a"})"),
            (Messages{{kUser, "q\n\ni"}, {kAssistant, "a"}}));
  EXPECT_EQ(ReadTurns(R"({"system_prompt": "s", "question": "q", "response": "a"})"),
            (Messages{{kSystem, "s"}, {kUser, "q"}, {kAssistant, "a"}}));
  EXPECT_EQ(ReadTurns(R"({"instruction": "q", "output": "a", "history": [["h", "b"]]})"),
            (Messages{{kUser, "h"}, {kAssistant, "b"}, {kUser, "q"}, {kAssistant, "a"}}));
}

TEST(ConversationLines, TheFirstShapeWins) {
  const Json both = ParseJson(R"({"prompt": "x", "completion": "y", "text": "t",
      "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
                              "line");
  EXPECT_EQ(ReadConversation(both, "f").messages, (Messages{{kUser, "q"}, {kAssistant, "a"}}));
  EXPECT_EQ(NameConversationShape(both), "\"messages\"");
  EXPECT_EQ(NameConversationShape(ParseJson(R"({"Question": "q", "answer": "a"})", "line")),
            "\"Question\" and \"answer\"");
}

TEST(ConversationLines, ShareGptCallsToolsToo) {
  const Conversation read = ReadConversation(
      ParseJson(R"({"system": "s", "tools": "[{\"name\": \"f\"}]", "conversations": [
          {"from": "human", "value": "q"},
          {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
          {"from": "observation", "value": "r"}, {"from": "gpt", "value": "a", "weight": 0}]})",
                "line"),
      "f:3");
  ASSERT_EQ(read.messages.size(), 5u);
  EXPECT_EQ(read.messages[0], (ChatMessage{kSystem, "s"}));
  const Json& call = read.messages[2].more.at("tool_calls").at(0).at("function");
  EXPECT_EQ(call, (Json{{"name", "f"}, {"arguments", Json{{"a", 1}}}}));
  EXPECT_EQ(read.messages[3], (ChatMessage{kTool, "r"}));
  EXPECT_FALSE(read.messages[4].learned);
  EXPECT_EQ(read.tools.size(), 1u);
}

TEST(ConversationLines, AreToldFromTexts) {
  for (const char* text :
       {R"({"text": "a"})", R"({"prompt": "a"})", R"({"output": "a"})", "[]", "3", "{}",
        R"(["a", "b"])", R"({"question": "q", "answer": 3})", R"({"input": [1], "output": [2]})",
        R"({"question": "q", "answers": {"text": ["a"]}})", R"({"messages": null})",
        R"({"prompt": "q", "chosen": "a", "rejected": "b"})"}) {
    EXPECT_FALSE(IsConversation(ParseJson(text, "line"))) << text;
  }
  EXPECT_TRUE(IsConversation(ParseJson(R"({"messages": 3})", "line")));
}

TEST(ConversationLines, WhatIsWrongIsSaid) {
  const auto expect = [](const char* line, const char* cause) {
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { ReadTurns(line); }), "f:3: not a conversation", cause,
                         "\"messages\""))
        << line;
  };
  expect(R"({"text": "a"})", "it has none of the expected members");
  expect(R"({"messages": 3})", "not a list");
  expect(R"({"messages": []})", "no message of the assistant");
  expect(R"({"messages": [{"role": "user", "content": "q"}]})", "no message of the assistant");
  expect(R"({"messages": [3]})", "not an object");
  expect(R"({"messages": [{"role": "owner", "content": "q"}]})", "\"owner\"");
  expect(R"({"messages": [{"content": "q"}]})", "no \"role\"");
  expect(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", "\"content\"");
  expect(R"({"conversations": [{"from": "alien", "value": "q"}]})", "\"alien\"");
  expect(R"({"conversations": [{"from": 3, "value": "q"}]})", "\"from\"");
  expect(R"({"conversations": "x"})", "not a list");
  expect(R"({"messages": "[{"})", "\"messages\":1:3: not valid JSON");
  expect(R"({"prompt": 1, "completion": "a"})", "\"prompt\" is not a string");
  expect(R"({"instruction": "q", "input": 5, "output": "a"})", "\"input\" is not a string");
  expect(R"({"instruction": "q", "output": "a", "history": ["x"]})", "\"history\"");
  expect(R"({"prompt": "q", "completion": "a", "tools": "x"})", "\"tools\"");
}

}  // namespace
}  // namespace folio
