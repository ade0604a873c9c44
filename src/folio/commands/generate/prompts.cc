#include "folio/commands/generate/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/text/chat.h"

namespace folio {
namespace {

Prompt OfMessage(const OpenedModel& model, std::string text, const std::string& where) {
  const ChatFormat format = RequireChat(model);
  const ChatMessage message{ChatRole::kUser, std::move(text)};
  Prompt prompt{message.content + "\n", {}};
  EncodeChat(*model.tokenizer, format, {&message, 1}, /*ask=*/true, where, prompt.ids);
  return prompt;
}

Prompt OfText(const OpenedModel& model, const PromptFlags& flags, std::string text,
              const std::string& where) {
  return flags.chat ? OfMessage(model, std::move(text), where)
                    : PromptOf(model, std::move(text), where);
}

// A file's last line ends, and the text goes on.
std::string WithoutLastBreak(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Prompt OfFile(const OpenedModel& model, const PromptFlags& flags, const std::string& file) {
  ByteInput input(file);
  const std::string name = input.name();
  return OfText(model, flags, WithoutLastBreak(ReadAll(std::move(input))), name);
}

Prompt OfIds(const OpenedModel& model, const std::string& list) {
  std::vector<int32_t> ids = ParseIds(list, "--ids", model.weights->config().vocab_size);
  if (ids.empty()) {
    throw InputError("--ids: no tokens", {}, "write numbers with commas between them: 464,2068");
  }
  std::string text = model.tokenizer != nullptr ? TextOf(*model.tokenizer, ids)
                                                : fmt::format("{}", fmt::join(ids, " "));
  return {std::move(text), std::move(ids)};
}

// The prompt in a line of JSON.
std::string OfJsonLine(std::string_view line, int64_t number, const std::string& name) {
  const Json json = ParseJson(line, name, number);
  const Json* prompt = json.is_object() ? json.find("prompt") : nullptr;
  if (prompt == nullptr || !prompt->is_string()) {
    throw InputError(fmt::format("{}:{}: no prompt", name, number), "there is no string \"prompt\"",
                     "each line must be {\"prompt\":\"...\"}");
  }
  return prompt->text();
}

// A prompt for each line that is not empty.
std::vector<Prompt> OfList(const OpenedModel& model, const PromptFlags& flags,
                           const std::string& file) {
  ByteInput input(file);
  const std::string name = input.name();
  const std::string text = ReadAll(std::move(input));
  const bool json = file.ends_with(".jsonl") || text.starts_with("{\"prompt\"");
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (const std::string& whole : Split(text, '\n')) {
    ++number;
    const std::string line = WithoutLastBreak(whole);
    if (line.empty()) continue;
    prompts.push_back(OfText(model, flags, json ? OfJsonLine(line, number, name) : line,
                             fmt::format("{}:{}", name, number)));
  }
  if (prompts.empty()) {
    throw InputError(fmt::format("{}: no prompts", name), {},
                     "write one a line, or {\"prompt\":\"...\"} in each line");
  }
  return prompts;
}

}  // namespace

ChatFormat RequireChat(const OpenedModel& model) {
  const std::optional<ChatFormat> format = FindChatFormat(model.RequireTokenizer());
  if (format) return *format;
  throw InputError(fmt::format("{}: the model does not know conversations", model.path.string()),
                   "its tokenizer has no <|user|>, <|assistant|>, <|system|> and <|end|>",
                   "leave out --chat, or teach it: folio train --init MODEL --data CHATS.jsonl");
}

Prompt PromptOf(const OpenedModel& model, std::string text, const std::string& where) {
  const Tokenizer& tokenizer = model.RequireTokenizer(
      ", name it with --tokenizer NAME|DIR, or give tokens by number: --ids 5,0,12");
  std::vector<int32_t> ids = PromptTokens(tokenizer, text, where);
  return {std::move(text), std::move(ids)};
}

void PromptFlags::Add(Flags& flags) {
  flags.Positional(Field{"TEXT", &positional, "how the text begins; - for standard input"});
  flags.List("-p,--prompt", &texts, "how the text begins; nothing lets the model begin",
             {.placeholder = "TEXT", .meant = " "});
  flags.List("--file", &files, "a file with the prompt; - for standard input",
             {.placeholder = "FILE"});
  flags.List("--ids", &ids, "the prompt as token ids: 464,2068", {.placeholder = "IDS"});
  flags.List("--prompts", &lists,
             "a file with a prompt in each line, or {\"prompt\":...}, each continued by itself",
             {.placeholder = "FILE"});
  flags.Switch("--chat", &chat, "texts are messages that a model taught to answer answers");
}

std::vector<Prompt> ReadPrompts(const OpenedModel& model, const PromptFlags& flags) {
  std::vector<Prompt> prompts;
  for (const std::string& text : flags.texts)
    prompts.push_back(OfText(model, flags, text, "prompt"));
  if (flags.positional == "-") {
    prompts.push_back(OfFile(model, flags, "-"));
  } else if (!flags.positional.empty()) {
    prompts.push_back(OfText(model, flags, flags.positional, "prompt"));
  }
  for (const std::string& file : flags.files) prompts.push_back(OfFile(model, flags, file));
  for (const std::string& list : flags.ids) prompts.push_back(OfIds(model, list));
  for (const std::string& file : flags.lists) {
    for (Prompt& prompt : OfList(model, flags, file)) prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    prompts.push_back(InputIsPiped() ? OfFile(model, flags, "-")
                                     : OfText(model, flags, "", "prompt"));
  }
  return prompts;
}

}  // namespace folio
