#include "folio/serve/page_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "folio/base/strings.h"
#include "folio/serve/api_error.h"
#include "folio/serve/request_fields.h"

namespace folio {

int64_t IntegerIn(std::string_view text, const std::string& what, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    ThrowBadField(what, fmt::format("an integer from {} to {}", low, high));
  }
  return value;
}

std::optional<int64_t> PageQuery::IntegerIfAny(const std::string& key, int64_t low,
                                               int64_t high) const {
  const std::string text = Text(key);
  if (text.empty()) return {};
  return IntegerIn(text, key, low, high);
}

int64_t PageQuery::Integer(const std::string& key, int64_t otherwise, int64_t low,
                           int64_t high) const {
  return IntegerIfAny(key, low, high).value_or(otherwise);
}

int64_t PageQuery::Required(const std::string& key, int64_t low, int64_t high) const {
  return IntegerIn(Text(key), key, low, high);
}

std::optional<double> PageQuery::NumberIfAny(const std::string& key) const {
  const std::string text = Text(key);
  if (text.empty()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    ThrowBadField(key, "a number");
  }
  return value;
}

std::vector<int64_t> PageQuery::Integers(const std::string& key, int64_t low, int64_t high,
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

}  // namespace folio
