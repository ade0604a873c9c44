#pragma once

#include <string>

#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampler.h"

namespace folio {

// The kinds of texts that a model writes: the continuation of one, or an answer in a conversation.
enum class Writing { kText, kAnswer };

// Returns the default options of sampling for a model: the values that its files suggest
// (SuggestedSampling), and SamplingOptions for the others. Where the files suggest nothing, an
// answer has settings that were measured to be right most often (scripts/chat_sampling.py).
SamplingOptions DefaultSampling(const OpenedModel& model, Writing writing);

// The same with the most tokens of an answer or a text.
GenerateOptions DefaultGeneration(const OpenedModel& model, Writing writing);

// Describes the options in force, and the source of the defaults among them, for people: "sampling:
// temperature 0.7, top-k 20 (from generation_config.json)". REQUIRES: `options` begin as
// DefaultSampling.
std::string DescribeSampling(const OpenedModel& model, const SamplingOptions& options);

}  // namespace folio
