#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fields.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/file.h"
#include "folio/text/chat_encoder.h"

namespace folio {

// The meaning of a line at the prompt of `folio chat`.
enum class ChatWord { kMessage, kSet, kSeed, kSystem, kRetry, kTokens, kNew, kHelp, kQuit };

struct ChatLine {
  ChatWord word = ChatWord::kMessage;
  std::string text;                    // for a message, or kSystem
  std::vector<std::string> arguments;  // for a command
};

// A line that begins with "/" is a command, "//" a message that begins with "/", anything else a
// message. Throws a kUsage Error for an unknown command, or a wrong number of arguments.
ChatLine ParseChatLine(std::string_view typed);

// Commands and keys, a line each.
std::string ChatHelp();

// Sets the field called `key`; an unambiguous prefix such as "temp" is enough. Throws a kUsage
// Error for an unknown key, and what SetField throws.
void SetByKey(std::span<const Field> fields, std::string_view key, const std::string& value);

// Returns the completions of a line that begins with `begun`: commands, and keys of /set.
std::vector<std::string> CompleteChatLine(std::span<const Field> fields, std::string_view begun);

// The lines that were typed at the prompt of `folio chat`, kept between conversations in a file
// that only its owner can read: a JSON string in each line, the latest last. If it cannot be read
// or written there is a warning, and chat continues without it.
class ChatHistory {
 public:
  static constexpr size_t kKept = 1000;  // of twice this many lines the older half is dropped

  // An empty `path` keeps nothing.
  explicit ChatHistory(const std::filesystem::path& path);

  // Returns the lines of the file, the latest last.
  const std::vector<std::string>& earlier() const { return earlier_; }
  // Adds a line unless it equals the one before.
  void Add(const std::string& typed);

 private:
  std::vector<std::string> earlier_;
  std::string last_;
  std::unique_ptr<LineFile> file_;
};

// $XDG_STATE_HOME/folio/history, else ~/.local/state/folio/history; "" if neither is set.
std::filesystem::path ChatHistoryPath();

// A text that a user and a model write in turns. A model that was trained for conversations answers
// each message. Any other continues one text, which messages are appended to; after it has ended
// its text, the next message begins a new one.
class Dialogue {
 public:
  // Receives the model's text piece by piece, and is also called with an empty text now and then.
  // Returns false to stop.
  using OnText = std::function<bool(std::string_view more)>;

  // `model` must outlive it. Throws a kInput Error without a tokenizer, and what DecodeBatch
  // throws.
  Dialogue(const OpenedModel& model, std::optional<Dtype> cache);

  // Returns true if the model answers messages, false if it continues the text.
  bool answers() const { return session_.has_value(); }

  struct Reply {
    GeneratedText written;  // with log-probabilities
    GenerateStats stats;
    int64_t forgotten = 0;  // turns, or tokens of the text, that this reply dropped
  };
  // The reply to `message`, which is kept even if it is stopped. Throws a kInput Error for a
  // message that the tokenizer cannot encode or that is longer than the context, and a kUsage Error
  // for options that do not fit the model; nothing is kept then.
  Reply Say(const std::string& message, const GenerateOptions& options, const OnText& on_text);
  // A new reply in place of the last one. REQUIRES: replied().
  Reply Again(const GenerateOptions& options, const OnText& on_text);
  bool replied() const { return replied_; }
  // Forgets everything except the system message.
  void Begin();
  // Sets the text before all turns, from the next message on; "" for none. Throws a kUsage Error
  // for a model that does not answer messages.
  void SetSystem(const std::string& message);

 private:
  int64_t context() const { return model_.weights->config().n_positions; }
  void CheckOptions(const GenerateOptions& options) const;
  // These set prompt_ to the text that the model continues, and return how much was dropped.
  int64_t Ask(const std::string& message, int64_t max_tokens);
  int64_t Lengthen(const std::string& message, int64_t max_tokens);
  Reply Write(const GenerateOptions& options, const OnText& on_text);

  const OpenedModel& model_;
  const Tokenizer& tokenizer_;
  DecodeBatch batch_;
  std::optional<ChatEncoder> chat_;
  std::optional<ChatSession> session_;  // for a model that answers
  std::string system_;                  // for a model that answers
  std::vector<int32_t> text_;           // for a model that continues: the whole text
  std::vector<int32_t> prompt_;         // of the last reply
  uint64_t turn_ = 0;
  bool replied_ = false;
};

}  // namespace folio
