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
struct RenderedChat;

// Reads the templates of a model directory of Hugging Face's: chat_template.jinja, else the
// "chat_template" of tokenizer_config.json, of several the one called "default", and the one called
// "tool_use" of these and of additional_chat_templates/. Throws a kInput Error for a file that is
// none.
ChatSource ReadChatSource(const std::filesystem::path& dir);

// A range of tokens, [begin, end).
struct TokenRange {
  size_t begin = 0, end = 0;

  bool operator==(const TokenRange&) const = default;
};

// A whole conversation as tokens, and which of them the model is to write.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<TokenRange> answers;  // that training learns, each with the token that ends it
  bool ended = true;                // a token of ends() ends the last of these
};

// Conversations as the tokens of a model: by the tokens of roles (text/chat.h), or by a template.
class ChatEncoder {
 public:
  ChatEncoder(const ChatFormat& format);
  // The tokenizer is only looked at. Of `source` the tokens are those of the template, and the
  // template for conversations with tools, if it has one of its own.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
              const ChatSource& source);

  // Sets variables of the template for all conversations that do not set them otherwise. Throws a
  // kInput Error for those that the template does not look at.
  void SetVariables(Json variables);

  // Appends the ids of a conversation, with `ask` up to where the assistant's answer begins. What
  // looks like a special token in a message is ordinary text. `where` is for errors, as in
  // Tokenizer::Encode.
  //
  // Templates are given messages as they are; where one fails with them or writes what was meant
  // for another form, contents that are null become empty texts, and arguments of calls become
  // texts of objects, or objects of texts, if it takes them so.
  //
  // Throws a kInput Error for a conversation that the template does not take, and for tools and
  // variables that it does not look at.
  void Encode(const Tokenizer& tokenizer, const Conversation& conversation, bool ask,
              std::string_view where, std::vector<int32_t>& ids) const;

  // A whole conversation, to learn from: those answers are told that messages want learned. Throws
  // what Encode throws, and a kInput Error where an answer cannot be found in it.
  EncodedChat EncodeAnswers(const Tokenizer& tokenizer, const Conversation& conversation,
                            std::string_view where) const;

  // Returns whether the template, or the tokens of roles, make anything of a member of messages
  // beside role and content.
  bool ReadsMember(std::string_view name) const;

  // The tokens of roles; null where a template says what turns look like.
  const ChatFormat* format() const { return format_ ? &*format_ : nullptr; }
  // The tokens that end an answer.
  const std::vector<int32_t>& ends() const { return ends_; }

 private:
  ChatInput InputOf(const Conversation& conversation) const;
  const ChatTemplate& TemplateFor(const Conversation& conversation) const;
  RenderedChat Render(const Conversation& conversation, ChatInput& input) const;
  EncodedChat EncodeTurns(const Tokenizer& tokenizer, const Conversation& conversation,
                          std::string_view where) const;

  std::optional<ChatFormat> format_;
  std::shared_ptr<const ChatTemplate> template_, for_tools_;  // the latter may be null
  std::string bos_token_, eos_token_;
  Json variables_ = Json::object();
  std::vector<int32_t> ends_;
  std::vector<std::string> end_texts_;  // of ends_
};

// The encoder for a model with this tokenizer: by its tokens of roles, else by the template that
// came with it. Nothing if it has neither. Throws a kInput Error for a template that folio does not
// know.
std::optional<ChatEncoder> FindChatEncoder(const Tokenizer& tokenizer);

}  // namespace folio
