#include "folio/serve/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <variant>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/infer/sampling_fields.h"
#include "folio/infer/text_streamer.h"
#include "folio/text/chat_json.h"

namespace folio {
namespace {

Json ParsedObject(std::string_view body, size_t most_values) {
  try {
    Json json = ParseJsonFrom({.name = "the body", .most_values = most_values}, body);
    if (json.is_object()) return json;
  } catch (const Error& error) {
    throw ApiError(error);
  }
  throw ApiError(400, "the body is not a JSON object");
}

// Returns the bytes of all texts in a value.
size_t TextBytesOf(const Json& value) {
  if (value.is_string()) return value.text().size();
  size_t bytes = 0;
  if (value.is_array()) {
    for (const Json& element : value) bytes += TextBytesOf(element);
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) bytes += key.size() + TextBytesOf(member);
  }
  return bytes;
}

// Returns the most bytes that reading a request's JSON may take beside the text itself: a bound by
// its commas, colons and brackets. A byte of it makes up to 60 (of "[0,0,0..."), a text 2.
int64_t JsonMemory(std::string_view text) {
  // While a vector grows, its old and its new places exist: three for each value.
  constexpr int64_t kOfValue = 3 * sizeof(Json);
  // The members of an object grow likewise, and their keys are in a set while they are read.
  constexpr int64_t kOfMember = 3 * (sizeof(Json::Member) - sizeof(Json)) + 96;
  std::array<int64_t, 256> cost{};
  cost[','] = cost['['] = cost['{'] = kOfValue;
  cost[':'] = kOfMember;
  int64_t bytes = kOfValue + 2 * static_cast<int64_t>(text.size());
  for (const char c : text) bytes += cost[static_cast<unsigned char>(c)];
  return bytes;
}

[[noreturn]] void ThrowNoInteger(std::string_view key, int64_t low, int64_t high) {
  ThrowBadField(key, fmt::format("an integer from {} to {}", low, high));
}

}  // namespace

void ThrowBadField(std::string_view key, const std::string& expected) {
  throw ApiError(400, fmt::format("'{}' must be {}", key, expected), std::string(key));
}

void RequireTextBytes(std::string_view key, size_t bytes, const AnswerLimits& limits) {
  if (bytes <= limits.text_bytes) return;
  const std::string name(key.substr(0, 100));
  throw ApiError(400,
                 fmt::format("'{}' has {} bytes of text, at most {} are allowed", name, bytes,
                             limits.text_bytes),
                 name, "text_too_long");
}

RequestFields::RequestFields(HttpRequest& request, const AnswerLimits& limits) {
  if (request.method != "POST") {
    query_ = &request;
    return;
  }
  const std::string body = std::exchange(request.body, {});
  memory_ = {limits.memory, JsonMemory(body)};
  object_ = ParsedObject(body, limits.values);
  size_t bytes = 0;
  for (const auto& [key, value] : object_.items()) {
    const size_t texts = key.size() + TextBytesOf(value);
    RequireTextBytes(key, texts, limits);
    bytes += texts;
  }
  memory_.Resize(memory_.bytes() + kMemoryOfText * static_cast<int64_t>(bytes));
}

const Json* RequestFields::Find(std::string_view key) const {
  const Json* found = object_.find(key);
  if (found == nullptr && query_ != nullptr) {
    const std::string text = query_->parameter(std::string(key));
    found = &(object_[key] = text.empty() ? Json() : Json(text));
  }
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool RequestFields::Flag(std::string_view key, bool otherwise) const {
  const Json* found = Find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) ThrowBadField(key, "true or false");
  return found->get<bool>();
}

std::string RequestFields::Text(std::string_view key, const std::string& otherwise) const {
  const Json* found = Find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_string()) ThrowBadField(key, "a text");
  return found->text();
}

double RequestFields::NumberOf(const Json& field) const {
  if (field.is_number()) return field.get<double>();
  if (query_ == nullptr) return std::nan("");
  return ParsedNumber<double>(field.text()).value_or(std::nan(""));
}

std::optional<double> RequestFields::NumberIfAny(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return {};
  const double value = NumberOf(*found);
  if (!std::isfinite(value)) ThrowBadField(key, "a number");
  return value;
}

double RequestFields::Number(std::string_view key, double otherwise, double low,
                             double high) const {
  const Json* found = Find(key);
  if (found == nullptr) return otherwise;
  const double value = NumberOf(*found);
  if (!(value >= low && value <= high)) {
    ThrowBadField(key, fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

std::optional<int64_t> RequestFields::IntegerIfAny(std::string_view key, int64_t low,
                                                   int64_t high) const {
  const Json* found = Find(key);
  if (found == nullptr) return {};
  if (query_ != nullptr) return IntegerIn(found->text(), key, low, high);
  // 1.0 is an integer too; what no int64_t holds is out of any range.
  const double value = NumberOf(*found);
  const bool exact = found->is_number_integer() && !(found->is_number_unsigned() && value > 9e18);
  const bool whole = exact || (std::abs(value) < 9e15 && value == std::floor(value));
  const int64_t integer = exact ? found->get<int64_t>() : whole ? static_cast<int64_t>(value) : 0;
  if (!whole || integer < low || integer > high) ThrowNoInteger(key, low, high);
  return integer;
}

int64_t RequestFields::Integer(std::string_view key, int64_t otherwise, int64_t low,
                               int64_t high) const {
  return IntegerIfAny(key, low, high).value_or(otherwise);
}

int64_t RequestFields::Required(std::string_view key, int64_t low, int64_t high) const {
  const std::optional<int64_t> value = IntegerIfAny(key, low, high);
  if (!value) ThrowNoInteger(key, low, high);
  return *value;
}

std::vector<int64_t> RequestFields::Integers(std::string_view key, int64_t low, int64_t high,
                                             size_t most) const {
  std::vector<int64_t> values;
  const std::string text = Text(key);
  if (text.empty()) return values;
  for (const std::string& part : Split(text, ',')) {
    const int64_t value = IntegerIn(part, key, low, high);
    if (std::ranges::count(values, value) == 0) values.push_back(value);
    if (values.size() > most) ThrowBadField(key, fmt::format("at most {} integers", most));
  }
  return values;
}

int64_t IntegerIn(std::string_view text, std::string_view what, int64_t low, int64_t high) {
  const std::optional<int64_t> value = ParsedNumber<int64_t>(text);
  if (!value || *value < low || *value > high) ThrowNoInteger(what, low, high);
  return *value;
}

namespace {

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::vector<std::string> ReadStops(const RequestFields& fields) {
  const Json* stop = fields.Find("stop");
  std::vector<std::string> stops;
  if (stop == nullptr) return stops;
  const std::span<const Json> list =
      stop->is_array() ? std::span(stop->begin(), stop->end()) : std::span(stop, 1);
  const bool fits = list.size() <= kMostStops && std::ranges::all_of(list, [](const Json& text) {
                      return text.is_string() && !text.text().empty();
                    });
  if (!fits) {
    ThrowBadField("stop", "a string or a list of at most 16 strings, none of them empty");
  }
  for (const Json& text : list) stops.push_back(text.text());
  return stops;
}

std::vector<LogitBias> ReadBias(const RequestFields& fields, int64_t V) {
  const Json* bias = fields.Find("logit_bias");
  std::vector<LogitBias> read;
  if (bias == nullptr) return read;
  if (!bias->is_object() || std::cmp_greater(bias->size(), V)) {
    ThrowBadField("logit_bias", "an object that maps token ids to numbers");
  }
  for (const Json::Member& member : bias->items()) {
    const std::optional<int32_t> id = ParsedNumber<int32_t>(member.key);
    const double value = member.value.is_number() ? member.value.get<double>() : 1e9;
    if (!id || *id < 0 || *id >= V || std::abs(value) > 100) {
      ThrowBadField(
          "logit_bias",
          fmt::format("an object that maps token ids, 0 to {}, to numbers from -100 to 100",
                      V - 1));
    }
    read.push_back({.id = *id, .value = value});
  }
  return read;
}

WhenFull ReadWhenFull(const RequestFields& fields) {
  const std::string said = fields.Text("when_full", "stop");
  if (said == "stop") return WhenFull::kStop;
  if (said != "slide") ThrowBadField("when_full", "\"stop\" or \"slide\"");
  return WhenFull::kSlide;
}

// {"type": "function", "function": {"name": ...}}
bool IsFunction(const Json& json) {
  const Json *type = json.find("type"), *function = json.find("function");
  if (type == nullptr || *type != Json("function") || function == nullptr) return false;
  const Json* name = function->find("name");
  return name != nullptr && name->is_string();
}

// The functions that a request offers; null for none.
Json ReadTools(const RequestFields& fields) {
  const Json *tools = fields.Find("tools"), *choice = fields.Find("tool_choice");
  if (choice != nullptr && *choice != Json("auto") && *choice != Json("none")) {
    ThrowBadField("tool_choice", "\"auto\" or \"none\": forcing a tool call is not supported");
  }
  if (tools == nullptr || (tools->is_array() && tools->empty())) return nullptr;
  if (!tools->is_array() || tools->size() > kMostTools ||
      !std::ranges::all_of(*tools, IsFunction)) {
    ThrowBadField(
        "tools",
        fmt::format(
            "at most {} objects of type \"function\", each with a 'function' that has a 'name'",
            kMostTools));
  }
  if (choice != nullptr && *choice == Json("none")) return nullptr;
  return *tools;
}

// Calls `read`, whose errors are of this field.
template <class F>
auto OfField(std::string_view key, F&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", key, error.what()), std::string(key));
  }
}

}  // namespace

std::vector<ChatMessage> ReadMessages(const RequestFields& fields) {
  const Json* list = fields.Find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    ThrowBadField("messages", "a list of at least one message");
  }
  if (list->size() > kMostMessages) {
    ThrowBadField("messages", fmt::format("at most {} messages", kMostMessages));
  }
  return OfField("messages", [&] { return ReadChatMessages(*list); });
}

Conversation ReadConversation(const RequestFields& fields) {
  Json variables = Json::object();
  for (const char* key : {"chat_template_kwargs", "enable_thinking"}) {
    if (const Json* given = fields.Find(key)) variables[key] = *given;
  }
  return {.messages = ReadMessages(fields),
          .tools = ReadTools(fields),
          .variables =
              OfField("chat_template_kwargs", [&] { return ReadTemplateVariables(variables); })};
}

ChatEncoder RequireChat(const ServedModel& model) {
  if (std::optional<ChatEncoder> chat = model.model.FindChat()) return *std::move(chat);
  throw ApiError(
      400,
      fmt::format("the model '{}' does not support conversations: {}; use /v1/completions",
                  model.name, model.model.WhyNoChat()),
      "model", "no_chat_template");
}

std::vector<int32_t> ReadTokenIds(const Json& ids, std::string_view key, int64_t V) {
  std::vector<int32_t> read;
  if (ids.is_array()) {
    for (const Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<double>() >= static_cast<double>(V)) break;
      read.push_back(static_cast<int32_t>(id.get<int64_t>()));
    }
  }
  if (!ids.is_array() || read.size() != ids.size()) {
    ThrowBadField(key, fmt::format("a list of token ids, 0 to {}", V - 1));
  }
  return read;
}

std::string BoundedTextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                          std::string_view key, const AnswerLimits& limits) {
  size_t bytes = 0;
  for (const int32_t id : ids) {
    bytes += id < tokenizer.vocab_size() ? tokenizer.TokenBytes(id).size() : 1;
  }
  RequireTextBytes(key, bytes, limits);
  return TextOf(tokenizer, ids);
}

void RequireContext(std::span<const int32_t> ids, const std::string& key,
                    const ServedModel& model) {
  const int64_t P = model.config().n_positions;
  if (std::ssize(ids) <= P) return;
  throw ApiError(
      400, fmt::format("'{}' has {} tokens, the context of the model is {}", key, ids.size(), P),
      key, "context_length_exceeded");
}

std::vector<std::vector<int32_t>> ReadTexts(
    const RequestFields& fields, std::string_view key, const ServedModel& model, int64_t most,
    const std::function<std::vector<int32_t>(const std::string& text)>& encode) {
  constexpr char kExpected[] =
      "a string, a list of strings, a list of token ids or a list of such lists";
  const int64_t V = std::min(model.config().vocab_size, model.tokenizer().vocab_size());
  const Json* given = fields.Find(key);
  if (given == nullptr || (given->is_array() && given->empty())) ThrowBadField(key, kExpected);
  std::vector<std::vector<int32_t>> texts;
  const auto add = [&](const Json& one) {
    if (!one.is_string() && !one.is_array()) ThrowBadField(key, kExpected);
    texts.push_back(one.is_string() ? encode(one.text()) : ReadTokenIds(one, key, V));
    if (texts.back().empty()) ThrowBadField(key, "a text of at least one token");
  };
  if (!given->is_array() || given->at(size_t{0}).is_number()) {
    add(*given);
    return texts;
  }
  if (std::cmp_greater(given->size(), most)) {
    ThrowBadField(key, fmt::format("at most {} strings", most));
  }
  for (const Json& one : *given) add(one);
  return texts;
}

bool ReadIncludeUsage(const RequestFields& fields) {
  const Json* options = fields.Find("stream_options");
  if (options == nullptr) return false;
  const Json* usage = options->find("include_usage");
  const bool absent = usage == nullptr || usage->is_null();
  if (!options->is_object() || (!absent && !usage->is_boolean())) {
    ThrowBadField("stream_options", "an object with 'include_usage', true or false");
  }
  return !absent && usage->get<bool>();
}

namespace {

// Names of sampling fields in requests of other programs' clients.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"typical", "typical_p"}, {"no_repeat_ngram", "no_repeat_ngram_size"}};

void ReadSamplingFields(const RequestFields& fields, SamplingOptions& sampling) {
  std::optional<int64_t> seed;
  for (const Field& field : SamplingFields(sampling, seed)) {
    std::string key = field.key;
    for (const auto& [name, other] : kOtherNames) {
      if (name == key && fields.Find(key) == nullptr) key = other;
    }
    if (double* const* number = std::get_if<double*>(&field.value)) {
      // A share of 0 is a way to say "the likeliest alone".
      const double low = field.max == 1 ? 0 : field.min;
      **number = std::max(fields.Number(key, **number, low, field.max), field.min);
    } else if (int64_t* const* count = std::get_if<int64_t*>(&field.value)) {
      const auto low = static_cast<int64_t>(field.min), high = static_cast<int64_t>(field.max);
      // -1 is a way to say "all".
      **count = std::max(fields.Integer(key, **count, key == "top_k" ? -1 : low, high), low);
    }
  }
  using Limits = std::numeric_limits<int64_t>;
  seed = fields.IntegerIfAny("seed", Limits::min(), Limits::max());
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : RandomNumber();
}

}  // namespace

GenerateOptions ReadGenerationFields(const RequestFields& fields, const ServedModel& model,
                                     Writing writing, int64_t max_tokens) {
  const int64_t V = model.config().vocab_size;
  GenerateOptions options{.sampling = DefaultSampling(model.model, writing),
                          .max_tokens = max_tokens,
                          .when_full = ReadWhenFull(fields),
                          .truncate = fields.Flag("truncate")};
  SamplingOptions& sampling = options.sampling;
  ReadSamplingFields(fields, sampling);
  PenaltyOptions& penalties = sampling.penalties;
  if (penalties.min_tokens > max_tokens) ThrowBadField("min_tokens", "at most 'max_tokens'");
  penalties.bias = ReadBias(fields, V);
  options.stop_strings = ReadStops(fields);
  GenerateOptions for_tokens = ForTokens(model.model, options);
  options.usable = std::move(for_tokens.usable);
  if (!fields.Flag("ignore_eos")) options.stop_tokens = std::move(for_tokens.stop_tokens);
  if (const Json* ids = fields.Find("stop_token_ids")) {
    if (ids->size() > kMostStops) ThrowBadField("stop_token_ids", "at most 16 ids");
    const std::vector<int32_t> more = ReadTokenIds(*ids, "stop_token_ids", V);
    options.stop_tokens.insert(options.stop_tokens.end(), more.begin(), more.end());
  }
  return options;
}

Json GenerationFieldsOf(GenerateOptions options) {
  Json fields = Json::object();
  for (const Field& field : SuggestedFields(options.sampling)) {
    fields[field.key] = ParseJson(FieldText(field), field.key);
  }
  fields["max_tokens"] = options.max_tokens;
  return fields;
}

const char* FinishReasonName(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string TokenText(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocab_size()) return TextOf(tokenizer, {&id, 1});
  const std::string_view bytes = tokenizer.TokenBytes(id);
  if (FindInvalidUtf8(bytes) == std::string_view::npos) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return text;
}

double FiniteLogProbability(double log_probability) {
  return std::max(log_probability, -9999.0);
}

std::string NewAnswerId(const std::string& prefix) {
  return fmt::format("{}-{:016x}{:08x}", prefix, RandomNumber(),
                     static_cast<uint32_t>(RandomNumber()));
}

}  // namespace folio
