#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/corpus/text_stream.h"
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

// The document in a line of JSON: the string `field` of its object. Throws a kInput Error where
// there is none; `where` names the line, and is called for errors alone.
std::string TextOfJsonLine(std::string_view line, const std::string& field,
                           const std::function<std::string()>& where);

// Returns whether the line holds a document.
bool HoldsDocument(std::string_view line, const std::string& field);
// Returns whether the line holds a conversation and no document.
bool HoldsConversation(std::string_view line, const std::string& field);

// Blank lines are no documents.
bool IsBlankLine(std::string_view line);

// "a.jsonl:7", or for values that had other lines "a.json: value 7".
std::string NameJsonLine(const std::string& path, int64_t number, bool json_values);

// Calls f with each line of `stream`, which has JSON lines, that is not blank, and what names it.
void ForJsonLines(
    TextStream& stream, const std::string& path,
    const std::function<void(std::string_view line, const std::function<std::string()>& where)>& f);

// Calls f with the text of each line of `stream`, which has JSON lines, and the line's name.
void ForJsonDocuments(
    TextStream& stream, const std::string& path, const std::string& field,
    const std::function<void(const std::string& text, const std::string& where)>& f);

}  // namespace folio
