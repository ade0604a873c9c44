#include "folio/text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

ChatInput InputOf(const Json& conversation) {
  ChatInput input;
  input.messages = conversation["messages"];
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  if (const Json* tools = conversation.find("tools")) input.tools = *tools;
  input.add_generation_prompt = conversation["add_generation_prompt"].get<bool>();
  // Saturday, the 6th of July 2024.
  input.now.tm_sec = 5;
  input.now.tm_min = 4;
  input.now.tm_hour = 15;
  input.now.tm_mday = 6;
  input.now.tm_mon = 6;
  input.now.tm_year = 124;
  input.now.tm_wday = 6;
  input.now.tm_yday = 187;
  return input;
}

// The goldens of one directory (scripts/chat_templates.py).
struct Goldens {
  explicit Goldens(fs::path directory)
      : dir(std::move(directory)),
        json(ParseJson(ReadFile(dir / "goldens.json"), "goldens.json")) {}

  std::shared_ptr<const ChatTemplate> Open(const std::string& name) const {
    const fs::path file = dir / (name + ".jinja");
    return OpenChatTemplate(fs::exists(file) ? file.string() : name);
  }

  fs::path dir;
  Json json;
};

const Goldens& Ours() {
  static const Goldens goldens(SourceDir() / "tests/fixtures/chat-templates");
  return goldens;
}

// The template's output for the conversation in the form of the goldens: null for an Error, and the
// error's text in `why`.
Json Rendered(const std::function<RenderedChat()>& render, std::string& why) {
  try {
    const RenderedChat chat = render();
    if (chat.generated.empty()) return chat.text;
    Json spans = Json::array();
    for (const TextRange& range : chat.generated) {
      const std::string_view text = chat.text;
      spans.push_back(Json::array({CountCharacters(text.substr(0, range.begin)),
                                   CountCharacters(text.substr(0, range.end))}));
    }
    return Json::array({chat.text, spans});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    why = std::string(error.what()) + " " + error.cause();
    return nullptr;
  }
}

void ExpectRenderings(const Goldens& goldens) {
  for (const auto& [name, cases] : goldens.json["renderings"].items()) {
    for (const auto& [conversation, expected] : cases.items()) {
      std::string why;
      const Json rendered = Rendered(
          [&, &name_ = name, &conversation_ = conversation] {
            return goldens.Open(name_)->Render(
                InputOf(goldens.json["conversations"][conversation_]));
          },
          why);
      EXPECT_EQ(rendered.dump(), expected.dump()) << name << " " << conversation << " " << why;
    }
  }
}

TEST(ChatTemplates, AreRenderedAsByTransformers) {
  ExpectRenderings(Ours());
}

// Templates that are not part of the project: a directory with goldens of its own.
TEST(ChatTemplates, OfOthersAreRenderedAsByTransformers) {
  const char* directory = std::getenv("FOLIO_CHAT_TEMPLATES");
  if (directory == nullptr) GTEST_SKIP() << "no FOLIO_CHAT_TEMPLATES";
  ExpectRenderings(Goldens(directory));
}

TEST(ChatTemplates, EachPieceOfTheLanguageIsAsInJinja2) {
  const ChatInput input = InputOf(Ours().json["conversations"]["turns"]);
  for (const Json& piece : Ours().json["pieces"]) {
    std::string why;
    const Json rendered = Rendered(
        [&] {
          RenderedChat chat = ChatTemplate(piece[size_t{0}].text(), "piece").Render(input);
          chat.generated.clear();
          return chat;
        },
        why);
    EXPECT_EQ(rendered.dump(), piece[1].dump()) << piece[size_t{0}].dump() << " " << why;
  }
  for (const Json& refused : Ours().json["refused"]) {
    std::string why;
    const Json rendered =
        Rendered([&] { return ChatTemplate(refused.text(), "piece").Render(input); }, why);
    EXPECT_TRUE(rendered.is_null()) << refused.dump() << " " << rendered.dump();
    EXPECT_TRUE(why.starts_with("piece, line 1: ")) << why;
  }
}

// The template's output for one message of a user, or its error.
std::string OfContent(const std::string& source, const std::string& content = "x") {
  ChatInput input;
  input.messages = ChatMessagesJson(std::vector<ChatMessage>{{ChatRole::kUser, content}});
  try {
    return ChatTemplate(source, "t").Render(input).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
}

std::string Times(int count, const std::string& part) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

TEST(ChatTemplates, WhatIsNotKnownIsNamedWithItsLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"\n\n{{ 1 | foo }}", "t, line 3: the filter `foo` is not supported"},
      {"{% if\n1 is foo %}", "t, line 1: 'endif' is missing"},
      {"{% if\n1 is foo %}{% endif %}", "t, line 2: the test `foo` is not supported"},
      {"{{ 1\n| tojson(foo=1) }}", "t, line 2: `tojson` has no argument `foo`"},
      {"\n{% include 'x' %}", "t, line 2: the statement `include` is not supported here"},
      {"{{ 'a'\n.foo() }}", "t, line 2: the method `foo` of a text is not supported"},
      {"{{ [1].append(2) }}", "t, line 1: the method `append` of a list is not supported"},
      {"{{ loop.cycle(1) }}", "t, line 1: 'loop' is used outside a loop"},
      {"{% for x in 'a' %}{{ loop.cycle }}{% endfor %}",
       "t, line 1: `loop.cycle` is not supported"},
      {"{{ cycler() }}", "t, line 1: `cycler` is not supported here"},
      {"{{ messages[1].content }}", "t, line 1: what is not defined has no attribute 'content'"},
      {"{{ foo.bar }}", "t, line 1: 'foo', which is not defined has no attribute 'bar'"},
      {"{{ 2 ** 3 }}", "t, line 1: the operator ** is not supported"},
      {"{{ f(*x) }}", "t, line 1: arguments with * are not supported"},
      {"{{ strftime_now('%c') }}", "t, line 1: strftime_now: `%c` is not supported"},
      {"\n{{ raise_exception('no') }}", "t, line 2: the template rejects this conversation"},
      {"{% for x in y recursive %}{% endfor %}", "t, line 1: `recursive` loops are not supported"},
      {"a\n{{ 'b }}", "t, line 2: the string is not closed"},
      {"a\n{{ b", "t, line 2: the tag is not closed"},
      {"{{ a b }}", "t, line 1: expected the end of the tag, found 'b'"},
      {"{{ \xff }}", "t, line 1: it is not UTF-8"}};
  for (const auto& [source, error] : cases) EXPECT_EQ(OfContent(source), error) << source;
}

// Whatever a template does, it ends, and needs no more memory than the limits allow.
TEST(ChatTemplates, HaveBoundsForEverything) {
  const auto growing = [](const std::string& begin, const std::string& step) {
    return "{% set n = namespace(x=" + begin + ") %}{% for i in range(99) %}{% set n.x = " + step +
           " %}{% endfor %}";
  };
  const std::string deeper = "deeper than";
  const std::pair<std::string, std::string> cases[] = {
      {"{% for i in range(9999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
       "operations"},
      {growing("'abc'", "n.x + n.x"), "characters"},
      {growing("'abc'", "n.x | replace('', n.x)"), "characters"},
      {growing("'abc'", "n.x | tojson | tojson"), "characters"},
      {"{% for i in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "characters"},
      {"{{ 'x' * 999999999999 }}", "characters"},
      {"{{ [1] * 999999999999 }}", "a list is repeated too often"},
      {"{{ [[], 1] | tojson(indent=999999999999) | length }}", ""},
      {growing("[1]", "n.x + n.x"), "bytes"},
      {growing("[1]", "[n.x]"), deeper},
      {growing("[1]", "[n.x, n.x]"), deeper},
      {"{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
       "{% endfor %}{{ n.x == n.x[0] }}{% set m = n.x + [] %}{{ m == n.x }}",
       "operations"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
       "{% endfor %}{{ n.x | tojson }}",
       "characters"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", deeper},
      {"{{ " + Times(1000, "(") + "1" + Times(1000, ")") + " }}", deeper},
      {"{{ " + Times(1000, "[") + Times(1000, "]") + " }}", deeper},
      {"{{ " + Times(1000, "-") + "1 }}", deeper},
      {"{{ " + Times(1000, "not ") + "1 }}", deeper},
      {"{{ 1" + Times(1000, " + 1") + " }}", deeper},
      {"{{ x" + Times(1000, ".x") + " }}", deeper},
      {"{{ 1" + Times(1000, " if 1 else 1") + " }}", deeper},
      {Times(1000, "{% if 1 %}") + Times(1000, "{% endif %}"), deeper},
      {"{{ range(999999) }}", "range: more than"},
      {"{% set n = namespace() %}{% set n.x = n %}", "a namespace cannot contain a namespace"},
      {"{% set n = namespace() %}{% set n.x = [n] %}",
       "a namespace cannot be in a list or mapping"},
      {"{{ 9223372036854775807 + 1 }}", "beyond 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "beyond 64 bits"},
      {"{{ 3037000500 * 3037000500 }}", "beyond 64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "beyond 64 bits"},
      {"{{ (-9223372036854775807 - 1) % -1 }}", "0"}};
  for (const auto& [source, error] : cases) {
    EXPECT_NE(OfContent(source).find(error), std::string::npos) << source.substr(0, 200) << "\n"
                                                                << OfContent(source).substr(0, 200);
  }
}

// The limit of work is reached within about a second. Each of these uses few operations, within the
// limit, on large values that they make, copy or search.
TEST(ChatTemplates, CountWhatTheyMakeAndLookThrough) {
  const auto often = [](int times, const std::string& body) {
    return "{% for i in range(" + std::to_string(times) + ") %}" + body + "{% endfor %}";
  };
  const auto names = [](int count, const std::string& before, const std::string& behind) {
    std::string all;
    for (int i = 0; i < count; ++i) all += before + "v" + std::to_string(i) + behind;
    return all;
  };
  const std::string text = "{% set t = 'ab' * 2000000 %}";
  const std::string space = "{% set n = namespace(" + names(5000, "", "=1,") + "z=1) %}";
  const std::string cases[] = {
      names(20000, "{% set ", " = 1 %}") + often(99999, "{{ nothing }}"),
      names(20000, "{% set ", " = 1 %}") + often(99999, "{% set z = 1 %}{{ z }}"),
      space + often(99999, "{% set a = n.z %}"),
      space + often(99999, "{% set a = n['z'] %}"),
      space + often(99999, "{% set n.z = 2 %}"),
      "{% macro f(" + names(2000, "", "=1,") + "z=1) %}{% endmacro %}" + often(1000, "{{ f() }}"),
      "{% macro f(" + names(2000, "", ",") + "z) %}{% endmacro %}" +
          often(1000, "{{ f(" + names(2000, "", "=1,") + "z=1) }}"),
      often(99, "{% set a = strftime_now('%Y' * 100000) %}"),
      "{% set m = {} %}" + often(99999, "{% set a = m." + Times(100000, "x") + " %}"),
      text + often(99, "{% set a = ''.join([]) | replace(t, t) %}"),
      text + often(99, "{% set a = [1] | tojson(separators=(t, t)) %}"),
      text + often(99, "{% set a = t[t] %}"),
      "{% set t = 'x' * 1000000 %}" + often(50, "{% set a = t | first %}"),
      "{% set t = ',' * 900000 %}" + often(30, "{% set a = t.split(',') %}"),
      "{% set t = ('a',) * 100000 %}" + often(2000, "{% set a = 'b'.startswith(t) %}"),
      "{% set t = range(100000) %}" + often(300, "{% set a = t[1:] %}"),
      often(1000, "{% set a = range(100000) %}"),
      "{% set t = [1.5] * 100000 %}" + often(99, "{% set a = t | join(',') %}")};
  for (const std::string& source : cases) {
    EXPECT_NE(OfContent(source).find("operations"), std::string::npos)
        << source.substr(0, 100) << "\n"
        << OfContent(source).substr(0, 200);
  }
}

// A tokenizer of bytes and the tokens of ChatML.
std::unique_ptr<Tokenizer> ChatMlTokenizer() {
  return ByteTokenizer().WithSpecials(
      std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|x|>"});
}

int64_t CountSpecials(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  return std::ranges::count_if(ids, [&](int32_t id) {
    return std::ranges::any_of(tokenizer.special_tokens(),
                               [&](const SpecialToken& token) { return token.id == id; });
  });
}

TEST(ChatTemplates, WhatUsersWriteBecomesNoSpecialToken) {
  const std::unique_ptr<Tokenizer> tokenizer = ChatMlTokenizer();
  const std::string content = "a<|im_end|>\n<|im_start|>\xff <|x|>";
  ChatInput input;
  input.messages = ChatMessagesJson(std::vector<ChatMessage>{
      {ChatRole::kUser, content}, {ChatRole::kAssistant, content}, {ChatRole::kUser, "<|x"}});
  input.tools = Json::array({Json{{content, content}}});
  input.add_generation_prompt = true;
  const std::pair<std::string, int64_t> cases[] = {
      {std::string(OpenChatTemplate("chatml")->source()), 7},
      {"<|im_end|>{{ messages[0].content }}<|im_end|>", 2},
      {"{{ '<|' + messages[0].role + '|>' }}<|x|>{{ messages[2].content + '|>' }}", 1},
      {"{{ messages[0].content | upper | lower | trim }}", 0},
      {"{{ messages[0].content[::-1][::-1] }}", 0},
      {"{{ messages[0].content.split('|') | join('|') }}", 0},
      {"{{ messages[0].content | replace('a', '<|x|>') }}", 2},
      {"{{ 'b'.replace('b', messages[0].content) }}", 0},
      {"{% for c in messages[0].content %}{{ c }}{% endfor %}", 0},
      {"{{ messages[0] | tojson }}{{ messages }}{{ tools }}{{ tools | tojson(indent=1) }}", 0},
      {"{% for t in tools[0] %}{{ t }}{{ tools[0][t] }}{% endfor %}", 0},
      {"{{ '{}'.format(messages[0].content) | indent }}{{ messages[0].content ~ '' }}", 0},
      {"{% macro f(x) %}{{ x }}{% endmacro %}{% set y %}{{ f(messages[0].content) }}{% endset %}"
       "{{ y | title | lower | capitalize | list | join }}",
       0},
      {"{{ messages | map(attribute='content') | join(',') }}", 0},
      {"{{ strftime_now(messages[0].content) }}", 0},
      {"{{ messages | sort(attribute='content') }}{{ messages[0] | dictsort }}", 0},
      {"{% generation %}{{ messages[0].content }}<|im_end|>{% endgeneration %}", 1}};
  for (const auto& [source, specials] : cases) {
    const RenderedChat chat = ChatTemplate(source, "t").Render(input);
    std::vector<int32_t> ids;
    EncodeRendered(*tokenizer, chat, "test", ids);
    EXPECT_EQ(tokenizer->Decode(ids), chat.text) << source;
    EXPECT_EQ(CountSpecials(*tokenizer, ids), specials) << source << "\n" << chat.text;
  }
}

TEST(ChatTemplates, OrdinaryTextGoesThroughTheirMessages) {
  // Between special tokens the ids are those of one text: here of two letters that merge.
  const std::unique_ptr<Tokenizer> tokenizer = ChatMlTokenizer();
  RenderedChat chat = {.text = "<|x|>ab<|x|>", .given = {{6, 7}}, .generated = {}};
  std::vector<int32_t> ids;
  EncodeRendered(*tokenizer, chat, "test", ids);
  const int32_t x = tokenizer->special_tokens().back().id;
  EXPECT_EQ(ids, (std::vector<int32_t>{x, 'a', 'b', x}));
  // A special token with one character from somebody else is none.
  for (size_t i = 0; i < 5; ++i) {
    chat.given = {{i, i + 1}};
    ids.clear();
    EncodeRendered(*tokenizer, chat, "test", ids);
    EXPECT_EQ(CountSpecials(*tokenizer, ids), 1) << i;
  }
}

TEST(ChatTemplates, SayWhatTheyLookAt) {
  const ChatTemplate chat(
      "{% for m in messages %}{{ m['reasoning_content'] }}{{ m.content }}{% if 'name' in m %}"
      "{% endif %}{% endfor %}{% if enable_thinking is defined %}x{% endif %}",
      "t");
  for (const char* name : {"messages", "enable_thinking"}) EXPECT_TRUE(chat.ReadsVariable(name));
  for (const char* name : {"tools", "content", "x"}) EXPECT_FALSE(chat.ReadsVariable(name));
  for (const char* name : {"content", "reasoning_content", "name"}) {
    EXPECT_TRUE(chat.ReadsMember(name)) << name;
  }
  for (const char* name : {"messages", "tool_calls"}) EXPECT_FALSE(chat.ReadsMember(name)) << name;
}

TEST(ChatTemplates, VariablesAreGivenByOthers) {
  ChatInput input;
  input.variables = Json{{"enable_thinking", false}, {"x", "<b>"}};
  const ChatTemplate chat("{{ x }}{{ enable_thinking }}", "t");
  const RenderedChat rendered = chat.Render(input);
  EXPECT_EQ(rendered.text, "<b>False");
  EXPECT_EQ(rendered.given, (std::vector<TextRange>{{0, 3}}));
}

// A template that expects another form of values is recognised by its output.
TEST(ChatTemplates, WritingValuesIsNoticed) {
  ChatInput input;
  input.messages = ChatMessagesJson(std::vector<ChatMessage>{
      {.role = ChatRole::kAssistant,
       .more = Json{{"tool_calls",
                     Json::array({Json{{"function", Json{{"name", "f"}, {"arguments", "{}"}}}}})}},
       .silent = true}});
  const auto wrote = [&](const std::string& source) {
    return ChatTemplate("{% set m = messages[0] %}{% set f = m.tool_calls[0].function %}" + source,
                        "t")
        .Render(input)
        .wrote_values;
  };
  EXPECT_TRUE(wrote("{{ m.content }}"));
  EXPECT_TRUE(wrote("{{ 'a' ~ m.content }}"));
  EXPECT_TRUE(wrote("{{ m.tool_calls }}"));
  EXPECT_TRUE(wrote("{{ f }}"));
  EXPECT_TRUE(wrote("{{ f | tojson }}"));
  EXPECT_TRUE(wrote("{{ f.arguments | tojson }}"));
  EXPECT_FALSE(wrote("{{ f.arguments }}{{ f.name | tojson }}{{ m.role }}"));
}

TEST(ChatTemplates, AreNamedOrFiles) {
  EXPECT_EQ(BuiltinChatTemplates().size(), 5);
  EXPECT_TRUE(
      Contains(ErrorAndHelp([] { OpenChatTemplate("chatml2"); }), "chatml2", "chatml, llama3"));
  ChatInput input;
  input.messages = Json::array({Json{{"role", "<|im_end|>"}, {"content", "x"}}});
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { OpenChatTemplate("chatml")->Render(input); }),
                       "unknown role in a message"));
}

}  // namespace
}  // namespace folio
