#include "folio/corpus/conversation_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/text/chat_json.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(const std::string& where, std::string cause) {
  throw InputError(fmt::format("{}: not a conversation", where), std::move(cause),
                   fmt::format("expected {}", kConversationForms));
}

// Throws an Error that does not name the place.
[[noreturn]] void Wrong(const std::string& cause) {
  throw InputError(cause);
}

// Names of the members that hold a question and an answer, the likeliest first.
constexpr std::string_view kQuestions[] = {"prompt", "instruction", "question", "query", "input"};
constexpr std::string_view kAnswers[] = {"completion", "output", "response", "answer",
                                         "generation"};
// Names of the members that hold text to be read with the question, and the system's message.
constexpr std::string_view kContexts[] = {"input", "context"};
constexpr std::string_view kSystems[] = {"system", "system_prompt"};

// The first member, in the order of the names, that exists and is not null; null if there is none.
template <class Names>
const Json::Member* FindAny(const Json& line, const Names& names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find_if(line.items(), [&](const Json::Member& member) {
      return LowerAscii(member.key) == name && !member.value.is_null();
    });
    if (found != line.items().end()) return &*found;
  }
  return nullptr;
}

bool IsMessage(const Json& value) {
  return value.is_object() && (value.contains("role") || value.contains("from"));
}

bool IsSaid(const Json& value) {
  return value.is_string() || (value.is_array() && !value.empty() && IsMessage(*value.begin()));
}

const std::string& TextOf(const Json::Member& member) {
  if (member.value.is_string()) return member.value.text();
  Wrong(fmt::format("\"{}\" is not a string: {}", member.key, member.value.dump().substr(0, 60)));
}

// Returns OpenAI's name of a role that has another name, in any case, in ShareGPT's form or in
// those of other programs; an unknown name is returned unchanged.
std::string_view RoleFrom(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kRoles = {
      {{"system", "system"},
       {"developer", "developer"},
       {"user", "user"},
       {"assistant", "assistant"},
       {"tool", "tool"},
       {"function", "function"},
       {"human", "user"},
       {"gpt", "assistant"},
       {"chatgpt", "assistant"},
       {"bing", "assistant"},
       {"bard", "assistant"},
       {"model", "assistant"},
       {"bot", "assistant"},
       {"prompter", "user"},
       {"function_call", "assistant"},
       {"observation", "tool"},
       {"function_response", "tool"},
       {"tool_response", "tool"}}};
  const auto* const found = std::ranges::find(
      kRoles, LowerAscii(name), &std::pair<std::string_view, std::string_view>::first);
  return found == kRoles.end() ? name : found->second;
}

// The call of a tool in a text {"name": ..., "arguments": ...}; null for any other text.
Json CallIn(std::string_view text) {
  try {
    Json call = ParseJson(text, "call");
    return call.is_object() && call.contains("name") ? call : Json();
  } catch (const Error&) {
    return nullptr;
  }
}

// Returns a message in OpenAI's form.
Json MessageOf(const Json& given) {
  if (!given.is_object()) return given;
  if (!given.contains("from")) {
    const Json* role = given.find("role");
    if (role == nullptr || !role->is_string()) return given;
    Json message = given;
    message["role"] = RoleFrom(role->text());
    return message;
  }
  const Json& from = given.at("from");
  if (!from.is_string()) Wrong("\"from\" is not a string: " + from.dump().substr(0, 60));
  Json message = {{"role", RoleFrom(from.text())}};
  for (const auto& [key, value] : given.items()) {
    if (key != "from" && key != "role") message[key == "value" ? "content" : key] = value;
  }
  const Json* content = message.find("content");
  if (from.text() != "function_call" || content == nullptr || !content->is_string()) return message;
  if (Json call = CallIn(content->text()); !call.is_null()) {
    message["tool_calls"] = Json::array({std::move(call)});
    message["content"] = nullptr;
  }
  return message;
}

// `list` may also be the JSON text of a list, as in columns of tables.
std::vector<ChatMessage> MessagesOf(const Json& list, std::string_view key) {
  if (list.is_string() && list.text().starts_with('[')) {
    return MessagesOf(ParseJson(list.text(), fmt::format("\"{}\"", key)), key);
  }
  if (!list.is_array()) Wrong(fmt::format("\"{}\" is not a list", key));
  Json messages = Json::array();
  for (const Json& one : list) messages.push_back(MessageOf(one));
  return ReadChatMessages(messages);
}

// Adds a message of `role` with this text, or the messages of a list.
void AddSaid(const Json::Member& member, ChatRole role, std::vector<ChatMessage>& to) {
  if (!member.value.is_array()) return to.push_back({role, TextOf(member)});
  const std::vector<ChatMessage> messages = MessagesOf(member.value, member.key);
  to.insert(to.end(), messages.begin(), messages.end());
}

// Adds the turns before the last, [["question", "answer"], ...].
void AddHistory(const Json& line, std::vector<ChatMessage>& to) {
  const Json* history = line.find("history");
  if (history == nullptr || history->is_null()) return;
  const auto is_pair = [](const Json& turn) {
    return turn.is_array() && turn.size() == 2 &&
           std::ranges::all_of(turn, [](const Json& text) { return text.is_string(); });
  };
  if (!history->is_array() || !std::ranges::all_of(*history, is_pair)) {
    Wrong("\"history\" is not a list of pairs of strings");
  }
  for (const Json& turn : *history) {
    to.push_back({ChatRole::kUser, turn[0].text()});
    to.push_back({ChatRole::kAssistant, turn[1].text()});
  }
}

struct Pair {
  const Json::Member *question = nullptr, *answer = nullptr;
};

std::optional<Pair> FindPair(const Json& line) {
  if (!line.is_object()) return {};
  const Pair pair = {FindAny(line, kQuestions), FindAny(line, kAnswers)};
  if (pair.question == nullptr || pair.answer == nullptr) return {};
  // Other names are those of other data too: they must hold texts or messages.
  const bool usual = (line.contains("prompt") && line.contains("completion")) ||
                     (line.contains("instruction") && line.contains("output"));
  if (!usual && (!IsSaid(pair.question->value) || !IsSaid(pair.answer->value))) return {};
  return pair;
}

std::vector<ChatMessage> ReadPair(const Json& line, const Pair& pair) {
  std::vector<ChatMessage> messages;
  AddHistory(line, messages);
  AddSaid(*pair.question, ChatRole::kUser, messages);
  const Json::Member* context = FindAny(line, kContexts);
  if (context != nullptr && context != pair.question && messages.back().role == ChatRole::kUser) {
    const std::string& more = TextOf(*context);
    if (!more.empty()) messages.back().content += "\n\n" + more;
  }
  AddSaid(*pair.answer, ChatRole::kAssistant, messages);
  return messages;
}

// The shape of a conversation: a list of messages, or a question and its answer.
struct Shape {
  std::string name;
  std::string_view key = "messages";
  const Json* list = nullptr;
  Pair pair = {};
};

// Returns the first shape that fits.
std::optional<Shape> FindShape(const Json& line) {
  for (const std::string_view key : {"messages", "conversations", "conversation"}) {
    const Json* list = line.find(key);
    if (list != nullptr && !list->is_null()) return Shape{fmt::format("\"{}\"", key), key, list};
  }
  if (line.is_array() && IsSaid(line)) return Shape{.name = "a list of messages", .list = &line};
  const std::optional<Pair> pair = FindPair(line);
  if (!pair) return {};
  return Shape{.name = fmt::format("\"{}\" and \"{}\"", pair->question->key, pair->answer->key),
               .pair = *pair};
}

Conversation Read(const Shape& shape, const Json& line) {
  Conversation read{.messages = shape.list != nullptr ? MessagesOf(*shape.list, shape.key)
                                                      : ReadPair(line, shape.pair)};
  if (!line.is_object()) return read;
  read.variables = ReadTemplateVariables(line);
  for (const char* key : {"tools", "functions"}) {
    const Json* tools = line.find(key);
    if (read.tools.is_null() && tools != nullptr) read.tools = ReadChatTools(*tools);
  }
  const Json::Member* system = FindAny(line, kSystems);
  const bool begun = !read.messages.empty() && read.messages[0].role == ChatRole::kSystem;
  if (system != nullptr && !begun && !TextOf(*system).empty()) {
    read.messages.insert(read.messages.begin(), {ChatRole::kSystem, TextOf(*system)});
  }
  return read;
}

}  // namespace

bool IsConversation(const Json& line) {
  return FindShape(line).has_value();
}

std::string NameConversationShape(const Json& line) {
  return FindShape(line).value().name;
}

Conversation ReadConversation(const Json& line, const std::string& where) {
  const std::optional<Shape> shape = FindShape(line);
  if (!shape) Refuse(where, "it has none of the expected members");
  Conversation read;
  try {
    read = Read(*shape, line);
  } catch (const Error& error) {
    Refuse(where, error.what());
  }
  const bool answered = std::ranges::any_of(read.messages, [](const ChatMessage& message) {
    return message.role == ChatRole::kAssistant;
  });
  if (!answered) Refuse(where, "there is no message of the assistant");
  return read;
}

}  // namespace folio
