#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Conversations as tokens. A turn is the special token of its role, its text, and <|end|>:
//   <|user|>Who are you?<|end|><|assistant|>A model.<|end|>

enum class ChatRole { kSystem, kUser, kAssistant, kTool };

std::string_view ChatRoleName(ChatRole role);  // "system", "user", "assistant", "tool"
std::optional<ChatRole> FindChatRole(std::string_view name);

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content = {};
  // Further members for templates: "tool_calls", "tool_call_id", "name", "reasoning_content".
  Json more = Json::object();
  bool silent = false;  // it has no content: null instead of an empty text
  bool learned = true;  // if it is the assistant's: training learns it

  bool operator==(const ChatMessage&) const = default;
};

// A conversation with its tools and template variables.
struct Conversation {
  std::vector<ChatMessage> messages = {};
  Json tools = nullptr;             // a list of the tools that may be called, or null
  Json variables = Json::object();  // further variables of the chat template

  bool operator==(const Conversation&) const = default;
};

// The ids of the special tokens that a tokenizer for conversations has.
struct ChatFormat {
  int32_t system = 0, user = 0, assistant = 0, end = 0;

  int32_t RoleToken(ChatRole role) const;
};

// Nothing unless the tokenizer has all of them.
std::optional<ChatFormat> FindChatFormat(const Tokenizer& tokenizer);

// The tokenizer with the missing ones added, and with an end-of-text, which separates
// conversations.
std::unique_ptr<Tokenizer> WithChatTokens(const Tokenizer& tokenizer);

// Appends the turns; special tokens inside of messages are ordinary text. With `ask` the token that
// begins the assistant's answer follows. `where` is for errors, as in Tokenizer::Encode. Throws a
// kInput Error for a message of a tool, which has no token.
void EncodeChat(const Tokenizer& tokenizer, const ChatFormat& format,
                std::span<const ChatMessage> messages, bool ask, std::string_view where,
                std::vector<int32_t>& ids);

// The same as a Jinja template, for the "chat_template" of tokenizer_config.json.
std::string_view RoleTokenTemplate();

}  // namespace folio
