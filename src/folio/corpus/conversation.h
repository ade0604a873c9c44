#pragma once

#include <string>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/chat.h"

namespace folio {

// The forms that lines of conversations have, for messages.
inline constexpr char kConversationForms[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": "
    "\"assistant\", ...}]}, {\"prompt\": \"...\", \"completion\": \"...\"} or "
    "{\"instruction\": \"...\", \"output\": \"...\"}";

// Returns whether a line of JSON is a conversation and no text: it has "messages", or "prompt" and
// "completion", or "instruction" and "output".
bool IsConversation(const Json& line);

// Its turns:
//   {"messages": [{"role": "system|user|assistant", "content": "..."}, ...]}
//   {"prompt": "...", "completion": "..."}, each of which may be a list of messages too
//   {"instruction": "...", "input": "..." or none, "output": "..."}
// Throws a kInput Error whose `what` begins with `where` if it is none of these, or has no answer.
std::vector<ChatMessage> ReadConversation(const Json& line, const std::string& where);

}  // namespace folio
