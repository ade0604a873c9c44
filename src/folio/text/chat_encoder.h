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

// Reads the templates of a Hugging Face model directory: chat_template.jinja, else the
// "chat_template" of tokenizer_config.json; among several the one named "default", and the one
// named "tool_use" from these and from additional_chat_templates/. Throws a kInput Error for a
// malformed file.
ChatSource ReadChatSource(const std::filesystem::path& dir);

// A range of tokens, [begin, end).
struct TokenRange {
  size_t begin = 0, end = 0;

  bool operator==(const TokenRange&) const = default;
};

// A whole conversation as tokens, and the tokens that the model should write.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<TokenRange> answers;  // the answers to learn, each with the token that ends it
  bool ended = true;                // the last answer ends with a token of ends()
};

// Conversations as tokens of a model: by role tokens (text/chat.h), or by a template.
class ChatEncoder {
 public:
  ChatEncoder(const ChatFormat& format);
  // Does not keep the tokenizer. `source` gives the template's tokens, and the template for
  // conversations with tools, if there is a separate one.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
              const ChatSource& source);

  // Sets variables of the template for all conversations that do not set them themselves. Throws a
  // kInput Error for variables that the template does not read.
  void SetVariables(Json variables);

  // Appends the ids of a conversation, with `ask` up to the begin of the assistant's answer.
  // Special tokens inside of messages are ordinary text. `where` is for errors, as in
  // Tokenizer::Encode.
  //
  // Templates get messages unchanged; if a template fails with them or writes values that were
  // meant for another form, null contents become empty texts, and arguments of calls become texts
  // of objects, or objects of texts, if the template accepts these.
  //
  // Throws a kInput Error for a conversation that the template does not accept, and for tools and
  // variables that it does not read.
  void Encode(const Tokenizer& tokenizer, const Conversation& conversation, bool ask,
              std::string_view where, std::vector<int32_t>& ids) const;

  // A whole conversation for training; it lists the answers that are to be learned. Throws what
  // Encode throws, and a kInput Error if an answer cannot be found in the text.
  EncodedChat EncodeAnswers(const Tokenizer& tokenizer, const Conversation& conversation,
                            std::string_view where) const;

  // Returns true if the template, or the role tokens, use a member beside role and content.
  bool ReadsMember(std::string_view name) const;

  // The role tokens; null if a template defines the turns.
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

// The encoder for a model with this tokenizer: by its role tokens, else by the template that came
// with it. Nothing if it has neither. Throws a kInput Error for a template that folio does not
// support.
std::optional<ChatEncoder> FindChatEncoder(const Tokenizer& tokenizer);

}  // namespace folio
