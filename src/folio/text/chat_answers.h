#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/text/chat_template.h"

namespace folio {

// Returns, for each message of the assistant that `learned` (one flag for each message) selects,
// the part of `whole` that the model should write for it, including its end of turn. `whole` is the
// template's output for `input`, the whole conversation.
//
// If the template marks that part with {% generation %}, that is used. Else an answer begins behind
// its prompt, as the template writes it for the messages before; if the whole begins differently (a
// system message may be moved before the last question), behind the longest common part of the
// prompt and the whole between the message before and the answer. It ends with the first of `ends`,
// the texts of tokens, before the next message; if there is none, at the end of its turn, provided
// that the template writes a conversation's beginning as it writes the whole, or else with its last
// character.
//
// Throws a kInput Error that names the message if the whole does not contain an answer.
std::vector<TextRange> FindAnswers(const ChatTemplate& chat_template, const ChatInput& input,
                                   const RenderedChat& whole, const std::vector<bool>& learned,
                                   std::span<const std::string> ends);

}  // namespace folio
