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

// What a template makes a prompt of. Names are those of transformers' apply_chat_template.
struct ChatInput {
  Json messages = Json::array();  // {"role": ..., "content": ...}, and what else one has
  Json tools = nullptr;
  Json variables = Json::object();  // more of them, by name
  bool add_generation_prompt = false;
  std::string bos_token = {}, eos_token = {};  // not defined if empty
  std::tm now = {};                            // for templates that tell the date
};

struct TextRange {
  size_t begin = 0, end = 0;  // bytes

  bool operator==(const TextRange&) const = default;
};

// A part of what a template wrote that came out of one message.
struct MessageRange {
  size_t message = 0;  // its index
  TextRange range;

  bool operator==(const MessageRange&) const = default;
};

// A conversation as a template writes it.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> given;                // what came out of messages and tools, in order
  std::vector<TextRange> generated;            // what the template says the model is to write
  std::vector<TextRange> said = {};            // of what is given, the messages of the assistant
  std::vector<MessageRange> of_messages = {};  // of what is given, what each message gave
  std::shared_ptr<const std::string> source = {};  // the template's text; none writes no tokens
  // A list, a mapping or none was written as Python writes such values, or the text of JSON as a
  // string of JSON: the template was made for messages in another form.
  bool wrote_values = false;
};

// The way in which a model was taught to see conversations: a template in the language of Jinja
// (text/jinja_value.h), which came with the model or is one of those that folio has.
class ChatTemplate {
 public:
  // Throws a kInput Error, with `where` and the line, for what is no template that folio knows.
  ChatTemplate(std::string source, std::string where);
  ~ChatTemplate();

  const std::string& source() const { return *source_; }

  const std::string& where() const { return where_; }

  // Throws a kInput Error where the template fails or takes no such conversation.
  RenderedChat Render(const ChatInput& input) const;

  // Returns whether the template looks at a variable of this name, or at a member of anything.
  bool ReadsVariable(std::string_view name) const;
  bool ReadsMember(std::string_view name) const;

 private:
  std::shared_ptr<const std::string> source_;
  std::string where_;
  std::unique_ptr<const jinja::Node> tree_;
};

// Names of the templates that folio has: "chatml", "llama3", "gemma", "zephyr", "nanochat".
std::vector<std::string> BuiltinChatTemplates();
// The template of that name, or of the file of that name. Throws a kInput Error for neither.
std::shared_ptr<const ChatTemplate> OpenChatTemplate(const std::string& name_or_file);

// The messages as templates take them: {"role": ..., "content": ...} and what else they have.
Json ChatMessagesJson(std::span<const ChatMessage> messages);

// The text of a value as Python's json.dumps writes it, with characters as they are.
std::string PythonJson(const Json& value);

// Appends the ids of the conversation. They are those of the whole text with its special tokens, as
// other programs encode it, but that nobody who is not the template writes a token that structures
// conversations:
// - A special token is one where the template wrote all of its characters.
// - So is an added token that is not special and that the template's source contains (<think>,
//   <tool_call>), but that the assistant's messages may have it too: its answers had it as a token.
// - Any other added token is part of ordinary text, whoever wrote it.
// What looks like a token and is none is encoded as any text. Nothing is added: a beginning of text
// comes from the template. `where` is for errors, as in Tokenizer::Encode.
void EncodeRendered(const Tokenizer& tokenizer, const RenderedChat& chat, std::string_view where,
                    std::vector<int32_t>& ids);

}  // namespace folio
