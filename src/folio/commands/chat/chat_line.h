#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fields.h"

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

}  // namespace folio
