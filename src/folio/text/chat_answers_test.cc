#include "folio/text/chat_answers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/text/chat_template.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Messages = std::vector<ChatMessage>;
constexpr ChatRole kSystem = ChatRole::kSystem, kUser = ChatRole::kUser,
                   kAssistant = ChatRole::kAssistant, kTool = ChatRole::kTool;

// A conversation with its answers in brackets.
std::string AnswersOf(const ChatTemplate& chat, const Messages& messages,
                      const Strings& ends = {}) {
  ChatInput input;
  input.messages = ChatMessagesJson(messages);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  std::vector<bool> learned;
  for (const ChatMessage& message : messages) learned.push_back(message.learned);
  const RenderedChat whole = chat.Render(input);
  std::string answers;
  for (const TextRange& range : FindAnswers(chat, input, whole, learned, ends)) {
    answers += "[" + whole.text.substr(range.begin, range.end - range.begin) + "]";
  }
  return answers;
}

std::string AnswersOf(const std::string& source, const Messages& messages,
                      const Strings& ends = {}) {
  return AnswersOf(ChatTemplate(source, "t"), messages, ends);
}

const Messages kTurns = {
    {kSystem, "s"}, {kUser, "q"}, {kAssistant, "a"}, {kUser, "q"}, {kAssistant, ""}};

TEST(ChatAnswers, GoUpToTheEndOfTheTurn) {
  const struct {
    const char *name, *end, *with_end, *without;
  } cases[] = {
      {"chatml", "<|im_end|>", "[a<|im_end|>][<|im_end|>]", "[a<|im_end|>\n][<|im_end|>\n]"},
      {"llama3", "<|eot_id|>", "[a<|eot_id|>][<|eot_id|>]", "[a<|eot_id|>][<|eot_id|>]"},
      {"gemma", "<end_of_turn>", "[a<end_of_turn>][<end_of_turn>]",
       "[a<end_of_turn>\n][<end_of_turn>\n]"},
      {"zephyr", "</s>", "[a</s>][</s>]", "[a</s>\n][</s>\n]"},
      {"nanochat", "<|assistant_end|>", "[a<|assistant_end|>][<|assistant_end|>]",
       "[a<|assistant_end|>][<|assistant_end|>]"}};
  for (const auto& one : cases) {
    const auto chat = OpenChatTemplate(one.name);
    EXPECT_EQ(AnswersOf(*chat, kTurns, {one.end}), one.with_end) << one.name;
    EXPECT_EQ(AnswersOf(*chat, kTurns), one.without) << one.name;
  }
}

// Like Qwen 3's: the template writes the reasoning for the last answer alone, so that the beginning
// of a conversation differs from that of the whole.
TEST(ChatAnswers, AreFoundWhereFormerTurnsAreWrittenOtherwise) {
  const std::string source =
      "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
      "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
      "{{ '<' + m.role + '>' }}{% if m.role == 'assistant' and loop.index0 > ns.last %}"
      "{{ '<think>' + (m.reasoning_content or '') + '</think>' }}{% endif %}"
      "{{ m.content + '<end>' }}\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const ChatMessage thought{
      .role = kAssistant, .content = "a", .more = Json{{"reasoning_content", "hm"}}};
  const Messages messages = {{kUser, "q"}, thought, {kUser, "q"}, thought};
  EXPECT_EQ(AnswersOf(source, messages, {"<end>"}), "[a<end>][<think>hm</think>a<end>]");
  EXPECT_EQ(AnswersOf(source, messages), "[a][<think>hm</think>a<end>\n]");
  // The prompt for an answer may have more than the template writes for earlier ones.
  const std::string opens =
      source.substr(0, source.rfind("<assistant>")) + "<assistant><think></think>{% endif %}";
  EXPECT_EQ(AnswersOf(opens, messages, {"<end>"}), "[a<end>][hm</think>a<end>]");
}

// Like Mistral's: the system text is moved before the last question.
TEST(ChatAnswers, AreFoundWhereTheSystemsTextMoves) {
  const std::string source =
      "{% set ns = namespace(system='') %}{{ bos_token }}{% for m in messages %}"
      "{% if m.role == 'system' %}{% set ns.system = m.content + '\n\n' %}"
      "{% elif m.role == 'user' %}[INST] {{ (ns.system if loop.index >= messages | length - 1 "
      "else '') + m.content }}[/INST]{% else %} {{ m.content + eos_token }}{% endif %}"
      "{% endfor %}";
  EXPECT_EQ(
      AnswersOf(source,
                {{kSystem, "s"}, {kUser, "q"}, {kAssistant, "a"}, {kUser, "r"}, {kAssistant, "b"}},
                {"</s>"}),
      "[ a</s>][ b</s>]");
}

TEST(ChatAnswers, CallsOfToolsAreAnswersAndResultsAreNot) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
      "<call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>{% endfor %}<end>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const Json function = {{"name", "f"}, {"arguments", Json{{"a", 1}}}};
  const Messages messages = {
      {kUser, "q"},
      {.role = kAssistant,
       .more = Json{{"tool_calls", Json::array({Json{{"function", function}}})}}},
      {kTool, "<assistant>r"},
      {kAssistant, "a"}};
  EXPECT_EQ(AnswersOf(source, messages, {"<end>"}), "[<call>f{\"a\": 1}</call><end>][a<end>]");
}

TEST(ChatAnswers, OnlyThoseAreTakenThatAreLearned) {
  Messages messages = {{kUser, "q"}, {kAssistant, "a"}, {kUser, "q"}, {kAssistant, "b"}};
  messages[1].learned = false;
  EXPECT_EQ(AnswersOf(*OpenChatTemplate("chatml"), messages, {"<|im_end|>"}), "[b<|im_end|>]");
  EXPECT_EQ(AnswersOf(*OpenChatTemplate("nanochat"), messages), "[b<|assistant_end|>]");
  messages[1].content = "";
  EXPECT_EQ(AnswersOf(*OpenChatTemplate("nanochat"), messages), "[b<|assistant_end|>]");
}

// Message numbers wrap around.
TEST(ChatAnswers, AreFoundInLongConversations) {
  Messages messages;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    messages.push_back({kUser, "q"});
    messages.push_back({kAssistant, std::to_string(i)});
    messages.back().learned = i % 7 == 0;
    if (i % 7 == 0) expected += "[" + std::to_string(i) + "<|im_end|>]";
  }
  EXPECT_EQ(AnswersOf(*OpenChatTemplate("chatml"), messages, {"<|im_end|>"}), expected);
}

TEST(ChatAnswers, WhatIsNotShownIsRefused) {
  EXPECT_TRUE(Contains(ErrorAndHelp([] {
                         AnswersOf("{{ messages | length }}", {{kUser, "q"}, {kAssistant, "a"}});
                       }),
                       "message 2", "cannot find the answer", "{% generation %}"));
}

}  // namespace
}  // namespace folio
