#pragma once

#include <string>

#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/term/console.h"

namespace folio {

// The tokens of a reply with the probability that the model itself gave each of them, which colours
// them, in lines as wide as the terminal; then how many there are, and their perplexity.
// REQUIRES: it was written with log-probabilities.
std::string ReplyTokens(const GeneratedText& written, const OpenedModel& model,
                        const Terminal& terminal);

}  // namespace folio
