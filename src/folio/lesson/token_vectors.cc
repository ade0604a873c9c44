#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/lesson/step_values.h"
#include "folio/lesson/topics.h"

namespace folio {
namespace {

constexpr int64_t kMaxTokens = 64, kMaxNumbers = 256;

[[noreturn]] void Refuse(const std::string& where, const std::string& found) {
  throw InputError(fmt::format("{}: no vectors", where), found,
                   "write a line of numbers for each token, with a label in front if you like, or "
                   "a JSON array of arrays of numbers");
}

bool ParseNumber(std::string_view text, float& number) {
  const auto [at, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && at == text.data() + text.size() && std::isfinite(number);
}

// The parts of a line between spaces, tabs and commas.
std::vector<std::string_view> Fields(std::string_view line) {
  constexpr std::string_view kBetween = " \t\r,";
  std::vector<std::string_view> fields;
  while (true) {
    const size_t begin = line.find_first_not_of(kBetween);
    if (begin == line.npos) return fields;
    line.remove_prefix(begin);
    fields.push_back(line.substr(0, line.find_first_of(kBetween)));
    line.remove_prefix(fields.back().size());
  }
}

// Rows of one length, one after the other.
class VectorRows {
 public:
  // `label` may be empty.
  void Add(const std::string& where, std::string_view label, const std::vector<float>& row) {
    if (row.empty()) Refuse(where, "a token without numbers");
    const auto count = std::ssize(row);
    if (length_ == 0) length_ = count;
    if (count != length_) {
      Refuse(where, fmt::format("expected {} numbers, as before, found {}", length_, count));
    }
    if (count > kMaxNumbers) {
      Refuse(where, fmt::format("{} numbers, at most {} can be shown", count, kMaxNumbers));
    }
    if (vectors_.T() == kMaxTokens) {
      Refuse(where, fmt::format("at most {} tokens can be shown", kMaxTokens));
    }
    vectors_.labels.emplace_back(label.empty() ? fmt::format("t{}", vectors_.T()) : label);
    vectors_.numbers.insert(vectors_.numbers.end(), row.begin(), row.end());
  }
  TokenVectors Take(const std::string& where) {
    if (vectors_.labels.empty()) Refuse(where, "nothing is in it");
    return std::move(vectors_);
  }

 private:
  TokenVectors vectors_;
  int64_t length_ = 0;
};

TokenVectors FromJson(std::string_view text, const std::string& where) {
  VectorRows rows;
  for (const Json& row : ParseJson(text, where)) {
    if (!row.is_array()) Refuse(where, "expected arrays of numbers, found " + row.dump());
    std::vector<float> numbers;
    for (const Json& number : row) {
      const float value = number.is_number() ? static_cast<float>(number.get<double>()) : NAN;
      if (!std::isfinite(value)) Refuse(where, "expected a number, found " + number.dump());
      numbers.push_back(value);
    }
    rows.Add(where, "", numbers);
  }
  return rows.Take(where);
}

TokenVectors FromLines(std::string_view text, const std::string& file) {
  VectorRows rows;
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string where = fmt::format("{}:{}", file, number);
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::vector<std::string_view> fields = Fields(line);
    if (fields.empty()) continue;
    float value = 0;
    const std::string_view label = ParseNumber(fields[0], value) ? "" : fields[0];
    if (!label.empty()) fields.erase(fields.begin());
    std::vector<float> row;
    for (const std::string_view field : fields) {
      if (!ParseNumber(field, value)) Refuse(where, fmt::format("'{}' is no number", field));
      row.push_back(value);
    }
    rows.Add(where, label, row);
  }
  return rows.Take(file);
}

}  // namespace

TokenVectors ReadTokenVectors(const std::filesystem::path& file) {
  const std::string text = ReadFile(file, int64_t{1} << 20);
  if (FindInvalidUtf8(text) != std::string::npos) Refuse(file.string(), "it is not UTF-8");
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && text[first] == '[';
  return json ? FromJson(text, file.string()) : FromLines(text, file.string());
}

}  // namespace folio
