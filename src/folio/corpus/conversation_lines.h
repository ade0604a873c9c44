#pragma once

#include <string>

#include "folio/io/json.h"
#include "folio/text/chat.h"

namespace folio {

// Conversations in JSON, in the shapes that data sets have:
//   {"messages": [{"role": "user", "content": "..."}, ...]}    OpenAI's, with "tools" beside it
//   {"conversations": [{"from": "human", "value": "..."}, ...]}    ShareGPT's, or with roles
//   [{"role": "user", "content": "..."}, ...]    nanochat's
//   {"prompt": "...", "completion": "..."}    each may be a list of messages too
//   {"instruction": "...", "input": "..." or none, "output": "..."}    Alpaca's
// The last two may use any names of kQuestions and kAnswers, in any case. A member "system" gives
// the first message, and "history" the pairs of turns before the question. The first shape in this
// list that fits is used.

// The description of these shapes for errors.
inline constexpr char kConversationForms[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": "
    "\"assistant\", ...}]}, {\"conversations\": [{\"from\": \"human\", \"value\": \"...\"}, ...]}, "
    "{\"prompt\": \"...\", \"completion\": \"...\"} or "
    "{\"instruction\": \"...\", \"output\": \"...\"}";

// Returns true if a value is a conversation.
bool IsConversation(const Json& line);

// The members that hold the conversation, for messages: "messages", or "question" and "answer".
// REQUIRES: IsConversation.
std::string NameConversationShape(const Json& line);

// The conversation, with the value's tools and variables of the template. Throws a kInput Error
// whose `what` begins with `where` if it is no conversation, or has no message of the assistant.
Conversation ReadConversation(const Json& line, const std::string& where);

}  // namespace folio
