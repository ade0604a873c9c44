#include "folio/commands/chat/conversation.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/term/terminal_text.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

struct WordInfo {
  ChatWord word;
  std::string_view name, arguments, help;
  std::array<size_t, 2> counts;  // allowed numbers of arguments
  bool text = false;             // instead of arguments, the rest of the line is one text
};

constexpr WordInfo kWords[] = {
    {ChatWord::kSet,
     "/set",
     "[KEY VALUE]",
     "sampling options; without arguments: show them",
     {0, 2}},
    {ChatWord::kSeed, "/seed", "N", "seed of the random choices", {1, 1}},
    {ChatWord::kSystem,
     "/system",
     "[TEXT]",
     "set the system message; without text: remove it",
     {},
     true},
    {ChatWord::kRetry, "/retry", "", "another reply, with the next seed", {0, 0}},
    {ChatWord::kTokens,
     "/tokens",
     "",
     "tokens of the last reply, with their probabilities",
     {0, 0}},
    {ChatWord::kNew, "/new", "", "start a new conversation", {0, 0}},
    {ChatWord::kHelp, "/help", "", "this", {0, 0}},
    {ChatWord::kQuit, "/quit", "", "exit, like Ctrl-D", {0, 0}},
};

constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"Alt-Enter", "a line break; so does \\ at the end of a line"},
    {"Up, Down", "previous input; Ctrl-R searches it"},
    {"Tab", "complete a command"},
    {"Ctrl-C", "stop the reply, or clear the line"},
};

std::string Usage(const WordInfo& info) {
  return fmt::format("{}{}{}", info.name, info.arguments.empty() ? "" : " ", info.arguments);
}

Error UnknownWord(const std::string& name) {
  std::vector<std::string> names;
  for (const WordInfo& info : kWords) names.emplace_back(info.name);
  const std::string nearest = Nearest(name, names);
  return UsageError(fmt::format("unknown command {}", name),
                    nearest.empty() ? "" : fmt::format("did you mean {}?", nearest),
                    "/help lists them; to send a message that begins with /, type //");
}

namespace fs = std::filesystem;

std::string Line(const std::string& typed) {
  return Json(typed).dump() + "\n";
}

// Complete lines of the file; others are left out.
std::vector<std::string> ReadHistory(const fs::path& path) {
  constexpr uint64_t kLargest = uint64_t{1} << 26;
  std::vector<std::string> typed;
  for (const std::string& line : Split(ReadFile(path, kLargest), '\n')) {
    try {
      const Json json = ParseJson(line, path.string());
      if (json.is_string()) typed.push_back(json.text());
    } catch (const Error&) {  // a truncated line
    }
  }
  return typed;
}

}  // namespace

ChatLine ParseChatLine(std::string_view typed) {
  if (!typed.starts_with('/')) return {.text = std::string(typed), .arguments = {}};
  if (typed.starts_with("//")) return {.text = std::string(typed.substr(1)), .arguments = {}};
  std::istringstream stream{std::string(typed)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  const std::string name = words.front();
  words.erase(words.begin());
  for (const WordInfo& info : kWords) {
    if (info.name != name) continue;
    if (info.text) {
      const size_t begin = std::min(typed.find_first_not_of(' ', name.size()), typed.size());
      return {.word = info.word, .text = std::string(typed.substr(begin)), .arguments = {}};
    }
    if (std::ranges::find(info.counts, words.size()) == info.counts.end()) {
      throw UsageError(fmt::format("wrong arguments for {}", name), {}, Usage(info));
    }
    return {.word = info.word, .text = {}, .arguments = std::move(words)};
  }
  throw UnknownWord(name);
}

std::string ChatHelp() {
  std::string help;
  const auto line = [&](std::string_view what, std::string_view why) {
    help += fmt::format("{}  {}\n", PadRight(what, 16), why);
  };
  for (const WordInfo& info : kWords) line(Usage(info), info.help);
  for (const auto& [key, why] : kKeys) line(key, why);
  return help;
}

void SetByKey(std::span<const Field> fields, std::string_view key, const std::string& value) {
  const Field* found = nullptr;
  size_t fitting = 0;
  for (const Field& field : fields) {
    if (field.key == key) return SetField(field, value, field.key);
    if (!field.key.starts_with(key)) continue;
    found = &field;
    ++fitting;
  }
  if (fitting != 1) {
    std::vector<std::string> keys;
    for (const Field& field : fields) keys.push_back(field.key);
    throw UsageError(
        fmt::format("'{}' is {} setting", key, fitting > 1 ? "an ambiguous" : "an unknown"), {},
        "the settings are " + Join(keys, ", "));
  }
  SetField(*found, value, found->key);
}

std::vector<std::string> CompleteChatLine(std::span<const Field> fields, std::string_view begun) {
  constexpr std::string_view kSet = "/set ";
  std::vector<std::string> lines;
  for (const WordInfo& info : kWords) {
    lines.push_back(fmt::format("{}{}", info.name, info.arguments.empty() ? "" : " "));
  }
  for (const Field& field : fields) lines.push_back(fmt::format("{}{} ", kSet, field.key));
  const bool keys = begun.starts_with(kSet);
  std::erase_if(lines, [&](const std::string& line) {
    return !line.starts_with(begun) || (!keys && line.starts_with(kSet) && line != kSet);
  });
  return lines;
}

ChatHistory::ChatHistory(const fs::path& path) {
  if (path.empty()) return;
  const mode_t before = umask(077);
  try {
    CreateParentOf(path);
    if (fs::exists(path)) {
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
      earlier_ = ReadHistory(path);
    }
    if (earlier_.size() > 2 * kKept) {
      earlier_.erase(earlier_.begin(), earlier_.end() - kKept);
      std::string lines;
      for (const std::string& one : earlier_) lines += Line(one);
      WriteFileAtomically(path, lines);
    }
    file_ = std::make_unique<LineFile>(path);
  } catch (const std::exception& error) {  // an Error, or one of the file system
    LogWarning(std::string("the input history is not saved: ") + error.what());
  }
  umask(before);
  if (!earlier_.empty()) last_ = earlier_.back();
}

void ChatHistory::Add(const std::string& typed) {
  if (typed.empty() || typed == last_) return;
  last_ = typed;
  if (file_) file_->Write(Line(typed));
}

fs::path ChatHistoryPath() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && fs::path(state).is_absolute()) return fs::path(state) / "folio/history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / ".local/state/folio/history";
}

Dialogue::Dialogue(const OpenedModel& model, std::optional<Dtype> cache)
    : model_(model),
      tokenizer_(model.RequireTokenizer(", or give one with --tokenizer NAME|DIR")),
      batch_(*model.backend, *model.weights, {.texts = 1, .cache = cache}),
      chat_(model.FindChat()) {
  Begin();
}

void Dialogue::Begin() {
  if (chat_) session_.emplace(tokenizer_, *chat_, context()).SetSystem(system_);
  text_.clear();
  turn_ = 0;
  replied_ = false;
}

void Dialogue::SetSystem(const std::string& message) {
  if (!answers()) {
    throw UsageError("this model was not trained to answer: it takes no system message",
                     "a system message is part of a conversation",
                     "give a template with --chat-template, or type the text itself");
  }
  session_->SetSystem(message);  // not every template accepts one
  system_ = message;
}

Dialogue::Reply Dialogue::Say(const std::string& message, const GenerateOptions& options,
                              const OnText& on_text) {
  CheckOptions(options);
  const int64_t forgotten =
      answers() ? Ask(message, options.max_tokens) : Lengthen(message, options.max_tokens);
  Reply reply = Write(options, on_text);
  ++turn_;
  replied_ = true;
  reply.forgotten = forgotten;
  return reply;
}

Dialogue::Reply Dialogue::Again(const GenerateOptions& options, const OnText& on_text) {
  FOLIO_CHECK(replied_, "there is nothing to say again");
  CheckOptions(options);
  if (answers()) session_->TakeBackAnswer();
  --turn_;
  Reply reply = Write(options, on_text);
  ++turn_;
  return reply;
}

void Dialogue::CheckOptions(const GenerateOptions& options) const {
  const std::vector<int32_t> any = {0};
  CheckGeneration(any, options, context(), model_.weights->config().vocab_size);
}

int64_t Dialogue::Ask(const std::string& message, int64_t max_tokens) {
  Conversation asked{.messages = {{ChatRole::kUser, message}}};
  if (!system_.empty()) {
    asked.messages.insert(asked.messages.begin(), {ChatRole::kSystem, system_});
  }
  std::vector<int32_t> alone;
  chat_->Encode(tokenizer_, asked, /*ask=*/true, "the message", alone);
  if (std::ssize(alone) > context()) {
    throw InputError("the message is longer than the model's context",
                     fmt::format("{} tokens of at most {}", alone.size(), context()),
                     "shorten the message");
  }
  ChatSession::Question question = session_->Ask(message, max_tokens);
  prompt_ = std::move(question.ids);
  return question.forgotten;
}

int64_t Dialogue::Lengthen(const std::string& message, int64_t max_tokens) {
  std::vector<int32_t> more;
  if (text_.empty()) {
    more = PromptTokens(tokenizer_, message, "the text");
  } else if (!message.empty()) {
    const bool space = std::isspace(static_cast<unsigned char>(message.front())) != 0;
    if (!space) tokenizer_.EncodePrefix("\n", more);  // which not every tokenizer has
    const std::vector<int32_t> typed = tokenizer_.Encode(message, "the text", SpecialRule::Allow());
    more.insert(more.end(), typed.begin(), typed.end());
  }
  prompt_ = text_;
  prompt_.insert(prompt_.end(), more.begin(), more.end());
  const int64_t longest = std::max<int64_t>(context() - std::min(max_tokens, context() / 4), 1);
  if (std::ssize(prompt_) <= longest) return 0;
  // Drops half of the context at a time, so that the rest is not encoded again for every message.
  const int64_t kept = std::min(std::max<int64_t>(context() / 2, std::ssize(more)), longest);
  const int64_t forgotten = std::ssize(prompt_) - kept;
  prompt_.erase(prompt_.begin(), prompt_.begin() + forgotten);
  return forgotten;
}

Dialogue::Reply Dialogue::Write(const GenerateOptions& options, const OnText& on_text) {
  GenerateOptions with = options;
  with.likeliest = 0;
  Reply reply;
  bool wanted = true;
  TextStreamer writer(tokenizer_, with, [&](std::string_view more) {
    wanted = wanted && on_text(more);
    return wanted;
  });
  const DecodeBatch::Id id =
      batch_.Add({.prompt = prompt_,
                  .options = ForTokens(model_, with),
                  .rng_stream = turn_,
                  .on_token = [&](const NewToken& token) { return writer.Take(token); },
                  .on_end =
                      [&](FinishReason reason, const GenerateStats& stats) {
                        reply.written = writer.Finish(reason);
                        reply.stats = stats;
                      }});
  while (batch_.Step()) {
    if (wanted && !on_text("")) batch_.Cancel(id);
  }
  if (answers()) {
    session_->Answered(reply.written.ids);
  } else if (reply.written.reason == FinishReason::kStop) {
    text_.clear();
  } else {
    text_ = prompt_;
    text_.insert(text_.end(), reply.written.ids.begin(), reply.written.ids.end());
    // Text beyond the context is never read again.
    const int64_t beyond = std::max<int64_t>(std::ssize(text_) - context(), 0);
    text_.erase(text_.begin(), text_.begin() + beyond);
  }
  return reply;
}

}  // namespace folio
