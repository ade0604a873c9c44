#include "folio/text/chat_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/text/chat_answers.h"
#include "folio/text/chat_template.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kSpecialsFile = "special_tokens_map.json";
constexpr const char* kMoreTemplates = "additional_chat_templates";
constexpr const char* kForTools = "tool_use";             // the name of the template for tools
constexpr uint64_t kMostConfigBytes = uint64_t{1} << 26;  // long because of added tokens

// A token in tokenizer_config.json: a text, or an object with its text in "content".
std::string TokenText(const Json& config, std::string_view key) {
  const Json* token = config.find(key);
  if (token != nullptr && token->is_object()) token = token->find("content");
  return token != nullptr && token->is_string() ? token->text() : std::string();
}

// Reads templates: a text is "default", several are [{"name": ..., "template": ...}, ...].
void ReadTemplates(const Json& config, ChatSource& source) {
  const Json* found = config.find("chat_template");
  if (found == nullptr) return;
  if (found->is_string()) source.text = found->text();
  if (!found->is_array()) return;
  for (const Json& one : *found) {
    const Json *name = one.find("name"), *text = one.find("template");
    if (name == nullptr || text == nullptr || !text->is_string()) continue;
    if (*name == Json("default") || found->size() == 1) source.text = text->text();
    if (*name == Json(kForTools)) source.for_tools = text->text();
  }
}

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

// The special token that ends the assistant's turn, if there is one.
std::optional<int32_t> EndOfTurn(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                 ChatInput input) {
  input.messages = ChatMessagesJson(
      std::vector<ChatMessage>{{ChatRole::kUser, "a"}, {ChatRole::kAssistant, "b"}});
  try {
    const RenderedChat chat = chat_template.Render(input);
    if (chat.said.empty()) return std::nullopt;
    const SpecialFinder finder(tokenizer.special_tokens(), SpecialRule::Allow());
    const auto match = finder.Next(chat.text, chat.said.back().end);
    return match.token == nullptr ? std::nullopt : std::optional(match.token->id);
  } catch (const Error&) {  // it does not accept such a conversation
    return std::nullopt;
  }
}

// The same messages with an empty text where the content is null.
Json WithoutNullContents(const Json& messages) {
  Json all = Json::array();
  for (Json message : messages) {
    if (message.at("content").is_null()) message["content"] = "";
    all.push_back(std::move(message));
  }
  return all;
}

// The same messages with arguments of calls converted from objects to texts or back.
Json WithOtherArguments(const Json& messages) {
  Json all = Json::array();
  for (Json message : messages) {
    if (message.contains("tool_calls")) {
      Json calls = Json::array();
      for (Json call : message.at("tool_calls")) {
        Json& arguments = call["function"]["arguments"];
        arguments = arguments.is_string() ? ParseJson(arguments.text(), "arguments")
                                          : Json(PythonJson(arguments));
        calls.push_back(std::move(call));
      }
      message["tool_calls"] = std::move(calls);
    }
    all.push_back(std::move(message));
  }
  return all;
}

// Variables of the template that folio sets itself.
bool IsOwnVariable(std::string_view name) {
  constexpr std::string_view kOwn[] = {"messages", "tools", "add_generation_prompt", "bos_token",
                                       "eos_token"};
  return std::ranges::find(kOwn, name) != std::end(kOwn);
}

// With role tokens a conversation consists of texts alone. Throws a kInput Error for anything else.
void RequirePlain(const Conversation& conversation) {
  if (conversation.tools.is_null() && conversation.variables.empty()) return;
  throw InputError(conversation.tools.is_null()
                       ? "the model has no chat template, so variables have no effect"
                       : "the model does not support tools",
                   "its conversations have only the roles system, user and assistant",
                   "remove them, or use a model whose chat template supports them");
}

// Returns the end of each id in `text`. Tokenizers may prepend a space, and special tokens may
// absorb the white space beside them: both are accepted. Empty if the ids decode to another text.
std::vector<size_t> EndsIn(std::string_view text, const Tokenizer& tokenizer,
                           std::span<const int32_t> ids) {
  std::vector<size_t> ends;
  size_t at = 0;
  for (const int32_t id : ids) {
    std::string_view token = tokenizer.TokenBytes(id);
    if (!text.substr(at).starts_with(token) && token.starts_with(' ')) token.remove_prefix(1);
    size_t skipped = at;
    while (!text.substr(skipped).starts_with(token) && skipped < text.size() &&
           std::string_view(" \t\r\n").find(text[skipped]) != std::string_view::npos) {
      ++skipped;
    }
    if (!text.substr(skipped).starts_with(token)) return {};
    at = skipped + token.size();
    ends.push_back(at);
  }
  return ends;
}

// The tokens that overlap ranges of bytes.
std::vector<TokenRange> TokensOf(std::span<const TextRange> ranges, std::span<const size_t> ends) {
  std::vector<TokenRange> found;
  for (const TextRange& range : ranges) {
    const auto begin = std::ranges::upper_bound(ends, range.begin);
    const auto last = std::ranges::lower_bound(ends, range.end);
    const auto end = last == ends.end() ? last : last + 1;
    if (range.begin >= range.end || begin >= end) continue;
    found.push_back(
        {static_cast<size_t>(begin - ends.begin()), static_cast<size_t>(end - ends.begin())});
  }
  return found;
}

}  // namespace

ChatSource ReadChatSource(const fs::path& dir) {
  ChatSource source;
  const fs::path config_path = dir / kTokenizerConfigFile, file = dir / kTemplateFile;
  if (Exists(config_path)) {
    const Json config = ParseJson(ReadFile(config_path, kMostConfigBytes), config_path.string());
    source = {.where = config_path.string(),
              .bos_token = TokenText(config, "bos_token"),
              .eos_token = TokenText(config, "eos_token")};
    ReadTemplates(config, source);
  }
  // Older writers name them only there.
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
  const fs::path for_tools = dir / kMoreTemplates / fmt::format("{}.jinja", kForTools);
  if (Exists(for_tools)) source.for_tools = ReadFile(for_tools, kMostConfigBytes);
  return source;
}

ChatEncoder::ChatEncoder(const ChatFormat& format) : format_(format), ends_({format.end}) {}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer,
                         std::shared_ptr<const ChatTemplate> chat_template,
                         const ChatSource& source)
    : template_(std::move(chat_template)),
      bos_token_(source.bos_token),
      eos_token_(source.eos_token) {
  if (!source.for_tools.empty()) {
    for_tools_ = std::make_shared<const ChatTemplate>(
        source.for_tools, fmt::format("{}: the template {}", source.where, kForTools));
  }
  if (const auto end = EndOfTurn(tokenizer, *template_, InputOf({}))) ends_.push_back(*end);
  const SpecialToken* eos = FindSpecial(tokenizer.special_tokens(), eos_token_);
  if (eos != nullptr && !std::ranges::count(ends_, eos->id)) ends_.push_back(eos->id);
  for (const int32_t end : ends_) end_texts_.emplace_back(tokenizer.TokenBytes(end));
}

void ChatEncoder::SetVariables(Json variables) {
  const Conversation any{.variables = variables};
  format_ ? RequirePlain(any) : void(TemplateFor(any));
  variables_ = std::move(variables);
}

const ChatTemplate& ChatEncoder::TemplateFor(const Conversation& conversation) const {
  const bool tools = !conversation.tools.is_null();
  const ChatTemplate& found = tools && for_tools_ != nullptr ? *for_tools_ : *template_;
  if (tools && !found.ReadsVariable("tools")) {
    throw InputError("the model's chat template does not support tools",
                     fmt::format("{} does not use them", found.where()),
                     "remove them, or use a model that was trained to call tools");
  }
  for (const auto& [name, value] : conversation.variables.items()) {
    if (IsOwnVariable(name)) {
      throw InputError(fmt::format("the variable '{}' of the chat template cannot be set", name),
                       "it is determined by the conversation and the model", "remove it");
    }
    if (found.ReadsVariable(name)) continue;
    throw InputError(fmt::format("the model's chat template has no variable '{}'", name),
                     fmt::format("{} does not use it", found.where()), "remove it");
  }
  return found;
}

// Changes the messages of `input` to a form that the template accepts.
RenderedChat ChatEncoder::Render(const Conversation& conversation, ChatInput& input) const {
  const ChatTemplate& chat_template = TemplateFor(conversation);
  const Json given = std::move(input.messages);
  const bool nulls = std::ranges::any_of(conversation.messages, &ChatMessage::silent);
  const bool calls = std::ranges::any_of(conversation.messages, [](const ChatMessage& message) {
    return message.more.contains("tool_calls");
  });
  std::vector<Json> forms = {given};
  if (nulls) forms.push_back(WithoutNullContents(given));
  if (calls) {
    forms.push_back(WithOtherArguments(given));
    if (nulls) forms.push_back(WithOtherArguments(forms[1]));
  }
  std::optional<RenderedChat> taken;
  std::optional<Error> failed;
  for (Json& form : forms) {
    ChatInput tried = input;
    tried.messages = std::move(form);
    try {
      RenderedChat chat = chat_template.Render(tried);
      if (taken && chat.wrote_values) continue;
      const bool meant = !chat.wrote_values;
      taken = std::move(chat);
      input.messages = std::move(tried.messages);
      if (meant) break;
    } catch (const Error& error) {
      if (!failed) failed = error;
    }
  }
  if (!taken) throw Error(*failed);
  return *std::move(taken);
}

void ChatEncoder::Encode(const Tokenizer& tokenizer, const Conversation& conversation, bool ask,
                         std::string_view where, std::vector<int32_t>& ids) const {
  if (format_) {
    RequirePlain(conversation);
    return EncodeChat(tokenizer, *format_, conversation.messages, ask, where, ids);
  }
  ChatInput input = InputOf(conversation);
  input.add_generation_prompt = ask;
  EncodeRendered(tokenizer, Render(conversation, input), where, ids);
}

EncodedChat ChatEncoder::EncodeAnswers(const Tokenizer& tokenizer, const Conversation& conversation,
                                       std::string_view where) const {
  if (format_) return EncodeTurns(tokenizer, conversation, where);
  ChatInput input = InputOf(conversation);
  const RenderedChat chat = Render(conversation, input);
  std::vector<bool> learned;
  for (const ChatMessage& message : conversation.messages) learned.push_back(message.learned);
  const std::vector<TextRange> ranges =
      FindAnswers(TemplateFor(conversation), input, chat, learned, end_texts_);
  EncodedChat encoded;
  EncodeRendered(tokenizer, chat, where, encoded.ids);
  const std::vector<size_t> ends = EndsIn(chat.text, tokenizer, encoded.ids);
  if (ends.empty() && !encoded.ids.empty()) {
    throw InputError("its answers cannot be located in its tokens",
                     "the tokenizer normalises the text of the chat template",
                     "remove the conversation, or train a model of another family");
  }
  encoded.answers = TokensOf(ranges, ends);
  encoded.ended = !encoded.answers.empty() &&
                  std::ranges::count(ends_, encoded.ids[encoded.answers.back().end - 1]) > 0;
  return encoded;
}

// The same with role tokens.
EncodedChat ChatEncoder::EncodeTurns(const Tokenizer& tokenizer, const Conversation& conversation,
                                     std::string_view where) const {
  RequirePlain(conversation);
  EncodedChat encoded;
  for (const ChatMessage& message : conversation.messages) {
    const size_t begin = encoded.ids.size() + 1;  // behind the role's token
    EncodeChat(tokenizer, *format_, {&message, 1}, /*ask=*/false, where, encoded.ids);
    if (message.role != ChatRole::kAssistant || !message.learned) continue;
    encoded.answers.push_back({begin, encoded.ids.size()});
  }
  return encoded;
}

bool ChatEncoder::ReadsMember(std::string_view name) const {
  if (format_) return false;
  return template_->ReadsMember(name) || (for_tools_ != nullptr && for_tools_->ReadsMember(name));
}

ChatInput ChatEncoder::InputOf(const Conversation& conversation) const {
  Json variables = variables_;
  variables.update(conversation.variables);
  return {.messages = ChatMessagesJson(conversation.messages),
          .tools = conversation.tools,
          .variables = std::move(variables),
          .bos_token = bos_token_,
          .eos_token = eos_token_,
          .now = LocalTime()};
}

std::optional<ChatEncoder> FindChatEncoder(const Tokenizer& tokenizer) {
  if (const std::optional<ChatFormat> format = FindChatFormat(tokenizer)) return *format;
  const ChatSource& source = tokenizer.chat_source();
  if (source.text.empty()) return std::nullopt;
  return ChatEncoder(tokenizer, std::make_shared<const ChatTemplate>(source.text, source.where),
                     source);
}

}  // namespace folio
