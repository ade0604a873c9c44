#include "folio/text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/text/jinja.h"

namespace folio {
namespace {

constexpr size_t kLongestTemplate = size_t{1} << 20;  // bytes

struct BuiltinTemplate {
  std::string_view name, source;
};

// The forms of prompts of models whose files lack a template.
constexpr std::array<BuiltinTemplate, 5> kBuiltins = {{
    {"chatml", R"({%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
)"},
    {"llama3", R"({{- bos_token -}}
{%- for message in messages -%}
{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif -%}
)"},
    // Who has no system turn has its text before the user's.
    {"gemma", R"({{- bos_token -}}
{%- set ns = namespace(before='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.before = ns.before + message.content | trim + '\n\n' -%}
{%- else -%}
{%- set role = 'model' if message.role == 'assistant' else message.role -%}
{{ '<start_of_turn>' + role + '\n' + ns.before + message.content | trim + '<end_of_turn>\n' }}
{%- set ns.before = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%}
)"},
    {"zephyr", R"({%- for message in messages -%}
{{ '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif -%}
)"},
    {"nanochat", R"({{- '<|bos|>' -}}
{%- set ns = namespace(before='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.before = ns.before + message.content + '\n\n' -%}
{%- elif message.role == 'assistant' -%}
{{ '<|assistant_start|>' }}{% generation %}{{ message.content + '<|assistant_end|>' }}{% endgeneration %}
{%- else -%}
{{ '<|user_start|>' + ns.before + message.content + '<|user_end|>' }}
{%- set ns.before = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant_start|>' }}{% endif -%}
)"},
}};

bool IsRole(const Json& value) {
  constexpr std::string_view kKnown[] = {"system", "user", "assistant", "tool"};
  return std::ranges::any_of(kKnown, [&](std::string_view one) { return value == Json(one); });
}

// Messages for the template. Each text in them is marked as given by somebody but the role, which
// is one of a few words that folio knows: templates make special tokens of it.
jinja::Value MessagesFor(jinja::Meter& meter, const Json& messages) {
  std::vector<jinja::Value> all;
  for (const Json& message : messages) {
    jinja::Members members;
    const Json* speaker = message.find("role");
    const bool assistant = speaker != nullptr && *speaker == Json("assistant");
    const jinja::Char mark = assistant ? jinja::kGiven | jinja::kSaid : jinja::kGiven;
    for (const auto& [name, value] : message.items()) {
      const bool role = name == "role";
      if (role && !IsRole(value)) {
        throw InputError("a message has a role that is not known", value.dump(),
                         "roles are system, user, assistant and tool");
      }
      members.emplace_back(jinja::MakeText(meter, name),
                           jinja::FromJson(meter, value, role ? 0 : mark));
    }
    all.push_back(jinja::MakeMapping(meter, std::move(members)));
  }
  return jinja::MakeList(meter, std::move(all));
}

// The ranges of bytes of the characters that have the mark.
std::vector<TextRange> Marked(const jinja::Text& text, jinja::Char mark) {
  std::vector<TextRange> ranges;
  size_t byte = 0;
  for (size_t begin = 0; begin < text.size();) {
    const bool is = (text[begin] & mark) != 0;
    size_t end = begin;
    while (end < text.size() && ((text[end] & mark) != 0) == is) ++end;
    const size_t length = jinja::ToUtf8(jinja::TextView(text).substr(begin, end - begin)).size();
    if (is) ranges.push_back({byte, byte + length});
    byte += length;
    begin = end;
  }
  return ranges;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string where)
    : source_(std::make_shared<const std::string>(std::move(source))), where_(std::move(where)) {
  if (source_->size() > kLongestTemplate) {
    throw InputError(fmt::format("{}: a template of {} bytes", where_, source_->size()),
                     fmt::format("at most {} are read", kLongestTemplate));
  }
  tree_ = jinja::ParseTemplate(*source_, where_);
}

ChatTemplate::~ChatTemplate() = default;

RenderedChat ChatTemplate::Render(const ChatInput& input) const {
  jinja::Meter meter(where_);
  std::vector<std::pair<std::string_view, jinja::Value>> variables = {
      {"messages", MessagesFor(meter, input.messages)},
      {"tools", jinja::FromJson(meter, input.tools, jinja::kGiven)},
      {"documents", jinja::None{}},
      {"add_generation_prompt", input.add_generation_prompt}};
  if (!input.bos_token.empty()) {
    variables.emplace_back("bos_token", jinja::MakeText(meter, input.bos_token));
  }
  if (!input.eos_token.empty()) {
    variables.emplace_back("eos_token", jinja::MakeText(meter, input.eos_token));
  }
  const jinja::Text text = jinja::Render(*tree_, variables, input.now, meter);
  return {.text = jinja::ToUtf8(text),
          .given = Marked(text, jinja::kGiven),
          .generated = Marked(text, jinja::kGenerated),
          .said = Marked(text, jinja::kSaid),
          .source = source_};
}

std::vector<TextRange> ChatTemplate::Answers(const ChatInput& input) const {
  RenderedChat whole = Render(input);
  if (!whole.generated.empty()) return std::move(whole.generated);
  std::vector<TextRange> answers;
  ChatInput part = input;
  part.messages = Json::array();
  // The length of the text of the messages so far.
  const auto length = [&](bool ask) {
    part.add_generation_prompt = ask;
    const std::string text = Render(part).text;
    if (whole.text.starts_with(text)) return text.size();
    throw InputError(
        fmt::format("{}: where the answers are in a conversation cannot be told", where_),
        "it writes the beginning of a conversation otherwise than the whole",
        "mark what the model writes with {% generation %} in a file for --chat-template FILE");
  };
  for (const Json& message : input.messages) {
    const bool answer = message.at("role") == Json("assistant");
    const size_t begin = answer ? length(true) : 0;
    part.messages.push_back(message);
    if (answer) answers.push_back({begin, length(false)});
  }
  return answers;
}

std::vector<std::string> BuiltinChatTemplates() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& one : kBuiltins) names.emplace_back(one.name);
  return names;
}

std::shared_ptr<const ChatTemplate> OpenChatTemplate(const std::string& name_or_file) {
  for (const BuiltinTemplate& one : kBuiltins) {
    if (one.name != name_or_file) continue;
    return std::make_shared<const ChatTemplate>(std::string(one.source),
                                                fmt::format("the template {}", one.name));
  }
  if (!Exists(name_or_file)) {
    throw InputError(fmt::format("{}: neither a chat template nor a file", name_or_file), {},
                     fmt::format("name a file, or one of: {}", Join(BuiltinChatTemplates(), ", ")));
  }
  return std::make_shared<const ChatTemplate>(ReadFile(name_or_file, kLongestTemplate),
                                              name_or_file);
}

Json ChatMessagesJson(std::span<const ChatMessage> messages) {
  Json all = Json::array();
  for (const ChatMessage& message : messages) {
    all.push_back(Json{{"role", ChatRoleName(message.role)}, {"content", message.content}});
  }
  return all;
}

void EncodeRendered(const Tokenizer& tokenizer, const RenderedChat& chat, std::string_view where,
                    std::vector<int32_t>& ids) {
  // True if the ranges, which are in order, have some or all of [begin, end).
  const auto touches = [](const std::vector<TextRange>& ranges, size_t begin, size_t end) {
    const auto first = std::ranges::upper_bound(ranges, begin, {}, &TextRange::end);
    return begin < end && first != ranges.end() && first->begin < end;
  };
  const auto given_by_others = [&](size_t begin, size_t end) {
    size_t at = begin;
    for (auto said = std::ranges::upper_bound(chat.said, begin, {}, &TextRange::end);
         said != chat.said.end() && said->begin < end; ++said) {
      if (touches(chat.given, at, std::max(at, said->begin))) return true;
      at = said->end;
    }
    return touches(chat.given, at, std::max(at, end));
  };
  tokenizer.EncodeGuarded(
      chat.text,
      [&](std::string_view token, bool special, size_t begin, size_t end) {
        if (special) return !touches(chat.given, begin, end);
        if (chat.source == nullptr || !given_by_others(begin, end)) return true;
        return chat.source->find(token) == std::string::npos;
      },
      where, ids);
  tokenizer.RequireKnown(ids, where);
}

}  // namespace folio
