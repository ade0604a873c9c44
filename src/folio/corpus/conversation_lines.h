#pragma once

#include <string>

#include "folio/io/json.h"
#include "folio/text/chat.h"

namespace folio {

// Values of JSON that are conversations, in the shapes that data sets of them have:
//   {"messages": [{"role": "user", "content": "..."}, ...]}    as of OpenAI, and "tools" beside it
//   {"conversations": [{"from": "human", "value": "..."}, ...]}    ShareGPT's, or with roles
//   [{"role": "user", "content": "..."}, ...]    nanochat's
//   {"prompt": "...", "completion": "..."}    each of which may be a list of messages too
//   {"instruction": "...", "input": "..." or none, "output": "..."}    Alpaca's
// and the last two with any of kQuestions and kAnswers as names, in any case. "system" beside them
// begins them, and "history" of pairs follows that. A shape that comes first here wins.

// The forms that lines of conversations have, for messages.
inline constexpr char kConversationForms[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": "
    "\"assistant\", ...}]}, {\"conversations\": [{\"from\": \"human\", \"value\": \"...\"}, ...]}, "
    "{\"prompt\": \"...\", \"completion\": \"...\"} or "
    "{\"instruction\": \"...\", \"output\": \"...\"}";

// Returns whether a value is a conversation and no text.
bool IsConversation(const Json& line);

// Names the members that make a conversation of a value: "messages", "question" and "answer".
// REQUIRES: it is one.
std::string NameConversationShape(const Json& line);

// The conversation, with the tools and the variables of the template that the value has beside the
// messages. Throws a kInput Error whose `what` begins with `where` if it is none, or if nobody
// answers in it.
Conversation ReadConversation(const Json& line, const std::string& where);

}  // namespace folio
