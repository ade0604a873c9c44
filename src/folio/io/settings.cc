#include "folio/io/settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <variant>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"

namespace folio {
namespace {

std::string SectionOf(const std::string& key) {
  return key.substr(0, key.find('.'));
}

std::vector<std::string> Sections(const std::vector<Field>& fields) {
  std::vector<std::string> sections;
  for (const Field& field : fields) {
    const std::string section = SectionOf(field.key);
    if (sections.empty() || sections.back() != section) sections.push_back(section);
  }
  return sections;
}

// The known key that was probably meant, or "". A key may also be given by its flag: "train.lr".
std::string NearestKey(const std::vector<Field>& fields, const std::string& key) {
  const std::string section = SectionOf(key);
  std::vector<std::string> names;
  for (const Field& field : fields) {
    if (SectionOf(field.key) != section) continue;
    std::string flag = field.flag.substr(std::min<size_t>(2, field.flag.size()));
    std::ranges::replace(flag, '-', '_');
    if (section + "." + flag == key) return field.key;
    names.push_back(field.key.substr(section.size() + 1));
  }
  if (!names.empty()) {
    const size_t dot = std::min(key.size(), section.size() + 1);
    const std::string nearest = Nearest(key.substr(dot), names);
    return nearest.empty() ? "" : section + "." + nearest;
  }
  for (const Field& field : fields) {  // the section was omitted
    if (field.key.substr(field.key.find('.') + 1) == key) return field.key;
  }
  const std::string nearest = Nearest(section, Sections(fields));
  return nearest.empty() ? "" : nearest + key.substr(section.size());
}

std::string KnownKeys(const std::vector<Field>& fields, const std::string& section) {
  std::vector<std::string> names;
  for (const Field& field : fields) {
    if (SectionOf(field.key) == section) names.push_back(field.key);
  }
  if (names.empty()) return "the sections are " + Join(Sections(fields), ", ");
  return "available keys: " + Join(names, ", ");
}

std::optional<std::filesystem::path> UserFile(const std::vector<std::string>& environment) {
  std::string home, config;
  for (const std::string& entry : environment) {
    if (entry.starts_with("HOME=")) home = entry.substr(5);
    if (entry.starts_with("XDG_CONFIG_HOME=")) config = entry.substr(16);
  }
  if (config.empty() && home.empty()) return std::nullopt;
  const std::filesystem::path base =
      config.empty() ? std::filesystem::path(home) / ".config" : std::filesystem::path(config);
  const std::filesystem::path file = base / "folio" / "config.toml";
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? std::optional(file) : std::nullopt;
}

std::optional<std::filesystem::path> ProjectFile(std::filesystem::path directory) {
  while (!directory.empty()) {
    const std::filesystem::path file = directory / "folio.toml";
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return file;
    if (directory == directory.parent_path()) break;
    directory = directory.parent_path();
  }
  return std::nullopt;
}

std::string Position(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

template <class... T>
bool HoldsAny(const Field& field) {
  return (std::holds_alternative<T>(field.value) || ...);
}

// The value as text for SetField. Throws if its TOML type is not the field's.
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

// "FOLIO_TRAIN_SEED" for "train.seed".
std::string EnvironmentName(const std::string& key) {
  std::string name = "FOLIO_" + key;
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '.' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

}  // namespace

Settings::Settings(std::vector<Field> fields) : fields_(std::move(fields)) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    entries_.push_back({Layer::kBuiltIn, i, FieldText(fields_[i]), "built-in"});
  }
}

size_t Settings::IndexOf(const std::string& key, const std::string& origin, bool in_section) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].key == key) return i;
  }
  const size_t shown = in_section ? SectionOf(key).size() + 1 : 0;
  const std::string nearest = NearestKey(fields_, key);
  if (nearest.empty()) {
    throw UsageError(fmt::format("{}: unknown key '{}'", origin, key.substr(shown)), {},
                     KnownKeys(fields_, SectionOf(key)));
  }
  throw UsageError(fmt::format("{}: unknown key '{}', did you mean '{}'?", origin,
                               key.substr(shown), nearest.substr(shown)));
}

void Settings::Set(Layer layer, const std::string& key, const std::string& text,
                   const std::string& origin) {
  entries_.push_back({layer, IndexOf(key, origin), text, origin});
}

void Settings::UsePreset(const std::string& name,
                         std::span<const std::pair<std::string, std::string>> values) {
  for (const auto& [key, text] : values) Set(Layer::kPreset, key, text, "preset " + name);
}

void Settings::ReadEnvironment(std::span<const std::string> environment) {
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(EnvironmentName(field.key));
  const std::vector<std::string> sections = Sections(fields_);
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals + 1 == entry.size()) continue;
    const std::string name = entry.substr(0, equals);
    const bool ours = std::ranges::any_of(sections, [&](const std::string& section) {
      return name.starts_with(EnvironmentName(section) + "_");
    });
    if (!ours) continue;
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      const std::string nearest = Nearest(name, names);
      throw UsageError(fmt::format("unknown environment variable {}", name), {},
                       nearest.empty() ? "folio config show lists all keys; unset the variable"
                                       : fmt::format("did you mean {}?", nearest));
    }
    Set(Layer::kEnvironment, fields_[static_cast<size_t>(found - names.begin())].key,
        entry.substr(equals + 1), name);
  }
}

void Settings::ReadSources(const ConfigSources& sources) {
  if (!sources.file.empty()) {
    RequireTyped(sources.file);
    ReadTomlFile(Layer::kFile, sources.file);
  } else if (sources.discover) {
    if (const auto file = UserFile(sources.environment)) ReadTomlFile(Layer::kUserFile, *file);
    if (const auto file = ProjectFile(sources.directory)) {
      ReadTomlFile(Layer::kProjectFile, *file);
    }
  }
  ReadEnvironment(sources.environment);
  for (const std::string& set : sources.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--set: '{}' is not key=value", set), {},
                       "for example --set train.learning_rate=3e-4");
    }
    Set(Layer::kSet, set.substr(0, equals), set.substr(equals + 1), "--set");
  }
}

void Settings::Resolve() {
  std::ranges::stable_sort(entries_, {}, &Entry::layer);
  winners_.resize(fields_.size());
  for (const Entry& entry : entries_) {
    SetField(fields_[entry.field], entry.text, entry.origin);
    winners_[entry.field] = entry;
  }
}

const Settings::Entry& Settings::Winner(const std::string& key) const {
  FOLIO_CHECK(winners_.size() == fields_.size(), "Settings::Resolve was not called");
  return winners_[IndexOf(key, "Settings")];
}

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
  const std::vector<std::string> sections = Sections(fields_);
  for (const auto& [section_key, section] : root) {
    const std::string section_name(section_key.str());
    const std::string section_where = Position(file_name, section_key.source());
    if (!section.is_table()) {  // "train.seed" in quotes, or a key outside of its section
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
