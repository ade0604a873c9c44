#pragma once

#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/chat.h"

namespace folio {

// Conversations in JSON, in the form of OpenAI's API, its files for fine-tuning and transformers.
// Shared by the service, training data and folio.h. Mistakes are kInput Errors whose what() names
// the message; callers add the place.

// The messages of a list: objects with a role and a content.
// - Roles are system, developer (the same), user, assistant, tool and function (the same).
// - The content is a text, or parts of the type "text", which become one text. The assistant's is
//   null or missing where it calls tools or has only thought.
// - Each of "tool_calls" has a function with a name and arguments, which are an object or the text
//   of one; "function_call" is one of these.
// - "weight" 0 and "train" false say that training does not learn the message.
// - Null, and an empty list of calls, is a member that is not there; all others are kept.
std::vector<ChatMessage> ReadChatMessages(const Json& list);

// The tools of a list, or of its JSON text; null for none.
Json ReadChatTools(const Json& tools);

// The variables that a conversation sets for the template: the members of "chat_template_kwargs",
// and "enable_thinking" beside it.
Json ReadTemplateVariables(const Json& conversation);

// Reads variables from a command line: the text of an object, or NAME=VALUE separated by commas,
// where a value is JSON or else a text. Throws a kUsage Error.
Json ParseTemplateVariables(std::string_view text);

// Reads all of these from an object with "messages", "tools" (or "functions") and variables.
Conversation ReadChatConversation(const Json& object);

}  // namespace folio
