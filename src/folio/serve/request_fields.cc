#include "folio/serve/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "folio/base/strings.h"
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

// Returns the most bytes that reading a request's JSON may take beside the text itself: a bound by
// its commas, colons and brackets. A byte of it makes up to 60 (of "[0,0,0..."), a text 2.
int64_t JsonMemory(std::string_view text) {
  // Where a vector grows, its old and its new places are there: three for each value.
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
                 fmt::format("'{}' has {} bytes of text, and at most {} are taken", name, bytes,
                             limits.text_bytes),
                 name, "text_too_long");
}

RequestFields::RequestFields(const HttpRequest& request, const AnswerLimits& limits) {
  if (request.method != "POST") {
    query_ = &request;
    return;
  }
  memory_ = {limits.memory, JsonMemory(request.body)};
  object_ = ParsedObject(request.body, limits.values);
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
  const std::string& text = field.text();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
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
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    ThrowNoInteger(what, low, high);
  }
  return value;
}

}  // namespace folio
