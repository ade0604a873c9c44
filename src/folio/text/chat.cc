#include "folio/text/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "folio/text/special_tokens.h"

namespace folio {
namespace {

constexpr std::array<std::string_view, 3> kRoles = {"system", "user", "assistant"};

std::optional<int32_t> FindSpecial(const Tokenizer& tokenizer, std::string_view text) {
  const auto specials = tokenizer.special_tokens();
  const auto found = std::ranges::find(specials, text, &SpecialToken::text);
  return found == specials.end() ? std::nullopt : std::optional(found->id);
}

std::string RoleText(ChatRole role) {
  return fmt::format("<|{}|>", ChatRoleName(role));
}

constexpr std::string_view kEnd = "<|end|>";

}  // namespace

std::string_view ChatRoleName(ChatRole role) {
  return kRoles[static_cast<size_t>(role)];
}

std::optional<ChatRole> FindChatRole(std::string_view name) {
  const auto found = std::ranges::find(kRoles, name);
  if (found == kRoles.end()) return std::nullopt;
  return static_cast<ChatRole>(found - kRoles.begin());
}

int32_t ChatFormat::RoleToken(ChatRole role) const {
  return role == ChatRole::kSystem ? system : role == ChatRole::kUser ? user : assistant;
}

std::optional<ChatFormat> FindChatFormat(const Tokenizer& tokenizer) {
  const auto system = FindSpecial(tokenizer, RoleText(ChatRole::kSystem));
  const auto user = FindSpecial(tokenizer, RoleText(ChatRole::kUser));
  const auto assistant = FindSpecial(tokenizer, RoleText(ChatRole::kAssistant));
  const auto end = FindSpecial(tokenizer, kEnd);
  if (!system || !user || !assistant || !end) return std::nullopt;
  return ChatFormat{.system = *system, .user = *user, .assistant = *assistant, .end = *end};
}

std::unique_ptr<Tokenizer> WithChatTokens(const Tokenizer& tokenizer) {
  std::vector<std::string> missing;
  if (!tokenizer.end_of_text()) missing.emplace_back(kEndOfTextToken);
  for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
    if (!FindSpecial(tokenizer, RoleText(role))) missing.push_back(RoleText(role));
  }
  if (!FindSpecial(tokenizer, kEnd)) missing.emplace_back(kEnd);
  return tokenizer.WithSpecials(missing);
}

void EncodeChat(const Tokenizer& tokenizer, const ChatFormat& format,
                std::span<const ChatMessage> messages, bool ask, std::string_view where,
                std::vector<int32_t>& ids) {
  for (const ChatMessage& message : messages) {
    ids.push_back(format.RoleToken(message.role));
    const std::vector<int32_t> content = tokenizer.EncodeOrdinary(message.content, where);
    ids.insert(ids.end(), content.begin(), content.end());
    ids.push_back(format.end);
  }
  if (ask) ids.push_back(format.assistant);
}

std::string_view ChatTemplate() {
  return "{% for message in messages %}"
         "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
}

}  // namespace folio
