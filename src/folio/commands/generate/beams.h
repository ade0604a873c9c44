#pragma once

#include <optional>
#include <vector>

#include "folio/commands/generate/prompts.h"
#include "folio/infer/beam_search.h"
#include "folio/infer/opened_model.h"
#include "folio/term/console.h"

namespace folio {

// Continues prompts, one after the other, by beam search, and tells the texts that it finds, as
// text or as lines of JSON. `max_tokens`, `n`, `beams` and `length_penalty` are those of `options`.
// Throws what BeamSearch throws.
void TellBeams(Console& console, const OpenedModel& model, const std::vector<Prompt>& prompts,
               BeamSearchOptions options, std::optional<Dtype> cache);

}  // namespace folio
