#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/decode_batch.h"
#include "folio/io/json.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/scheduler.h"
#include "folio/text/chat.h"

namespace folio {

// These limits and functions are common to requests that have text written.

inline constexpr int64_t kMostTexts = 128;        // of one prompt
inline constexpr int64_t kMostLikeliest = 20;     // tokens told of each place
inline constexpr size_t kMostStops = 16;          // strings, and ids
inline constexpr size_t kMostMessages = 1 << 14;  // of a conversation

// Reads the fields that say how tokens are chosen and where a text ends: temperature, top_p, top_k,
// min_p, seed, presence_penalty, frequency_penalty, repetition_penalty, no_repeat_ngram_size,
// logit_bias, stop, stop_token_ids, min_tokens, ignore_eos; when_full ("stop", or "slide") and
// truncate, as of GenerateOptions. Without a seed one is drawn. Throws an ApiError.
GenerateOptions ReadGenerationFields(const RequestFields& fields, const ServedModel& model,
                                     int64_t max_tokens);

// Returns the values of these fields where a request does not say them, and the page's max_tokens:
// the defaults of SamplingOptions and GenerateOptions, which are the program's.
Json GenerationDefaults();

// stream_options.include_usage: a stream ends with what was used. Throws an ApiError.
bool ReadIncludeUsage(const RequestFields& fields);

// A list of token ids, all of them in [0,V). Throws an ApiError that names `key`.
std::vector<int32_t> ReadTokenIds(const Json& ids, std::string_view key, int64_t V);

// The text of the ids. Throws the ApiError of one, at `key`, of more bytes than the limits let a
// field have.
std::string BoundedTextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                          std::string_view key, const AnswerLimits& limits);

// The four forms of OpenAI's "prompt" and "input", as token ids: a text, at most `most` texts,
// token ids, or lists of those. Texts become what `encode` makes of them. Throws an ApiError that
// names `key`, also for none and for an empty one.
std::vector<std::vector<int32_t>> ReadTexts(
    const RequestFields& fields, std::string_view key, const ServedModel& model, int64_t most,
    const std::function<std::vector<int32_t>(const std::string& text)>& encode);

// The messages of a conversation, one at least. Throws an ApiError that names "messages".
std::vector<ChatMessage> ReadMessages(const RequestFields& fields);

// Returns the format by which messages become tokens for the model. Throws the ApiError of one that
// was not taught to answer.
ChatFormat RequireChatFormat(const ServedModel& model);

// Throws the ApiError of a text, at `key`, that is longer than the model's context.
void RequireContext(std::span<const int32_t> ids, const std::string& key, const ServedModel& model);

// Returns the reason of an ended text as OpenAI names it.
const char* FinishReasonName(FinishReason reason);

// A token as a text of its own: UTF-8, or "bytes:\xNN..." for what is none.
std::string TokenText(const Tokenizer& tokenizer, int32_t id);

// ln p for JSON, which has no infinity.
double FiniteLogProbability(double log_probability);

// An id of an answer, "<prefix>-<24 hexadecimal digits>".
std::string NewAnswerId(const std::string& prefix);

}  // namespace folio
