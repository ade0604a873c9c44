#include "folio/corpus/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(const std::string& where, std::string cause) {
  throw InputError(fmt::format("{}: not a conversation", where), std::move(cause),
                   fmt::format("a line is {}", kConversationForms));
}

bool Has(const Json& line, const char* a, const char* b) {
  return line.contains(a) && line.contains(b);
}

const std::string& TextOf(const Json& object, const char* key, const std::string& where) {
  const Json* value = object.find(key);
  if (value == nullptr) Refuse(where, fmt::format("there is no \"{}\"", key));
  if (!value->is_string()) {
    Refuse(where, fmt::format("\"{}\" is not text: {}", key, value->dump().substr(0, 60)));
  }
  return value->text();
}

void AddMessages(const Json& list, const std::string& where, std::vector<ChatMessage>& to) {
  for (const Json& message : list) {
    if (!message.is_object()) Refuse(where, "a message is not an object");
    const std::string& role = TextOf(message, "role", where);
    const std::optional<ChatRole> known = FindChatRole(role);
    if (!known) {
      Refuse(where, fmt::format("the role \"{}\" is not system, user or assistant", role));
    }
    to.push_back({*known, TextOf(message, "content", where)});
  }
}

// A text said by `role`, or a list of messages.
void AddPart(const Json& line, const char* key, ChatRole role, const std::string& where,
             std::vector<ChatMessage>& to) {
  if (line[key].is_array()) {
    AddMessages(line[key], where, to);
  } else {
    to.push_back({role, TextOf(line, key, where)});
  }
}

std::string Instruction(const Json& line, const std::string& where) {
  std::string text = TextOf(line, "instruction", where);
  const Json* input = line.find("input");
  if (input == nullptr || input->is_null()) return text;
  const std::string& more = TextOf(line, "input", where);
  return more.empty() ? text : text + "\n\n" + more;
}

}  // namespace

bool IsConversation(const Json& line) {
  return line.is_object() && (line.contains("messages") || Has(line, "prompt", "completion") ||
                              Has(line, "instruction", "output"));
}

std::vector<ChatMessage> ReadConversation(const Json& line, const std::string& where) {
  if (!IsConversation(line)) Refuse(where, "it has none of the members of one");
  std::vector<ChatMessage> messages;
  if (line.contains("messages")) {
    if (!line["messages"].is_array()) Refuse(where, "\"messages\" is not a list");
    AddMessages(line["messages"], where, messages);
  } else if (line.contains("prompt")) {
    AddPart(line, "prompt", ChatRole::kUser, where, messages);
    AddPart(line, "completion", ChatRole::kAssistant, where, messages);
  } else {
    messages.push_back({ChatRole::kUser, Instruction(line, where)});
    messages.push_back({ChatRole::kAssistant, TextOf(line, "output", where)});
  }
  const bool answered = std::ranges::any_of(
      messages, [](const ChatMessage& message) { return message.role == ChatRole::kAssistant; });
  if (!answered) Refuse(where, "nobody answers in it: there is no message of the assistant");
  return messages;
}

}  // namespace folio
