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

// ChatWord is what a line at the prompt of `folio chat` asks for.
enum class ChatWord { kMessage, kSet, kSeed, kSystem, kRetry, kTokens, kNew, kHelp, kQuit };

struct ChatLine {
  ChatWord word = ChatWord::kMessage;
  std::string text;                    // of a message, or of kSystem
  std::vector<std::string> arguments;  // of a command, as many as it takes
};

// A line that begins with "/" is a command, "//" a message that begins with "/", all else a
// message. Throws a kUsage Error for a command that there is not, or with other arguments than it
// takes.
ChatLine ParseChatLine(std::string_view typed);

// Commands and keys, a line each.
std::string ChatHelp();

// Sets the field called `key`, in whose place "temp" or another beginning that fits no other key
// will do. Throws a kUsage Error for no such key, and as SetField.
void SetByKey(std::span<const Field> fields, std::string_view key, const std::string& value);

// Returns what a line that begins with `begun` could begin with instead: commands, and keys of
// /set.
std::vector<std::string> CompleteChatLine(std::span<const Field> fields, std::string_view begun);

// ChatHistory holds the lines that were typed at the prompt of `folio chat`, kept from one
// conversation to the next in a file that only its owner reads: a JSON string in each line, the
// latest last. Where it cannot be read or written it is warned of, and everything goes on without
// it.
class ChatHistory {
 public:
  static constexpr size_t kKept = 1000;  // of a file twice as long the older half is left out

  // `path` empty keeps nothing.
  explicit ChatHistory(const std::filesystem::path& path);

  // Returns the lines of the file, the latest last.
  const std::vector<std::string>& earlier() const { return earlier_; }
  // Not what was typed just before it.
  void Add(const std::string& typed);

 private:
  std::vector<std::string> earlier_;
  std::string last_;
  std::unique_ptr<LineFile> file_;
};

// $XDG_STATE_HOME/folio/history, else ~/.local/state/folio/history; "" where none of them is set.
std::filesystem::path ChatHistoryPath();

// A Dialogue is the text that a person and a model write by turns. A model that was taught
// conversations answers each message. Any other goes on from one text, of which every message
// becomes a part; when it has ended its text, the next message begins another.
class Dialogue {
 public:
  // Takes what the model writes, as it comes, and is asked with an empty text too, now and then.
  // Returns false to stop.
  using OnText = std::function<bool(std::string_view more)>;

  // `model` must outlive it. Throws a kInput Error for one without a tokenizer, and what
  // DecodeBatch throws.
  Dialogue(const OpenedModel& model, std::optional<Dtype> cache);

  // Returns true where the model answers, rather than going on from the text.
  bool answers() const { return session_.has_value(); }

  struct Reply {
    GeneratedText written;  // with log-probabilities
    GenerateStats stats;
    int64_t forgotten = 0;  // turns, or tokens of the text, that were left out just now
  };
  // The reply to `message`, which is kept whether it ends or is stopped. Throws a kInput Error for
  // a message that the tokenizer has no tokens for or that is longer than the context, and a kUsage
  // Error for options that do not fit the model; then nothing was said.
  Reply Say(const std::string& message, const GenerateOptions& options, const OnText& on_text);
  // One that takes the place of the last. REQUIRES: replied().
  Reply Again(const GenerateOptions& options, const OnText& on_text);
  bool replied() const { return replied_; }
  // Forgets everything that was said, but the system message.
  void Begin();
  // What the model is told before all turns, from the next message on; "" for nothing. Throws a
  // kUsage Error for a model that does not answer.
  void SetSystem(const std::string& message);

 private:
  int64_t context() const { return model_.weights->config().n_positions; }
  void CheckOptions(const GenerateOptions& options) const;
  // These put what the model continues into prompt_, and return how much was forgotten.
  int64_t Ask(const std::string& message, int64_t max_tokens);
  int64_t Lengthen(const std::string& message, int64_t max_tokens);
  Reply Write(const GenerateOptions& options, const OnText& on_text);

  const OpenedModel& model_;
  const Tokenizer& tokenizer_;
  DecodeBatch batch_;
  std::optional<ChatEncoder> chat_;
  std::optional<ChatSession> session_;  // of a model that answers
  std::string system_;                  // likewise
  std::vector<int32_t> text_;           // of one that goes on: everything so far
  std::vector<int32_t> prompt_;         // of the last reply
  uint64_t turn_ = 0;
  bool replied_ = false;
};

}  // namespace folio
