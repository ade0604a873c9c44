#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <variant>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/settings.h"

namespace folio {
namespace {

std::string Position(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

template <class... T>
bool HoldsAny(const Field& field) {
  return (std::holds_alternative<T>(field.value) || ...);
}

bool IsText(const Field& field) {
  return HoldsAny<std::string*>(field);
}

// The value as SetField takes it. Throws if its TOML type is not the field's.
std::string ValueText(const Field& field, const toml::node& node, const std::string& where) {
  using OptionalBool = std::optional<bool>*;
  using OptionalInt = std::optional<int64_t>*;
  if (node.is_boolean() && TakesTruth(field)) {
    return node.ref<bool>() ? "true" : "false";
  }
  if (node.is_integer() && HoldsAny<int64_t*, OptionalInt, double*>(field)) {
    return fmt::format("{}", node.ref<int64_t>());
  }
  if (node.is_floating_point() && HoldsAny<double*>(field)) {
    return fmt::format("{}", node.ref<double>());
  }
  if (node.is_string()) {
    const std::string& text = node.ref<std::string>();
    if (IsText(field) || (text == "null" && HoldsAny<OptionalBool, OptionalInt>(field))) {
      return text;
    }
  }
  std::ostringstream kind;
  kind << node.type();
  throw UsageError(fmt::format("{}: wrong type for {}", where, field.key),
                   fmt::format("expected {}, found a TOML {}", FieldType(field), kind.str()),
                   fmt::format("{}: {}", field.key, field.help));
}

std::string TomlString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

void Settings::ReadTomlFile(Layer layer, const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  ReadToml(layer, ReadFile(path, kMaxBytes), path.string());
}

void Settings::ReadToml(Layer layer, const std::string& text, const std::string& file_name) {
  toml::table root;
  try {
    root = toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}: not valid TOML", Position(file_name, error.source())),
                     std::string(error.description()), "lines are key = value under a [section]");
  }
  std::vector<std::string> sections;
  for (const Field& field : fields_) {
    const std::string section = field.key.substr(0, field.key.find('.'));
    if (sections.empty() || section != sections.back()) sections.push_back(section);
  }
  for (const auto& [section_key, section] : root) {
    const std::string section_name(section_key.str());
    const std::string section_where = Position(file_name, section_key.source());
    if (!section.is_table()) {  // "train.seed" in quotes, or a key outside its section
      const Field& field = fields_[IndexOf(section_name, section_where)];
      Set(layer, section_name, ValueText(field, section, section_where), section_where);
      continue;
    }
    if (std::ranges::find(sections, section_name) == sections.end()) {
      const std::string nearest = Nearest(section_name, sections);
      throw UsageError(fmt::format("{}: unknown section [{}]", section_where, section_name), {},
                       nearest.empty() ? "the sections are " + Join(sections, ", ")
                                       : fmt::format("did you mean [{}]?", nearest));
    }
    for (const auto& [key, node] : *section.as_table()) {
      const std::string full = section_name + "." + std::string(key.str());
      const Field& field = fields_[IndexOf(full, Position(file_name, key.source()), true)];
      const std::string where = Position(file_name, node.source());
      Set(layer, full, ValueText(field, node, where), where);
    }
  }
}

std::string Settings::ToToml() const {
  std::string text, section;
  for (const Field& field : fields_) {
    const size_t dot = field.key.find('.');
    if (field.key.substr(0, dot) != section) {
      section = field.key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    const std::string value = FieldText(field);
    const bool truth = TakesTruth(field) && (value == "true" || value == "false");
    const bool quoted = (IsText(field) && !truth) || value == "null";
    text += fmt::format("# {} ({})\n{} = {}\n", field.help, FieldType(field),
                        field.key.substr(dot + 1), quoted ? TomlString(value) : value);
  }
  return text;
}

}  // namespace folio
