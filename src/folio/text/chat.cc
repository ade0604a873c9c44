#include "folio/text/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "folio/base/error.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 4> kTokens = {"<|system|>", "<|user|>", "<|assistant|>",
                                                     "<|end|>"};

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
  std::array<int32_t, kTokens.size()> ids = {};
  for (size_t i = 0; i < ids.size(); ++i) {
    const SpecialToken* token = FindSpecial(tokenizer.special_tokens(), kTokens[i]);
    if (token == nullptr) return std::nullopt;
    ids[i] = token->id;
  }
  return ChatFormat{.system = ids[0], .user = ids[1], .assistant = ids[2], .end = ids[3]};
}

std::unique_ptr<Tokenizer> WithChatTokens(const Tokenizer& tokenizer) {
  std::vector<std::string> missing;
  if (!FindEndOfText(tokenizer.special_tokens())) missing.emplace_back(kEndOfTextToken);
  for (const std::string_view token : kTokens) {
    if (FindSpecial(tokenizer.special_tokens(), token) == nullptr) missing.emplace_back(token);
  }
  return tokenizer.WithSpecials(missing);
}

void EncodeChat(const Tokenizer& tokenizer, const ChatFormat& format,
                std::span<const ChatMessage> messages, bool ask, std::string_view where,
                std::vector<int32_t>& ids) {
  for (const ChatMessage& message : messages) {
    if (message.role == ChatRole::kTool || message.more.contains("tool_calls")) {
      throw InputError(fmt::format("{}: the model does not support tools", where),
                       "its conversations have only the roles system, user and assistant",
                       "use a model whose chat template supports tools");
    }
    ids.push_back(format.RoleToken(message.role));
    const std::vector<int32_t> content = tokenizer.EncodeOrdinary(message.content, where);
    ids.insert(ids.end(), content.begin(), content.end());
    ids.push_back(format.end);
  }
  if (ask) ids.push_back(format.assistant);
}

std::string_view RoleTokenTemplate() {
  return "{% for message in messages %}"
         "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
}

}  // namespace folio
