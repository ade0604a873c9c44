#include "folio/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>  // for the digits of doubles alone
#include <type_traits>

#include "folio/io/json_writer.h"

namespace folio {
namespace {

// A value as an error shows it: its text, or the beginning of that.
std::string ForError(const Json& value) {
  constexpr size_t kMost = 200;
  std::string text = value.dump();
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while ((text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

Json::Json(std::nullptr_t) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}

Json::Json(std::initializer_list<Json> values) {
  const bool is_object = std::ranges::all_of(values, [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  if (!is_object) {
    value_ = Array(values);
    return;
  }
  Object& members = value_.emplace<Object>();
  members.reserve(values.size());
  for (const Json& value : values) members.push_back({value[0].text(), value[1]});
}

Json Json::array() {
  return array({});
}

Json Json::array(std::initializer_list<Json> values) {
  Json json;
  json.value_ = Array(values);
  return json;
}

Json Json::object() {
  Json json;
  json.value_.emplace<Object>();
  return json;
}

void Json::SetInteger(uint64_t bits, bool is_signed) {
  if (is_signed) {
    value_ = static_cast<int64_t>(bits);
  } else {
    value_ = bits;
  }
}

Json::Json(const Json& other) {
  *this = other;
}
Json::Json(Json&&) noexcept = default;
// The copy is whole before it takes its place, so that the value is as it was where memory does not
// suffice. std::variant's own copy would be left with an alternative that is not there (GCC 12).
Json& Json::operator=(const Json& other) {
  std::visit(
      [this]<class T>(const T& value) {
        static_assert(std::is_nothrow_move_constructible_v<T>);
        T copy = value;
        value_.template emplace<T>(std::move(copy));
      },
      other.value_);
  return *this;
}
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

bool Json::is_number_integer() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}

bool Json::is_number_unsigned() const {
  const int64_t* small = std::get_if<int64_t>(&value_);
  return small != nullptr ? *small >= 0 : std::holds_alternative<uint64_t>(value_);
}

const std::string& Json::text() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  throw JsonError(fmt::format("expected a string, found {}", ForError(*this)));
}

template <class T>
T Json::get() const {
  const int64_t* small = std::get_if<int64_t>(&value_);
  const uint64_t* large = std::get_if<uint64_t>(&value_);
  if constexpr (std::same_as<T, std::string>) {
    return text();
  } else if constexpr (std::same_as<T, bool>) {
    if (const bool* value = std::get_if<bool>(&value_)) return *value;
    throw JsonError(fmt::format("expected true or false, found {}", ForError(*this)));
  } else if constexpr (std::same_as<T, double>) {
    if (const double* value = std::get_if<double>(&value_)) return *value;
    if (small != nullptr) return static_cast<double>(*small);
    if (large != nullptr) return static_cast<double>(*large);
    throw JsonError(fmt::format("expected a number, found {}", ForError(*this)));
  } else {
    if (small != nullptr && std::in_range<T>(*small)) return static_cast<T>(*small);
    if (large != nullptr && std::in_range<T>(*large)) return static_cast<T>(*large);
    throw JsonError(
        fmt::format("expected an integer of {} bits, found {}", 8 * sizeof(T), ForError(*this)));
  }
}
template bool Json::get() const;
template int32_t Json::get() const;
template uint32_t Json::get() const;
template int64_t Json::get() const;
template uint64_t Json::get() const;
template double Json::get() const;
template std::string Json::get() const;

size_t Json::size() const {
  return is_array() ? std::get<Array>(value_).size() : is_object() ? items().size() : 0;
}

const Json* Json::begin() const {
  if (const Array* values = std::get_if<Array>(&value_)) return values->data();
  throw JsonError(fmt::format("expected an array, found {}", ForError(*this)));
}

const Json* Json::end() const {
  return begin() + size();
}

const Json& Json::at(size_t index) const {
  if (is_array() && index < size()) return begin()[index];
  throw JsonError(fmt::format("expected an array of more than {} values", index));
}

void Json::push_back(Json value) {
  if (is_null()) *this = array();
  std::get<Array>(value_).push_back(std::move(value));
}

const Json::Object& Json::items() const {
  if (const Object* members = std::get_if<Object>(&value_)) return *members;
  throw JsonError(fmt::format("expected an object, found {}", ForError(*this)));
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(items(), key, &Member::key);
  return found == items().end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  throw JsonError(fmt::format("there is no \"{}\"", key));
}

Json& Json::operator[](std::string_view key) {
  if (const Json* value = find(key)) return const_cast<Json&>(*value);
  return Add(std::string(key), nullptr);
}

Json& Json::Add(std::string key, Json value) {
  if (is_null()) *this = object();
  Object& members = std::get<Object>(value_);
  members.push_back({std::move(key), std::move(value)});
  return members.back().value;
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

bool operator==(const Json& a, const Json& b) {
  const bool mixed = a.is_number() && b.is_number() && a.value_.index() != b.value_.index();
  return mixed ? a.get<double>() == b.get<double>() : a.value_ == b.value_;
}

void Json::AppendTo(std::string& out, int indent, int depth) const {
  const auto new_line = [&](int levels) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent) * static_cast<size_t>(levels), ' ');
  };
  if (is_null()) out += "null";
  if (const bool* value = std::get_if<bool>(&value_)) out += *value ? "true" : "false";
  if (const int64_t* value = std::get_if<int64_t>(&value_)) out += std::to_string(*value);
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) out += std::to_string(*value);
  // Its digits are not always the fewest that give the double back; files keep them.
  if (const double* value = std::get_if<double>(&value_)) out += nlohmann::json(*value).dump();
  if (const std::string* value = std::get_if<std::string>(&value_)) AppendJsonString(*value, out);
  if (!is_array() && !is_object()) return;
  const char* brackets = is_array() ? "[]" : "{}";
  out += brackets[0];
  for (size_t i = 0; i < size(); ++i) {
    if (i > 0) out += ',';
    new_line(depth + 1);
    if (is_object()) {
      AppendJsonString(items()[i].key, out);
      out += indent < 0 ? ":" : ": ";
    }
    (is_array() ? at(i) : items()[i].value).AppendTo(out, indent, depth + 1);
  }
  if (!empty()) new_line(depth);
  out += brackets[1];
}

std::string Json::dump(int indent) const {
  std::string out;
  AppendTo(out, indent, 0);
  return out;
}

}  // namespace folio
