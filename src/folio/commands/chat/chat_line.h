#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fields.h"
#include "folio/io/file.h"

namespace folio {

// ChatWord is what a line at the prompt of `folio chat` asks for.
enum class ChatWord { kMessage, kSet, kSeed, kRetry, kTokens, kNew, kHelp, kQuit };

struct ChatLine {
  ChatWord word = ChatWord::kMessage;
  std::string text;                    // of a message
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

}  // namespace folio
