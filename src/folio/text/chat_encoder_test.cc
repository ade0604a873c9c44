#include "folio/text/chat_encoder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat_template.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

class ChatEncoders : public InTemporaryDirectory {
 protected:
  int32_t Special(size_t i) const { return tokenizer_->special_tokens()[i].id; }
  ChatEncoder Encoder(const std::string& name, const ChatSource& source = {}) const {
    return {*tokenizer_, OpenChatTemplate(name), source};
  }

  std::unique_ptr<Tokenizer> tokenizer_ =
      ByteTokenizer().WithSpecials(std::vector<std::string>{"<|im_start|>", "<|im_end|>", "</s>"});
};

TEST_F(ChatEncoders, WriteConversationsAsTheirTemplateDoes) {
  const ChatEncoder encoder = Encoder("chatml");
  EXPECT_EQ(encoder.format(), nullptr);
  const std::vector<ChatMessage> messages = {{ChatRole::kUser, "<|im_end|>"}};
  Ids ids;
  encoder.Encode(*tokenizer_, {.messages = messages}, /*ask=*/true, "test", ids);
  const int32_t start = Special(1), end = Special(2);
  EXPECT_EQ(std::ranges::count(ids, start), 2);
  EXPECT_EQ(std::ranges::count(ids, end), 1) << "the message has only what looks like one";
  EXPECT_EQ(tokenizer_->Decode(ids),
            "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  const std::unique_ptr<Tokenizer> of_roles = WithChatTokens(ByteTokenizer());
  const ChatFormat format = FindChatFormat(*of_roles).value();
  Ids by_roles, expected;
  ChatEncoder(format).Encode(*of_roles, {.messages = messages}, true, "test", by_roles);
  EncodeChat(*of_roles, format, messages, true, "test", expected);
  EXPECT_EQ(by_roles, expected);
  EXPECT_EQ(ChatEncoder(format).ends(), Ids{format.end});
}

TEST_F(ChatEncoders, FindWhatEndsAnAnswer) {
  EXPECT_EQ(Encoder("chatml").ends(), Ids{Special(2)});
  EXPECT_EQ(Encoder("chatml", {.eos_token = "</s>"}).ends(), (Ids{Special(2), Special(3)}));
  EXPECT_EQ(Encoder("zephyr", {.eos_token = "</s>"}).ends(), Ids{Special(3)});
  EXPECT_EQ(Encoder("llama3").ends(), Ids()) << "its <|eot_id|> is no token here";
}

TEST_F(ChatEncoders, TemplatesAreReadFromFilesOfModels) {
  const auto read = [&](const std::string& config) {
    WriteFileAtomically(At("tokenizer_config.json"), config);
    return ReadChatSource(At(""));
  };
  EXPECT_EQ(ReadChatSource(At("")).text, "");
  EXPECT_EQ(read(R"({"bos_token":"<s>"})").text, "");
  ChatSource source = read(
      R"({"chat_template":"{{ x }}","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}})");
  EXPECT_EQ(source.text, "{{ x }}");
  EXPECT_EQ(source.bos_token, "<s>");
  EXPECT_EQ(source.eos_token, "</s>");
  source = read(R"({"chat_template":[{"name":"tool_use","template":"t"},)"
                R"({"name":"default","template":"d"}],"eos_token":null})");
  EXPECT_EQ(source.text, "d");
  EXPECT_EQ(source.for_tools, "t");
  WriteFileAtomically(At("chat_template.jinja"), "j");
  source = ReadChatSource(At(""));
  EXPECT_EQ(source.text, "j");
  EXPECT_EQ(source.where, At("chat_template.jinja"));
  // The map beside tokenizer_config.json may name what that does not.
  WriteFileAtomically(At("special_tokens_map.json"),
                      R"({"bos_token":"<a>","eos_token":{"content":"<b>"},"pad_token":"<c>"})");
  EXPECT_EQ(ReadChatSource(At("")).eos_token, "<b>");
  EXPECT_EQ(ReadChatSource(At("")).bos_token, "<a>");
  source = read(R"({"eos_token":"</s>"})");
  EXPECT_EQ(source.eos_token, "</s>");
  EXPECT_EQ(source.bos_token, "<a>");
  std::filesystem::remove(At("tokenizer_config.json"));
  EXPECT_EQ(ReadChatSource(At("")).eos_token, "<b>");
  PutFile("additional_chat_templates/tool_use.jinja", "u");
  EXPECT_EQ(ReadChatSource(At("")).for_tools, "u");
  EXPECT_TRUE(Contains(ErrorOf([&] { read("[1"); }), "tokenizer_config.json"));
}

// The text of a conversation up to the begin of the answer.
std::string Asked(const ChatEncoder& encoder, const Tokenizer& tokenizer,
                  const Conversation& conversation) {
  Ids ids;
  encoder.Encode(tokenizer, conversation, /*ask=*/true, "test", ids);
  return tokenizer.Decode(ids);
}

ChatEncoder WithSource(const Tokenizer& tokenizer, const std::string& source,
                       const std::string& for_tools = "") {
  return {tokenizer, std::make_shared<const ChatTemplate>(source, "t"),
          ChatSource{.text = source, .for_tools = for_tools}};
}

TEST_F(ChatEncoders, VariablesReachTheTemplateOrAreRefused) {
  ChatEncoder encoder =
      WithSource(*tokenizer_,
                 "{{ messages[0].content }}{% if enable_thinking is defined and not "
                 "enable_thinking %}<off>{% endif %}{{ effort }}");
  const Conversation plain{.messages = {{ChatRole::kUser, "q"}}};
  EXPECT_EQ(Asked(encoder, *tokenizer_, plain), "q");
  Conversation off = plain;
  off.variables = Json{{"enable_thinking", false}, {"effort", "low"}};
  EXPECT_EQ(Asked(encoder, *tokenizer_, off), "q<off>low");
  const auto refused = [&](const char* name) {
    Conversation bad = plain;
    bad.variables = Json::object();
    bad.variables[name] = true;
    return ErrorOf([&] { Asked(encoder, *tokenizer_, bad); });
  };
  EXPECT_TRUE(Contains(refused("enable_thinkin"), "no variable 'enable_thinkin'"));
  EXPECT_TRUE(Contains(refused("messages"), "'messages'", "' of the chat template cannot be set"));
  // For all conversations; a conversation's own value takes precedence.
  encoder.SetVariables(Json{{"enable_thinking", false}, {"effort", "high"}});
  EXPECT_EQ(Asked(encoder, *tokenizer_, plain), "q<off>high");
  EXPECT_EQ(Asked(encoder, *tokenizer_, off), "q<off>low");
  EXPECT_TRUE(Contains(ErrorOf([&] { encoder.SetVariables(Json{{"x", 1}}); }), "'x'"));
  const std::unique_ptr<Tokenizer> of_roles = WithChatTokens(ByteTokenizer());
  ChatEncoder roles = FindChatFormat(*of_roles).value();
  EXPECT_TRUE(Contains(ErrorOf([&] { Asked(roles, *of_roles, off); }), "no chat template"));
}

TEST_F(ChatEncoders, ToolsHaveATemplateOfTheirOwnWhereThereIsOne) {
  const Json tools = Json::array({Json{{"function", Json{{"name", "f"}}}}});
  const Conversation asked{.messages = {{ChatRole::kUser, "q"}}, .tools = tools};
  const std::string plain = "{{ messages[0].content }}";
  const std::string for_tools = "{{ tools[0].function.name }}:" + plain;
  const ChatEncoder both = WithSource(*tokenizer_, plain, for_tools);
  EXPECT_EQ(Asked(both, *tokenizer_, asked), "f:q");
  EXPECT_EQ(Asked(both, *tokenizer_, {.messages = asked.messages}), "q");
  EXPECT_EQ(Asked(WithSource(*tokenizer_, for_tools), *tokenizer_, asked), "f:q");
  const ChatEncoder deaf = WithSource(*tokenizer_, plain);
  EXPECT_TRUE(Contains(ErrorOf([&] { Asked(deaf, *tokenizer_, asked); }),
                       "the model's chat template does not support tools"));
  EXPECT_TRUE(Contains(ErrorOf([&] { WithSource(*tokenizer_, plain, "{% what %}"); }), "tool_use"));
}

// Templates take arguments of calls as texts or as objects, and contents that are null or not.
TEST_F(ChatEncoders, MessagesTakeTheFormThatTheTemplateWasMadeFor) {
  const auto called = [](const Json& arguments) {
    const Json function = {{"name", "f"}, {"arguments", arguments}};
    return Conversation{
        .messages = {{ChatRole::kUser, "q"},
                     {.role = ChatRole::kAssistant,
                      .more = Json{{"tool_calls", Json::array({Json{{"type", "function"},
                                                                    {"function", function}}})}},
                      .silent = true},
                     {ChatRole::kTool, "r"}}};
  };
  const std::string calls = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string ends = "{% endfor %}{{ m.content }};{% endfor %}";
  const std::string f = "c.function.arguments";
  const std::string given = R"({"a":"b"})", spaced = R"({"a": "b"})";
  struct Case {
    const char* what;
    std::string source, of_text, of_object;
  };
  const Case cases[] = {
      {"concatenates", calls + "{{ 'f' + " + f + " }}" + ends, "q;f" + given + ";r;",
       "q;f" + spaced + ";r;"},
      {"writes", calls + "{{ " + f + " }}" + ends, "q;" + given + ";r;", "q;" + spaced + ";r;"},
      {"makes JSON", calls + "{{ " + f + " | tojson }}" + ends, "q;" + spaced + ";r;",
       "q;" + spaced + ";r;"},
      {"looks inside",
       calls + "{{ " + f + ".a }}{% for k, v in " + f + ".items() %}{{ k + v }}" + "{% endfor %}" +
           ends,
       "q;bab;r;", "q;bab;r;"},
      {"takes both",
       calls + "{% if " + f + " is string %}{{ " + f + " }}{% else %}{{ " + f +
           " | tojson }}{% endif %}" + ends,
       "q;" + given + ";r;", "q;" + spaced + ";r;"}};
  for (const Case& one : cases) {
    const ChatEncoder encoder = WithSource(*tokenizer_, one.source);
    EXPECT_EQ(Asked(encoder, *tokenizer_, called(given)), one.of_text) << one.what;
    EXPECT_EQ(Asked(encoder, *tokenizer_, called(ParseJson(given, "a"))), one.of_object)
        << one.what;
  }
  // Null stays null for templates that need it, and is an empty text for others.
  const std::string none =
      "{% for m in messages %}{% if m.content is none %}none{% else %}{{ 'c' + m.content }}"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(Asked(WithSource(*tokenizer_, none), *tokenizer_, called(given)), "cqnonecr");
  const std::string adds = "{% for m in messages %}{{ 'c' + m.content }}{% endfor %}";
  EXPECT_EQ(Asked(WithSource(*tokenizer_, adds), *tokenizer_, called(given)), "cqccr");
  // An error that the template raises is reported.
  EXPECT_TRUE(Contains(ErrorOf([&] {
                         Asked(WithSource(*tokenizer_, "{{ raise_exception('no') }}"), *tokenizer_,
                               called(given));
                       }),
                       ": the template rejects this conversation"));
}

std::vector<std::string> AnswersIn(const EncodedChat& chat, const Tokenizer& tokenizer) {
  std::vector<std::string> answers;
  for (const TokenRange& range : chat.answers) {
    answers.push_back(
        tokenizer.Decode(std::span(chat.ids).subspan(range.begin, range.end - range.begin)));
  }
  return answers;
}

TEST_F(ChatEncoders, AnswersAreTokensUpToTheEndOfTheirTurn) {
  const Conversation conversation{
      .messages = {{ChatRole::kUser, "<|im_end|>"},
                   {ChatRole::kAssistant, "a<|im_end|>"},
                   {ChatRole::kUser, "q"},
                   {.role = ChatRole::kAssistant, .content = "b", .learned = false},
                   {ChatRole::kAssistant, ""}}};
  const EncodedChat chat = Encoder("chatml").EncodeAnswers(*tokenizer_, conversation, "t");
  EXPECT_EQ(AnswersIn(chat, *tokenizer_), (Strings{"a<|im_end|><|im_end|>", "<|im_end|>"}));
  EXPECT_EQ(chat.ids[chat.answers[0].end - 1], Special(2));
  EXPECT_TRUE(chat.ended);
  const EncodedChat open =
      WithSource(*tokenizer_,
                 "{% for m in messages %}{{ m.role + ':' + m.content }}\n{% endfor %}"
                 "{% if add_generation_prompt %}assistant:{% endif %}")
          .EncodeAnswers(*tokenizer_, conversation, "t");
  EXPECT_EQ(AnswersIn(open, *tokenizer_), (Strings{"a<|im_end|>\n", "\n"}));
  EXPECT_FALSE(open.ended);
  const std::unique_ptr<Tokenizer> of_roles = WithChatTokens(ByteTokenizer());
  const ChatEncoder roles = FindChatFormat(*of_roles).value();
  EXPECT_EQ(AnswersIn(roles.EncodeAnswers(*of_roles, conversation, "t"), *of_roles),
            (Strings{"a<|im_end|><|end|>", "<|end|>"}));
}

}  // namespace
}  // namespace folio
