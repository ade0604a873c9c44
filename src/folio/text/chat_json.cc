#include "folio/text/chat_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(const std::string& cause) {
  throw InputError(cause);
}

// The member; null if it is missing or is null itself.
const Json* Given(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Shortened(const Json& value) {
  constexpr size_t kMost = 60;
  return value.dump().substr(0, kMost);
}

ChatRole RoleOf(const Json& message) {
  const Json* role = Given(message, "role");
  if (role == nullptr) Refuse("there is no \"role\"");
  if (!role->is_string()) Refuse("\"role\" is not a string: " + Shortened(*role));
  if (role->text() == "developer") return ChatRole::kSystem;
  if (role->text() == "function") return ChatRole::kTool;
  if (const std::optional<ChatRole> known = FindChatRole(role->text())) return *known;
  Refuse(fmt::format("the role \"{}\" is not system, developer, user, assistant or tool",
                     role->text()));
}

std::string PartsText(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    const Json *type = Given(part, "type"), *given = Given(part, "text");
    if (type == nullptr || *type != Json("text") || given == nullptr || !given->is_string()) {
      Refuse(fmt::format(
          "its \"content\" has a part that is not text, which the model does not support: {}",
          Shortened(part)));
    }
    text += given->text();
  }
  return text;
}

// Throws unless the arguments of a call are an object.
void RequireArguments(const Json& arguments) {
  if (arguments.is_object()) return;
  try {
    if (arguments.is_string() && ParseJson(arguments.text(), "arguments").is_object()) return;
  } catch (const Error&) {  // no JSON
  }
  Refuse("the \"arguments\" of a call are neither an object nor a string with one: " +
         Shortened(arguments));
}

// A function of a call: {"name": ..., "arguments": ...}.
Json ReadFunction(const Json& function) {
  const Json *name = Given(function, "name"), *arguments = Given(function, "arguments");
  if (name == nullptr || !name->is_string()) {
    Refuse(
        "\"tool_calls\" must be objects of type \"function\" whose \"function\" has a \"name\": " +
        Shortened(function));
  }
  Json read = function;
  read["arguments"] = arguments == nullptr ? Json::object() : *arguments;
  RequireArguments(read["arguments"]);
  return read;
}

Json ReadCall(const Json& call) {
  const Json *type = Given(call, "type"), *function = Given(call, "function");
  if (type != nullptr && *type != Json("function")) {
    Refuse("\"tool_calls\" that are not of type \"function\": " + Shortened(call));
  }
  if (function == nullptr) {  // the function alone, as in some data sets
    return Json{{"type", "function"}, {"function", ReadFunction(call)}};
  }
  Json read = call;
  read["type"] = "function";
  read["function"] = ReadFunction(*function);
  return read;
}

Json ReadCalls(const Json& message) {
  Json calls = Json::array();
  if (const Json* legacy = Given(message, "function_call")) {
    calls.push_back(Json{{"type", "function"}, {"function", ReadFunction(*legacy)}});
  }
  const Json* given = Given(message, "tool_calls");
  if (given == nullptr) return calls;
  if (!given->is_array()) Refuse("\"tool_calls\" is not a list: " + Shortened(*given));
  for (const Json& call : *given) calls.push_back(ReadCall(call));
  return calls;
}

// OpenAI's "weight" is 0 or 1, and "train" a boolean.
bool IsLearned(const Json& message) {
  const Json *weight = Given(message, "weight"), *train = Given(message, "train");
  if (weight != nullptr && *weight != Json(0) && *weight != Json(1)) {
    Refuse("\"weight\" is not 0 or 1: " + Shortened(*weight));
  }
  if (train != nullptr && !train->is_boolean()) {
    Refuse("\"train\" is not true or false: " + Shortened(*train));
  }
  const bool off = train != nullptr && !train->get<bool>();
  return !off && (weight == nullptr || *weight != Json(0));
}

// Members that are read into other fields, or that templates ignore.
bool IsTaken(std::string_view key) {
  constexpr std::string_view kTaken[] = {"role",          "content", "tool_calls",
                                         "function_call", "weight",  "train"};
  return std::ranges::find(kTaken, key) != std::end(kTaken);
}

void RequireText(const Json& more, std::string_view key) {
  const Json* value = more.find(key);
  if (value == nullptr || value->is_string()) return;
  Refuse(fmt::format("\"{}\" is not a string: {}", key, Shortened(*value)));
}

ChatMessage ReadMessage(const Json& message) {
  if (!message.is_object()) Refuse("it is not an object: " + Shortened(message));
  ChatMessage read{.role = RoleOf(message), .learned = IsLearned(message)};
  for (const auto& [key, value] : message.items()) {
    if (!IsTaken(key) && !value.is_null()) read.more.Add(key, value);
  }
  for (const char* key : {"name", "tool_call_id", "reasoning_content"}) RequireText(read.more, key);
  if (Json calls = ReadCalls(message); !calls.empty()) {
    if (read.role != ChatRole::kAssistant)
      Refuse("only messages of the assistant have \"tool_calls\"");
    read.more["tool_calls"] = std::move(calls);
  }
  const Json* content = Given(message, "content");
  if (content == nullptr) {
    read.silent = true;
    if (!read.more.contains("tool_calls") && !read.more.contains("reasoning_content")) {
      Refuse("there is no \"content\"");
    }
  } else if (content->is_array()) {
    read.content = PartsText(*content);
  } else if (content->is_string()) {
    read.content = content->text();
  } else {
    Refuse("\"content\" is not a string: " + Shortened(*content));
  }
  return read;
}

}  // namespace

std::vector<ChatMessage> ReadChatMessages(const Json& list) {
  if (!list.is_array()) Refuse("\"messages\" is not a list: " + Shortened(list));
  std::vector<ChatMessage> messages;
  for (const Json& message : list) {
    try {
      messages.push_back(ReadMessage(message));
    } catch (const Error& error) {
      Refuse(fmt::format("message {}: {}", messages.size() + 1, error.what()));
    }
  }
  return messages;
}

Json ReadChatTools(const Json& tools) {
  if (tools.is_null()) return nullptr;
  if (tools.is_string()) {  // tables store lists as texts
    if (tools.text().empty()) return nullptr;
    try {
      return ReadChatTools(ParseJson(tools.text(), "tools"));
    } catch (const Error& error) {
      Refuse("\"tools\" is neither a list nor a string with one: " + error.cause());
    }
  }
  const bool named = tools.is_array() && std::ranges::all_of(tools, [](const Json& tool) {
                       const Json* function = Given(tool, "function");
                       const Json* name = Given(function == nullptr ? tool : *function, "name");
                       return name != nullptr && name->is_string();
                     });
  if (!named) {
    Refuse(
        "\"tools\" is not a list of objects of type \"function\", each with a \"function\" that "
        "has a \"name\": " +
        Shortened(tools));
  }
  if (tools.empty()) return nullptr;
  Json read = Json::array();
  for (const Json& tool : tools) {
    read.push_back(
        Given(tool, "function") != nullptr ? tool : Json{{"type", "function"}, {"function", tool}});
  }
  return read;
}

Json ReadTemplateVariables(const Json& conversation) {
  Json variables = Json::object();
  if (const Json* given = Given(conversation, "chat_template_kwargs")) {
    if (!given->is_object()) {
      Refuse("\"chat_template_kwargs\" is not an object: " + Shortened(*given));
    }
    variables = *given;
  }
  if (const Json* thinking = Given(conversation, "enable_thinking")) {
    if (!thinking->is_boolean()) {
      Refuse("\"enable_thinking\" is not true or false: " + Shortened(*thinking));
    }
    variables["enable_thinking"] = *thinking;
  }
  return variables;
}

Json ParseTemplateVariables(std::string_view text) {
  const auto parsed = [](std::string_view value) -> std::optional<Json> {
    try {
      return ParseJson(value, "value");
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  Json variables = Json::object();
  if (text.empty()) return variables;
  if (text.starts_with('{')) {
    if (std::optional<Json> object = parsed(text)) return *std::move(object);
    throw UsageError(fmt::format("chat template variables: '{}'", text), "it is not JSON",
                     "expected {\"NAME\": VALUE, ...} or NAME=VALUE,...");
  }
  for (const std::string& one : Split(text, ',')) {
    const size_t at = one.find('=');
    if (at == 0 || at == one.npos) {
      throw UsageError(fmt::format("chat template variables: '{}'", one), "it is not NAME=VALUE",
                       "for example enable_thinking=false");
    }
    const std::string value = one.substr(at + 1);
    variables[one.substr(0, at)] = parsed(value).value_or(Json(value));
  }
  return variables;
}

Conversation ReadChatConversation(const Json& object) {
  const Json *messages = Given(object, "messages"), *tools = Given(object, "tools"),
             *functions = Given(object, "functions");
  if (messages == nullptr) Refuse("there is no \"messages\"");
  Conversation read{.messages = ReadChatMessages(*messages),
                    .variables = ReadTemplateVariables(object)};
  if (tools == nullptr) tools = functions;
  if (tools != nullptr) read.tools = ReadChatTools(*tools);
  return read;
}

}  // namespace folio
