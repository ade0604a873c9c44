#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "folio/infer/decode_batch.h"
#include "folio/infer/default_sampling.h"
#include "folio/io/json.h"
#include "folio/serve/http.h"
#include "folio/serve/scheduler.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"

namespace folio {

class ServiceMetrics;

// AnswerLimits bound what one request may ask for, and all of them together.
struct AnswerLimits {
  double seconds = 600;             // for an answer
  int64_t prompts = 64;             // of one request
  size_t text_bytes = 1 << 20;      // of the texts of one field, and of what token ids become
  size_t values = 1 << 20;          // of JSON, in one request
  int64_t probabilities = 1 << 18;  // of tokens, told in one answer
  // All requests share this budget; a service that is not given one makes one of
  // MemoryBudget::DefaultBytes().
  std::shared_ptr<MemoryBudget> memory = {};
};

// The fields of a request: of its body, a JSON object, or of the query of its address, "?q=7&l=5".
// Each is checked as it is read: a wrong type or a number out of its range is a 400 that names the
// field (ApiError). Null in a body and nothing in a query is a field that is not there, and fields
// that nobody asks for are left alone, as OpenAI's clients expect. As long as it is there it has a
// share of the memory of all requests: of what its values take, and of what is made of its texts
// (tokens, copies, an answer that says them).
class RequestFields {
 public:
  // Takes and reads the body of a POST, else the query. `request` must outlive it. Throws an
  // ApiError if the body is no JSON object, or one of more values than the limits let it have, or
  // if the texts of a field are longer than they let it be, or for want of memory.
  RequestFields(HttpRequest& request, const AnswerLimits& limits);

  // Null if it is not there.
  const Json* Find(std::string_view key) const;
  bool Flag(std::string_view key, bool otherwise = false) const;
  std::string Text(std::string_view key, const std::string& otherwise = {}) const;
  double Number(std::string_view key, double otherwise, double low, double high) const;
  std::optional<double> NumberIfAny(std::string_view key) const;  // a finite one
  int64_t Integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  std::optional<int64_t> IntegerIfAny(std::string_view key, int64_t low, int64_t high) const;
  // Returns an integer that has to be there.
  int64_t Required(std::string_view key, int64_t low, int64_t high) const;
  // "3,7" of a query: at most `most`, each once.
  std::vector<int64_t> Integers(std::string_view key, int64_t low, int64_t high, size_t most) const;

 private:
  double NumberOf(const Json& field) const;  // NaN where it is none

  const HttpRequest* query_ = nullptr;  // whose parameters become fields when they are looked for
  MemoryBudget::Share memory_;          // of all that is made of the body's values and texts
  mutable Json object_ = Json::object();
};

// A Call is a request on its way through its route.
struct Call {
  const HttpRequest& request;
  const RequestFields& fields;
  const std::vector<std::string>& names;     // of the address, where its route has a "*"
  std::shared_ptr<ServedModel> served = {};  // the model, for a route that needs one
  const AnswerLimits& limits;
  ServiceMetrics& metrics;

  ServedModel& model() const { return *served; }
};

// Throws the 400 of a field that is not as it should be.
[[noreturn]] void ThrowBadField(std::string_view key, const std::string& expected);

// Throws the 400 of a field whose texts are longer than the limits let them be.
void RequireTextBytes(std::string_view key, size_t bytes, const AnswerLimits& limits);

// The whole of a text as a number of this type; nothing where it is none.
template <class T>
std::optional<T> ParsedNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

// The whole of `text` as an integer of this range. Throws the 400 that names `what`.
int64_t IntegerIn(std::string_view text, std::string_view what, int64_t low, int64_t high);

// These limits and functions are common to requests that have text written.

inline constexpr int64_t kMostTexts = 128;        // of one prompt
inline constexpr int64_t kMostLikeliest = 20;     // tokens told of each place
inline constexpr size_t kMostStops = 16;          // strings, and ids
inline constexpr size_t kMostMessages = 1 << 14;  // of a conversation
inline constexpr size_t kMostTools = 128;         // of one, and calls of a message

// Reads the fields that say how tokens are chosen and where a text ends: SamplingFields,
// logit_bias, stop, stop_token_ids, ignore_eos, when_full ("stop", or "slide") and truncate, as in
// GenerateOptions. DefaultSampling, for the model and `writing`, has the values of absent fields.
// Without a seed one is drawn. Throws an ApiError.
GenerateOptions ReadGenerationFields(const RequestFields& fields, const ServedModel& model,
                                     Writing writing, int64_t max_tokens);

// Returns options, DefaultGeneration for example, as SuggestedFields and the page's max_tokens.
Json GenerationFieldsOf(GenerateOptions options);

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

// The same with the tools that the model may call, and the variables that the request sets for the
// chat template. Throws an ApiError that names the field.
Conversation ReadConversation(const RequestFields& fields);

// Returns how messages become tokens for the model. Throws the ApiError of one that
// was not taught to answer.
ChatEncoder RequireChat(const ServedModel& model);

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
