#include "folio/corpus/json_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/json.h"

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

Error BadLine(const std::string& where, const char* what, std::string cause,
              const std::string& field) {
  return InputError(fmt::format("{}: {}", where, what), std::move(cause),
                    fmt::format("each must be a JSON object such as {{{}: \"...\"}}; --field NAME "
                                "takes another member",
                                Json(field).dump()));
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

std::string TextOfJsonLine(std::string_view line, const std::string& field,
                           const std::function<std::string()>& where) {
  Json json;
  try {
    json = ParseJson(line, "line");
  } catch (const Error& error) {
    throw BadLine(where(), "not valid JSON", error.cause(), field);
  }
  const Json* text = json.find(field);
  if (text == nullptr || !text->is_string()) {
    const Error bad =
        BadLine(where(), "no document",
                fmt::format("there is no {} that is a string", Json(field).dump()), field);
    // It may have been meant for a conversation.
    if (!json.is_object() || text != nullptr) throw Error(bad);
    std::string members;
    for (const Json::Member& member : json.items())
      members += (members.empty() ? "" : ", ") + member.key;
    throw InputError(bad.what(),
                     fmt::format("{}, nor a conversation{}", bad.cause(),
                                 members.empty() ? "" : fmt::format("; it has {}", members)),
                     fmt::format("{}; a conversation is {}", bad.help(), kConversationForms));
  }
  return text->text();
}

bool HoldsDocument(std::string_view line, const std::string& field) {
  try {
    TextOfJsonLine(line, field, [] { return ""; });
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool HoldsConversation(std::string_view line, const std::string& field) {
  if (line.empty()) return false;
  try {
    const Json json = ParseJson(line, "line");
    return IsConversation(json) && !json.contains(field);
  } catch (const Error&) {
    return false;
  }
}

bool IsBlankLine(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string NameJsonLine(const std::string& path, int64_t number, bool json_values) {
  return fmt::format("{}:{}{}", path, json_values ? " value " : "", number);
}

void ForJsonLines(TextStream& stream, const std::string& path,
                  const std::function<void(std::string_view line,
                                           const std::function<std::string()>& where)>& f) {
  constexpr size_t kPiece = size_t{1} << 18;
  std::string held;
  int64_t number = 0;
  size_t seen = 0;  // of held, without a line break
  for (bool at_end = false; !at_end;) {
    at_end = stream.Read(held, std::max(kPiece, held.size())) == 0;
    if (at_end && !held.empty()) held += '\n';
    size_t begin = 0;
    for (size_t end = held.find('\n', seen); end != held.npos; end = held.find('\n', begin)) {
      const std::string_view line = std::string_view(held).substr(begin, end - begin);
      ++number;
      const auto where = [&] { return NameJsonLine(path, number, stream.form().json_values); };
      if (!IsBlankLine(line)) f(line, where);
      begin = end + 1;
    }
    held.erase(0, begin);
    seen = held.size();
    RequireLineEnds(held, path);
  }
}

void ForJsonDocuments(
    TextStream& stream, const std::string& path, const std::string& field,
    const std::function<void(const std::string& text, const std::string& where)>& f) {
  ForJsonLines(stream, path, [&](std::string_view line, const auto& where) {
    f(TextOfJsonLine(line, field, where), where());
  });
}

}  // namespace folio
