#include "folio/text/chat_encoder.h"

#include <algorithm>
#include <ctime>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/text/chat_template.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kSpecialsFile = "special_tokens_map.json";
constexpr uint64_t kMostConfigBytes = uint64_t{1} << 26;  // added tokens make it long

// A token of tokenizer_config.json: a text, or an object with its text in "content".
std::string TokenText(const Json& config, std::string_view key) {
  const Json* token = config.find(key);
  if (token != nullptr && token->is_object()) token = token->find("content");
  return token != nullptr && token->is_string() ? token->text() : std::string();
}

// Of several templates, [{"name": ..., "template": ...}, ...], the default.
std::string TemplateText(const Json& config) {
  const Json* found = config.find("chat_template");
  if (found == nullptr) return {};
  if (found->is_string()) return found->text();
  if (!found->is_array()) return {};
  for (const Json& one : *found) {
    const Json *name = one.find("name"), *text = one.find("template");
    if (name == nullptr || text == nullptr || !text->is_string()) continue;
    if (*name == Json("default")) return text->text();
  }
  return {};
}

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

// The special token that comes behind what the assistant says, if one does.
std::optional<int32_t> EndOfTurn(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                 ChatInput input) {
  const std::vector<ChatMessage> messages = {{ChatRole::kUser, "a"}, {ChatRole::kAssistant, "b"}};
  input.messages = ChatMessagesJson(messages);
  try {
    const RenderedChat chat = chat_template.Render(input);
    if (chat.given.size() != messages.size()) return std::nullopt;
    const SpecialFinder finder(tokenizer.special_tokens(), SpecialRule::Allow());
    const auto match = finder.Next(chat.text, chat.given.back().end);
    return match.token == nullptr ? std::nullopt : std::optional(match.token->id);
  } catch (const Error&) {  // it takes no such conversation
    return std::nullopt;
  }
}

}  // namespace

ChatSource ReadChatSource(const fs::path& dir) {
  ChatSource source;
  const fs::path config_path = dir / kTokenizerConfigFile, file = dir / kTemplateFile;
  if (Exists(config_path)) {
    const Json config = ParseJson(ReadFile(config_path, kMostConfigBytes), config_path.string());
    source = {.text = TemplateText(config),
              .where = config_path.string(),
              .bos_token = TokenText(config, "bos_token"),
              .eos_token = TokenText(config, "eos_token")};
  }
  // Older writers name them there alone.
  const fs::path specials = dir / kSpecialsFile;
  if ((source.bos_token.empty() || source.eos_token.empty()) && Exists(specials)) {
    const Json map = ParseJson(ReadFile(specials, kMostConfigBytes), specials.string());
    if (source.bos_token.empty()) source.bos_token = TokenText(map, "bos_token");
    if (source.eos_token.empty()) source.eos_token = TokenText(map, "eos_token");
  }
  if (Exists(file)) {
    source.text = ReadFile(file, kMostConfigBytes);
    source.where = file.string();
  }
  return source;
}

ChatEncoder::ChatEncoder(const ChatFormat& format)
    : format_(format), end_of_turn_(format.end), ends_({format.end}) {}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer,
                         std::shared_ptr<const ChatTemplate> chat_template,
                         const ChatSource& source)
    : template_(std::move(chat_template)),
      bos_token_(source.bos_token),
      eos_token_(source.eos_token) {
  end_of_turn_ = EndOfTurn(tokenizer, *template_, InputOf({}));
  if (end_of_turn_) ends_.push_back(*end_of_turn_);
  const auto specials = tokenizer.special_tokens();
  const auto eos = std::ranges::find(specials, eos_token_, &SpecialToken::text);
  if (eos != specials.end() && !std::ranges::count(ends_, eos->id)) ends_.push_back(eos->id);
}

void ChatEncoder::Encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                         bool ask, std::string_view where, std::vector<int32_t>& ids) const {
  if (format_) return EncodeChat(tokenizer, *format_, messages, ask, where, ids);
  ChatInput input = InputOf(messages);
  input.add_generation_prompt = ask;
  EncodeRendered(tokenizer, template_->Render(input), where, ids);
}

void ChatEncoder::EncodeJson(const Tokenizer& tokenizer, const Json& messages, const Json& tools,
                             std::string_view where, std::vector<int32_t>& ids) const {
  ChatInput input = InputOf({});
  input.messages = messages;
  input.add_generation_prompt = true;
  const RenderedChat without = tools.is_null() ? RenderedChat() : template_->Render(input);
  input.tools = tools;
  const RenderedChat chat = template_->Render(input);
  if (!tools.is_null() && chat.text == without.text) {
    throw InputError("the model's chat template has no place for tools",
                     "it writes the same with them as without",
                     "leave them out, or serve a model that was taught to call tools");
  }
  EncodeRendered(tokenizer, chat, where, ids);
}

ChatInput ChatEncoder::InputOf(std::span<const ChatMessage> messages) const {
  ChatInput input;
  input.messages = ChatMessagesJson(messages);
  input.bos_token = bos_token_;
  input.eos_token = eos_token_;
  input.now = LocalTime();
  return input;
}

ChatEncoder::Marks ChatEncoder::AnswerMarks(const Tokenizer& tokenizer) const {
  if (format_) return {.begin = {format_->assistant}, .end = format_->end};
  const ChatMessage question{ChatRole::kUser, "a"};
  std::vector<int32_t> told, asked;
  Encode(tokenizer, {&question, 1}, /*ask=*/false, "text", told);
  Encode(tokenizer, {&question, 1}, /*ask=*/true, "text", asked);
  const bool longer =
      asked.size() > told.size() && std::equal(told.begin(), told.end(), asked.begin());
  if (longer) asked.erase(asked.begin(), asked.begin() + std::ssize(told));
  const auto is_special = [&](int32_t id) {
    return std::ranges::count(tokenizer.special_tokens(), id, &SpecialToken::id) > 0;
  };
  if (longer && end_of_turn_ && std::ranges::any_of(asked, is_special)) {
    return {.begin = std::move(asked), .end = *end_of_turn_};
  }
  throw InputError("answers cannot be told from questions by the model's chat template",
                   "no special tokens of the model's tokenizer begin and end the assistant's turns",
                   "train a model whose template has them");
}

std::vector<TextRange> ChatEncoder::Answers(std::span<const ChatMessage> messages) const {
  return template_->Answers(InputOf(messages));
}

std::optional<ChatEncoder> FindChatEncoder(const Tokenizer& tokenizer) {
  if (const std::optional<ChatFormat> format = FindChatFormat(tokenizer)) return *format;
  const ChatSource& source = tokenizer.chat_source();
  if (source.text.empty()) return std::nullopt;
  return ChatEncoder(tokenizer, std::make_shared<const ChatTemplate>(source.text, source.where),
                     source);
}

}  // namespace folio
