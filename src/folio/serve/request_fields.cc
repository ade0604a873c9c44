#include "folio/serve/request_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "folio/io/json.h"
#include "folio/serve/api_error.h"

namespace folio {
namespace {

Json ParsedObject(std::string_view body, size_t most_values) {
  try {
    Json json = ParseJsonFrom({.name = "the body", .most_values = most_values}, body);
    if (json.is_object()) return json;
  } catch (const Error& error) {
    throw ApiError(error);
  }
  throw ApiError(400, "the body is no JSON object");
}

// Returns the bytes of all texts in a value.
size_t TextBytesOf(const Json& value) {
  if (value.is_string()) return value.text().size();
  size_t bytes = 0;
  if (value.is_array()) {
    for (const Json& element : value) bytes += TextBytesOf(element);
  }
  if (value.is_object()) {
    for (const auto& [key, of] : value.items()) bytes += key.size() + TextBytesOf(of);
  }
  return bytes;
}

}  // namespace

void ThrowBadField(std::string_view key, const std::string& expected) {
  throw ApiError(400, fmt::format("'{}' must be {}", key, expected), std::string(key));
}

void RequireTextBytes(std::string_view key, size_t bytes, const AnswerLimits& limits) {
  if (bytes <= limits.text_bytes) return;
  const std::string name(key.substr(0, 100));
  throw ApiError(400,
                 fmt::format("'{}' has {} bytes of text, and at most {} are taken", name, bytes,
                             limits.text_bytes),
                 name, "text_too_long");
}

RequestFields::RequestFields(std::string_view body, const AnswerLimits& limits)
    : memory_(limits.memory, JsonMemory(body)), object_(ParsedObject(body, limits.values)) {
  size_t bytes = 0;
  for (const auto& [key, value] : object_.items()) {
    const size_t of = key.size() + TextBytesOf(value);
    RequireTextBytes(key, of, limits);
    bytes += of;
  }
  memory_.Resize(memory_.bytes() + kMemoryOfText * static_cast<int64_t>(bytes));
}

const Json* RequestFields::Find(std::string_view key) const {
  const Json* found = object_.find(key);
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

double RequestFields::Number(std::string_view key, double otherwise, double low,
                             double high) const {
  const Json* found = Find(key);
  if (found == nullptr) return otherwise;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    ThrowBadField(key, fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

std::optional<int64_t> RequestFields::IntegerIfAny(std::string_view key, int64_t low,
                                                   int64_t high) const {
  const Json* found = Find(key);
  if (found == nullptr) return {};
  // 1.0 is an integer too; what no int64_t holds is out of any range.
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  const bool exact = found->is_number_integer() && !(found->is_number_unsigned() && value > 9e18);
  const bool whole = exact || (std::abs(value) < 9e15 && value == std::floor(value));
  const int64_t integer = exact ? found->get<int64_t>() : whole ? static_cast<int64_t>(value) : 0;
  if (!whole || integer < low || integer > high) {
    ThrowBadField(key, fmt::format("an integer from {} to {}", low, high));
  }
  return integer;
}

int64_t RequestFields::Integer(std::string_view key, int64_t otherwise, int64_t low,
                               int64_t high) const {
  return IntegerIfAny(key, low, high).value_or(otherwise);
}

}  // namespace folio
