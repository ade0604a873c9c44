#pragma once

#include <string>

#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampler.h"

namespace folio {

// What a model writes: on from a text, or an answer in a conversation.
enum class Writing { kText, kAnswer };

// Returns how tokens are chosen where nobody says otherwise, the same everywhere: as the files of
// the model suggest (SuggestedSampling), what they leave open as SamplingOptions has it. Where they
// suggest nothing, a text is as SamplingOptions has it, and an answer has settings that were
// measured to be right most often (scripts/chat_sampling.py).
SamplingOptions DefaultSampling(const OpenedModel& model, Writing writing);

// The same with the most tokens of an answer or a text.
GenerateOptions DefaultGeneration(const OpenedModel& model, Writing writing);

// Returns what is in force, and where the defaults in it come from, for people: "sampling:
// temperature 0.7, top-k 20 (from generation_config.json)". REQUIRES: `options` begin as
// DefaultSampling.
std::string DescribeSampling(const OpenedModel& model, const SamplingOptions& options);

}  // namespace folio
