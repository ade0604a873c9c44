#include "folio/serve/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "folio/base/utf8.h"
#include "folio/infer/text_streamer.h"
#include "folio/serve/api_error.h"

namespace folio {
namespace {

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::vector<std::string> ReadStops(const RequestFields& fields) {
  const Json* stop = fields.Find("stop");
  std::vector<std::string> stops;
  if (stop == nullptr) return stops;
  constexpr char kExpected[] = "a text or a list of at most 16 texts, none of them empty";
  if (!stop->is_string() && !stop->is_array()) ThrowBadField("stop", kExpected);
  if (stop->size() > kMostStops) ThrowBadField("stop", kExpected);
  if (stop->is_string()) {
    stops.push_back(stop->text());
  } else {
    for (const Json& text : *stop) {
      if (!text.is_string()) ThrowBadField("stop", kExpected);
      stops.push_back(text.text());
    }
  }
  if (std::ranges::count(stops, "") > 0) ThrowBadField("stop", kExpected);
  return stops;
}

std::vector<LogitBias> ReadBias(const RequestFields& fields, int64_t V) {
  const Json* bias = fields.Find("logit_bias");
  std::vector<LogitBias> read;
  if (bias == nullptr) return read;
  if (!bias->is_object() || std::cmp_greater(bias->size(), V)) {
    ThrowBadField("logit_bias", "an object of numbers by token id");
  }
  for (const Json::Member& member : bias->items()) {
    LogitBias one;
    const char* end = member.key.data() + member.key.size();
    const auto [rest, error] = std::from_chars(member.key.data(), end, one.id);
    const double value = member.value.is_number() ? member.value.get<double>() : 1e9;
    if (error != std::errc() || rest != end || one.id < 0 || one.id >= V || std::abs(value) > 100) {
      ThrowBadField("logit_bias",
                    fmt::format("numbers from -100 to 100 by token id, 0 to {}", V - 1));
    }
    one.value = value;
    read.push_back(one);
  }
  return read;
}

// A message's text: one, or parts of which each has one.
std::string ReadContent(const Json& message) {
  const Json* content = message.find("content");
  if (content != nullptr && content->is_string()) return content->text();
  std::string text;
  if (content == nullptr || !content->is_array()) {
    ThrowBadField("messages", "a list of objects with 'role' and 'content', a text");
  }
  for (const Json& part : *content) {
    const Json *type = part.find("type"), *of = part.find("text");
    if (type == nullptr || *type != Json("text") || of == nullptr || !of->is_string()) {
      ThrowBadField("messages", "text alone: this model takes nothing else");
    }
    text += of->text();
  }
  return text;
}

WhenFull ReadWhenFull(const RequestFields& fields) {
  const std::string said = fields.Text("when_full", "stop");
  if (said == "stop") return WhenFull::kStop;
  if (said != "slide") ThrowBadField("when_full", "\"stop\" or \"slide\"");
  return WhenFull::kSlide;
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
  std::vector<ChatMessage> messages;
  for (const Json& message : *list) {
    const Json* role = message.find("role");
    const auto found = role != nullptr && role->is_string()
                           ? FindChatRole(role->text() == "developer" ? "system" : role->text())
                           : std::nullopt;
    if (!found) ThrowBadField("messages", "of the roles system, user and assistant");
    messages.push_back({*found, ReadContent(message)});
  }
  return messages;
}

ChatFormat RequireChatFormat(const ServedModel& model) {
  const std::optional<ChatFormat> format = FindChatFormat(model.tokenizer());
  if (format) return *format;
  throw ApiError(400,
                 fmt::format("the model '{}' was not trained on conversations and has no chat "
                             "template; it goes on from a text at /v1/completions",
                             model.name),
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
  throw ApiError(400,
                 fmt::format("'{}' has {} tokens, and the model's context {}", key, ids.size(), P),
                 key, "context_length_exceeded");
}

std::vector<std::vector<int32_t>> ReadTexts(
    const RequestFields& fields, std::string_view key, const ServedModel& model, int64_t most,
    const std::function<std::vector<int32_t>(const std::string& text)>& encode) {
  constexpr char kExpected[] = "a text, a list of texts, token ids or a list of lists of those";
  const int64_t V = std::min(model.config().vocab_size, model.tokenizer().vocab_size());
  const Json* given = fields.Find(key);
  if (given == nullptr || (given->is_array() && given->empty())) ThrowBadField(key, kExpected);
  std::vector<std::vector<int32_t>> texts;
  const auto add = [&](const Json& one) {
    if (!one.is_string() && !one.is_array()) ThrowBadField(key, kExpected);
    texts.push_back(one.is_string() ? encode(one.text()) : ReadTokenIds(one, key, V));
    if (texts.back().empty()) ThrowBadField(key, "of at least one token");
  };
  if (!given->is_array() || given->at(size_t{0}).is_number()) {
    add(*given);
    return texts;
  }
  if (std::cmp_greater(given->size(), most)) {
    ThrowBadField(key, fmt::format("at most {} texts", most));
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
    ThrowBadField("stream_options", "an object in which 'include_usage' is true or false");
  }
  return !absent && usage->get<bool>();
}

GenerateOptions ReadGenerationFields(const RequestFields& fields, const ServedModel& model,
                                     int64_t max_tokens) {
  const int64_t V = model.config().vocab_size;
  GenerateOptions options{.max_tokens = max_tokens,
                          .when_full = ReadWhenFull(fields),
                          .truncate = fields.Flag("truncate")};
  SamplingOptions& sampling = options.sampling;
  sampling.temperature = fields.Number("temperature", sampling.temperature, 0, 2);
  // 0: the likeliest alone
  sampling.top_p = std::max(fields.Number("top_p", sampling.top_p, 0, 1), 1e-9);
  sampling.top_k = fields.Integer("top_k", sampling.top_k, -1, V);
  sampling.top_k = std::max<int64_t>(sampling.top_k, 0);  // -1 is a way to say "all"
  sampling.min_p = fields.Number("min_p", sampling.min_p, 0, 1);
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min(),
                    kHigh = std::numeric_limits<int64_t>::max();
  const auto seed = fields.IntegerIfAny("seed", kLow, kHigh);
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : RandomNumber();
  PenaltyOptions& penalties = sampling.penalties;
  penalties.presence = fields.Number("presence_penalty", penalties.presence, -2, 2);
  penalties.frequency = fields.Number("frequency_penalty", penalties.frequency, -2, 2);
  penalties.repetition = fields.Number("repetition_penalty", penalties.repetition, 0.01, 100);
  penalties.no_repeat_ngram =
      fields.Integer("no_repeat_ngram_size", penalties.no_repeat_ngram, 0, 1000);
  penalties.min_tokens = fields.Integer("min_tokens", penalties.min_tokens, 0, max_tokens);
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

Json GenerationDefaults() {
  const GenerateOptions of;
  return {{"temperature", of.sampling.temperature},
          {"top_k", of.sampling.top_k},
          {"top_p", of.sampling.top_p},
          {"min_p", of.sampling.min_p},
          {"repetition_penalty", of.sampling.penalties.repetition},
          {"max_tokens", of.max_tokens}};
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
