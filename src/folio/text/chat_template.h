#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/chat.h"
#include "folio/text/tokenizer.h"

namespace folio {

namespace jinja {
struct Node;
}

// The input of a template, with the names of transformers' apply_chat_template.
struct ChatInput {
  Json messages = Json::array();  // {"role": ..., "content": ...}, and further members
  Json tools = nullptr;
  Json variables = Json::object();  // further variables, by name
  bool add_generation_prompt = false;
  std::string bos_token = {}, eos_token = {};  // not defined if empty
  std::tm now = {};                            // for templates that write the date
};

struct TextRange {
  size_t begin = 0, end = 0;  // bytes

  bool operator==(const TextRange&) const = default;
};

// A part of a template's output that came from one message.
struct MessageRange {
  size_t message = 0;  // its index
  TextRange range;

  bool operator==(const MessageRange&) const = default;
};

// A conversation as a template writes it.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> given;                // parts that came from messages and tools, in order
  std::vector<TextRange> generated;            // parts that the template marks as the model's
  std::vector<TextRange> said = {};            // parts of `given` from the assistant's messages
  std::vector<MessageRange> of_messages = {};  // parts of `given` by message
  std::shared_ptr<const std::string> source = {};  // the template's text; null allows no tokens
  // A list, a mapping or none was written as Python's repr, or a JSON text as a JSON string: the
  // template expects messages in another form.
  bool wrote_values = false;
};

// The way in which a model was trained to see conversations: a Jinja template (text/jinja_value.h)
// that came with the model or is built in.
class ChatTemplate {
 public:
  // Throws a kInput Error, with `where` and the line, for text that is no template or that folio
  // does not support.
  ChatTemplate(std::string source, std::string where);
  ~ChatTemplate();

  const std::string& source() const { return *source_; }

  const std::string& where() const { return where_; }

  // Throws a kInput Error if the template fails or does not accept the conversation.
  RenderedChat Render(const ChatInput& input) const;

  // Returns true if the template reads a variable of this name, or a member of this name.
  bool ReadsVariable(std::string_view name) const;
  bool ReadsMember(std::string_view name) const;

 private:
  std::shared_ptr<const std::string> source_;
  std::string where_;
  std::unique_ptr<const jinja::Node> tree_;
};

// Names of the built-in templates: "chatml", "llama3", "gemma", "zephyr", "nanochat".
std::vector<std::string> BuiltinChatTemplates();
// The built-in template of that name, or the file at that path; else throws a kInput Error.
std::shared_ptr<const ChatTemplate> OpenChatTemplate(const std::string& name_or_file);

// The messages as templates take them: {"role": ..., "content": ...} and further members.
Json ChatMessagesJson(std::span<const ChatMessage> messages);

// The text of a value as Python's json.dumps writes it, with characters unescaped.
std::string PythonJson(const Json& value);

// Appends the ids of the conversation. They are those of the whole text with its special tokens, as
// other programs encode it, except that only the template can write tokens that structure
// conversations:
// - A special token counts where the template wrote all of its characters.
// - So does an added token that is not special and that the template's source contains (<think>,
//   <tool_call>), but the assistant's messages may contain it too: its answers had it as a token.
// - Any other added token is part of ordinary text, whoever wrote it.
// Text that looks like a token but is none is encoded as ordinary text. Nothing is added: a
// beginning of text comes from the template. `where` is for errors, as in Tokenizer::Encode.
void EncodeRendered(const Tokenizer& tokenizer, const RenderedChat& chat, std::string_view where,
                    std::vector<int32_t>& ids);

}  // namespace folio
