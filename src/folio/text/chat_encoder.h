#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/chat.h"
#include "folio/text/tokenizer.h"

namespace folio {

class ChatTemplate;  // (text/chat_template.h)
struct ChatInput;
struct TextRange;

// Reads the template of a model directory of Hugging Face's: chat_template.jinja, else the
// "chat_template" of tokenizer_config.json, of several the one called "default". Throws a kInput
// Error for a file that is none.
ChatSource ReadChatSource(const std::filesystem::path& dir);

// Conversations as the tokens of a model: by the tokens of roles (text/chat.h), or by a template.
class ChatEncoder {
 public:
  ChatEncoder(const ChatFormat& format);
  // The tokenizer is only looked at. Of `source` the tokens are those of the template.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
              const ChatSource& source);

  // Appends the ids of a conversation, with `ask` up to where the assistant's answer begins. What
  // looks like a special token in a message is ordinary text. `where` is for errors, as in
  // Tokenizer::Encode. Throws a kInput Error for a conversation that the template does not take.
  void Encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages, bool ask,
              std::string_view where, std::vector<int32_t>& ids) const;

  // The same of messages as JSON, up to where the assistant's answer begins, with the tools that it
  // may call, or null: what the template takes of them. Throws a kInput Error where it does not
  // look at the tools. REQUIRES: a template.
  void EncodeJson(const Tokenizer& tokenizer, const Json& messages, const Json& tools,
                  std::string_view where, std::vector<int32_t>& ids) const;

  // The tokens of roles; null where a template says what turns look like.
  const ChatFormat* format() const { return format_ ? &*format_ : nullptr; }
  // The tokens that end an answer.
  const std::vector<int32_t>& ends() const { return ends_; }

  // The marks of answers in conversations: the tokens in a row that begin one, and that which ends
  // it. Throws a kInput Error where the template has no special tokens for both.
  struct Marks {
    std::vector<int32_t> begin;
    int32_t end = 0;
  };
  Marks AnswerMarks(const Tokenizer& tokenizer) const;
  // Where in the text of a conversation the answers begin, as ChatTemplate::Answers. REQUIRES: a
  // template.
  std::vector<TextRange> Answers(std::span<const ChatMessage> messages) const;

 private:
  ChatInput InputOf(std::span<const ChatMessage> messages) const;

  std::optional<ChatFormat> format_;
  std::shared_ptr<const ChatTemplate> template_;
  std::string bos_token_, eos_token_;
  std::optional<int32_t> end_of_turn_;
  std::vector<int32_t> ends_;
};

// The encoder for a model with this tokenizer: by its tokens of roles, else by the template that
// came with it. Nothing if it has neither. Throws a kInput Error for a template that folio does not
// know.
std::optional<ChatEncoder> FindChatEncoder(const Tokenizer& tokenizer);

}  // namespace folio
