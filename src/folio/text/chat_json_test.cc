#include "folio/text/chat_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Messages = std::vector<ChatMessage>;

Messages Read(const std::string& list) {
  return ReadChatMessages(ParseJson(list, "list"));
}

TEST(ChatJson, RolesAndContentsAreRead) {
  EXPECT_EQ(Read(R"([{"role":"developer","content":"d"},{"role":"user","content":
                [{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                {"role":"function","content":"r"},{"role":"assistant","content":""}])"),
            (Messages{{ChatRole::kSystem, "d"},
                      {ChatRole::kUser, "ab"},
                      {ChatRole::kTool, "r"},
                      {ChatRole::kAssistant, ""}}));
}

TEST(ChatJson, NullIsWhatIsNotThereAndAllElseIsKept) {
  // A message as openai-python writes it.
  EXPECT_EQ(Read(R"([{"role":"assistant","content":"b","refusal":null,"annotations":null,
                      "audio":null,"function_call":null,"tool_calls":null}])"),
            (Messages{{ChatRole::kAssistant, "b"}}));
  EXPECT_EQ(Read(R"([{"role":"assistant","content":"b","tool_calls":[]}])"),
            (Messages{{ChatRole::kAssistant, "b"}}));
  const Messages read = Read(R"([{"role":"user","content":"q","name":"Ann"},
                                 {"role":"assistant","content":null,"reasoning_content":"hm"}])");
  EXPECT_EQ(read[0].more, (Json{{"name", "Ann"}}));
  EXPECT_EQ(read[1].more, (Json{{"reasoning_content", "hm"}}));
  EXPECT_TRUE(read[1].silent);
}

TEST(ChatJson, CallsHaveOneForm) {
  const Json call =
      ParseJson(R"({"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}})", "call");
  for (const char* message :
       {R"({"role":"assistant","content":null,"tool_calls":
           [{"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]})",
        R"({"role":"assistant","tool_calls":[{"name":"f","arguments":"{\"a\": 1}"}]})",
        R"({"role":"assistant","function_call":{"name":"f","arguments":"{\"a\": 1}"}})"}) {
    const Messages read = Read("[" + std::string(message) + "]");
    EXPECT_EQ(read[0].more.at("tool_calls"), Json::array({call})) << message;
    EXPECT_TRUE(read[0].silent);
  }
}

TEST(ChatJson, WeightsSayWhatIsLearned) {
  const Messages read = Read(R"([{"role":"assistant","content":"a","weight":0},
                                 {"role":"assistant","content":"b","weight":1.0},
                                 {"role":"assistant","content":"c","train":false},
                                 {"role":"assistant","content":"d"}])");
  std::vector<bool> learned;
  for (const ChatMessage& message : read) {
    learned.push_back(message.learned);
    EXPECT_TRUE(message.more.empty());
  }
  EXPECT_EQ(learned, (std::vector<bool>{false, true, false, true}));
}

TEST(ChatJson, WhatIsWrongIsSaidWithTheMessage) {
  const auto refused = [](const std::string& message, const char* cause) {
    EXPECT_TRUE(
        Contains(ErrorOf([&] { Read(R"([{"role":"user","content":"q"},)" + message + "]"); }),
                 "message 2", cause))
        << message;
  };
  refused("3", "not an object");
  refused(R"({"content":"a"})", "no \"role\"");
  refused(R"({"role":"owner","content":"a"})", "\"owner\"");
  refused(R"({"role":"user"})", "no \"content\"");
  refused(R"({"role":"assistant","content":null})", "no \"content\"");
  refused(R"({"role":"user","content":3})", "\"content\" is not a string:");
  refused(R"({"role":"user","content":[{"type":"image_url"}]})", "not text");
  refused(R"({"role":"user","content":"a","tool_calls":[{"name":"f"}]})",
          "only messages of the assistant have \"tool_calls\"");
  refused(R"({"role":"assistant","tool_calls":[{"type":"x"}]})", "type");
  refused(R"({"role":"assistant","tool_calls":[{"function":{}}]})", "\"name\"");
  refused(R"({"role":"assistant","tool_calls":[{"name":"f","arguments":"[1]"}]})", "arguments");
  refused(R"({"role":"assistant","content":"a","weight":0.5})", "0 or 1");
  refused(R"({"role":"assistant","content":"a","name":3})", "\"name\" is not a string:");
}

TEST(ChatJson, ToolsAndVariablesStandBesideTheMessages) {
  const Conversation read = ReadChatConversation(ParseJson(
      R"({"messages":[{"role":"user","content":"q"}],"enable_thinking":false,
          "chat_template_kwargs":{"effort":"low"},"functions":[{"name":"f"}]})",
      "conversation"));
  EXPECT_EQ(read.tools,
            Json::array({Json{{"type", "function"}, {"function", Json{{"name", "f"}}}}}));
  EXPECT_EQ(read.variables, (Json{{"effort", "low"}, {"enable_thinking", false}}));
  EXPECT_EQ(ReadChatTools(Json(R"([{"name": "f"}])")), read.tools) << "as tables hold them";
  EXPECT_TRUE(ReadChatTools(Json::array()).is_null());
  EXPECT_TRUE(Contains(ErrorOf([] { ReadChatTools(Json("x")); }), "\"tools\""));
  EXPECT_TRUE(Contains(ErrorOf([] { ReadChatTools(Json::array({Json(3)})); }), "\"tools\""));
}

TEST(ChatJson, VariablesAreWrittenInTwoWays) {
  const Json both = {{"enable_thinking", false}, {"effort", "low"}};
  EXPECT_EQ(ParseTemplateVariables(R"({"enable_thinking": false, "effort": "low"})"), both);
  EXPECT_EQ(ParseTemplateVariables("enable_thinking=false,effort=low"), both);
  EXPECT_TRUE(ParseTemplateVariables("").empty());
  for (const char* text : {"x", "=1", "{\"a\""}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { ParseTemplateVariables(text); }, ErrorKind::kUsage), text));
  }
}

}  // namespace
}  // namespace folio
