#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/text/chat_template.h"

namespace folio {

// Returns, for each message of the assistant that `learned` (one for each message) wants, what of
// `whole` the model is to write for it, its end of turn included: `whole` is what the template
// makes of `input`, the whole conversation.
//
// Where the template marks it with {% generation %}, it is that. Else an answer begins behind the
// prompt for it, as the template writes that with the messages before: where the whole has another
// beginning (a system message that goes before the last question), behind what the prompt and the
// whole have in common between the message before and the answer. It ends with the first of
// `ends`, the texts of tokens, before the next message; where there is none, where its turn ends,
// if the template writes a conversation's beginning as it writes the whole's, or else with its
// last character.
//
// Throws a kInput Error, which says the message, where the whole shows nothing of an answer.
std::vector<TextRange> FindAnswers(const ChatTemplate& chat_template, const ChatInput& input,
                                   const RenderedChat& whole, const std::vector<bool>& learned,
                                   std::span<const std::string> ends);

}  // namespace folio
