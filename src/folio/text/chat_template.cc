#include "folio/text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// Prompt formats of models whose files lack a template.
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
    // A model without system turns gets that text before the user's.
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

// Messages for the template. Each text in them is marked as given by others, except the role, which
// is one of a few words that folio knows: templates make special tokens of it.
jinja::Value MessagesFor(jinja::Meter& meter, const Json& messages) {
  std::vector<jinja::Value> all;
  for (const Json& message : messages) {
    jinja::Members members;
    const Json* speaker = message.find("role");
    const bool assistant = speaker != nullptr && *speaker == Json("assistant");
    const auto number = static_cast<jinja::Char>(all.size() % jinja::kMostMessage + 1);
    const jinja::Char mark = number << jinja::kMessageShift | jinja::kGiven |
                             (assistant ? jinja::kSaid : jinja::Char{0});
    for (const auto& [name, value] : message.items()) {
      const bool role = name == "role";
      if (role && !(value.is_string() && FindChatRole(value.text()))) {
        throw InputError("unknown role in a message", value.dump(),
                         "the roles are system, user, assistant and tool");
      }
      members.emplace_back(jinja::MakeText(meter, name),
                           jinja::FromJson(meter, value, role ? 0 : mark));
    }
    all.push_back(jinja::MakeMapping(meter, std::move(members)));
  }
  return jinja::MakeList(meter, std::move(all));
}

// Calls f(mark, range) with the range of bytes of each run of characters with equal marks.
template <class MarkOf, class F>
void ForRuns(const jinja::Text& text, MarkOf&& mark_of, F&& f) {
  size_t byte = 0;
  for (size_t begin = 0; begin < text.size();) {
    const auto mark = mark_of(text[begin]);
    size_t end = begin;
    while (end < text.size() && mark_of(text[end]) == mark) ++end;
    const size_t length = jinja::ToUtf8(jinja::TextView(text).substr(begin, end - begin)).size();
    f(mark, TextRange{byte, byte + length});
    byte += length;
    begin = end;
  }
}

// The ranges of bytes of the characters with this mark.
std::vector<TextRange> Marked(const jinja::Text& text, jinja::Char mark) {
  std::vector<TextRange> ranges;
  ForRuns(
      text, [&](jinja::Char c) { return (c & mark) != 0; },
      [&](bool marked, TextRange range) {
        if (marked) ranges.push_back(range);
      });
  return ranges;
}

// The output of each of `count` messages. Message numbers wrap around, and templates write messages
// in order: a number means the nearest message with that number after the last one.
std::vector<MessageRange> OfMessages(const jinja::Text& text, size_t count) {
  constexpr auto kNumbers = static_cast<int64_t>(jinja::kMostMessage);
  const auto messages = static_cast<int64_t>(count);
  std::vector<MessageRange> found;
  int64_t last = 0;
  ForRuns(text, jinja::MessageOf, [&](jinja::Char number, TextRange range) {
    if (number == 0) return;
    const int64_t lowest = messages <= kNumbers ? 0 : std::max<int64_t>(last - kNumbers / 2, 0);
    const int64_t behind = (static_cast<int64_t>(number) - 1 - lowest) % kNumbers;
    last = std::min(lowest + (behind < 0 ? behind + kNumbers : behind), messages - 1);
    found.push_back({static_cast<size_t>(last), range});
  });
  return found;
}

template <class Is>
bool AnyNode(const jinja::Node& node, const Is& is) {
  return is(node) || std::ranges::any_of(node.parts, [&](const jinja::NodePtr& part) {
           return part != nullptr && AnyNode(*part, is);
         });
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string where)
    : source_(std::make_shared<const std::string>(std::move(source))), where_(std::move(where)) {
  if (source_->size() > kLongestTemplate) {
    throw InputError(fmt::format("{}: the template has {} bytes", where_, source_->size()),
                     fmt::format("at most {} are allowed", kLongestTemplate));
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
  for (const auto& [name, value] : input.variables.items()) {
    variables.emplace_back(name, jinja::FromJson(meter, value, jinja::kGiven));
  }
  const jinja::Text text = jinja::Render(*tree_, variables, input.now, meter);
  return {.text = jinja::ToUtf8(text),
          .given = Marked(text, jinja::kGiven),
          .generated = Marked(text, jinja::kGenerated),
          .said = Marked(text, jinja::kSaid),
          .of_messages = OfMessages(text, input.messages.size()),
          .source = source_,
          .wrote_values = meter.wrote_values};
}

bool ChatTemplate::ReadsVariable(std::string_view name) const {
  return AnyNode(*tree_, [&](const jinja::Node& node) {
    return node.kind == jinja::NodeKind::kName && node.name == name;
  });
}

bool ChatTemplate::ReadsMember(std::string_view name) const {
  return AnyNode(*tree_, [&](const jinja::Node& node) {
    if (node.kind == jinja::NodeKind::kAttribute) return node.name == name;
    if (node.kind != jinja::NodeKind::kConstant) return false;
    const jinja::Text* text = jinja::TextOf(node.constant);
    return text != nullptr && jinja::ToUtf8(*text) == name;
  });
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
                     fmt::format("give a file, or one of: {}", Join(BuiltinChatTemplates(), ", ")));
  }
  return std::make_shared<const ChatTemplate>(ReadFile(name_or_file, kLongestTemplate),
                                              name_or_file);
}

Json ChatMessagesJson(std::span<const ChatMessage> messages) {
  Json all = Json::array();
  for (const ChatMessage& message : messages) {
    Json one = {{"role", ChatRoleName(message.role)},
                {"content", message.silent ? Json() : Json(message.content)}};
    for (const auto& [key, value] : message.more.items()) one.Add(key, value);
    all.push_back(std::move(one));
  }
  return all;
}

std::string PythonJson(const Json& value) {
  jinja::Meter meter("JSON");
  jinja::TextBuilder out(meter);
  jinja::WriteJson(meter, jinja::FromJson(meter, value, 0), {.comma = U", ", .colon = U": "}, out);
  return jinja::ToUtf8(out.text());
}

void EncodeRendered(const Tokenizer& tokenizer, const RenderedChat& chat, std::string_view where,
                    std::vector<int32_t>& ids) {
  // True if the ranges, which are in order, overlap [begin, end).
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
