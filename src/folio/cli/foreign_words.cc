#include "folio/cli/foreign_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/cli/foreign_tables.h"
#include "folio/io/settings.h"

namespace folio {
namespace {

bool Holds(std::string_view words, std::string_view word) {
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

// "convert_hf_to_gguf.py" as "convert-hf-to-gguf", "Run" as "run".
std::string Normal(std::string_view given) {
  std::string word = LowerAscii(given);
  std::ranges::replace(word, '_', '-');
  if (word.ends_with(".py")) word.resize(word.size() - 3);
  return word;
}

// The form in the table: a long flag without its dashes.
std::string WordOf(const std::string& given) {
  return given.starts_with("--") ? Normal(given.substr(2)) : given;
}

bool IsSettingKey(std::string_view name) {
  return name.find('.') != std::string_view::npos;
}

// Returns true if the command has the flag, or the key as a setting.
bool Has(const CommandEntry& entry, std::string_view name) {
  if (!IsSettingKey(name)) return entry.flags().Find(std::string(name)) != nullptr;
  const Settings* settings = entry.flags().settings();
  return settings != nullptr && std::ranges::any_of(settings->fields(), [&](const Field& field) {
           return field.key == name;
         });
}

std::string Spelled(std::string_view name) {
  return IsSettingKey(name) ? fmt::format("--set {}=VALUE", name) : std::string(name);
}

// The first commands that have it, as text: "folio generate, folio chat".
std::string CommandsWith(const CommandLine& line, std::string_view name) {
  constexpr size_t kMost = 3;
  std::vector<std::string> with;
  for (const CommandEntry& entry : line.commands()) {
    const bool shows = entry.info.group.empty() || entry.info.name == "config show";
    if (!shows && Has(entry, name)) with.push_back("folio " + entry.info.name);
  }
  if (with.size() > kMost) with.resize(kMost);
  return Join(with, ", ");
}

}  // namespace

std::string HelpForForeignCommand(const CommandLine& line, const std::string& name) {
  const std::string word = Normal(name.substr(name.rfind(' ') + 1));
  for (const ForeignCommand& row : kForeignCommands) {
    if (Holds(row.words, word) && line.Find(std::string(row.command)) != nullptr) {
      return std::string(row.help);
    }
  }
  return "";
}

std::string HelpForForeignFlag(const CommandLine& line, const Place& place,
                               const std::string& given) {
  const std::string word = WordOf(given);
  std::string elsewhere;
  for (const ForeignFlag& row : kForeignFlags) {
    if (!Holds(row.words, word)) continue;
    const bool global = line.FindFlag({}, std::string(row.leads_to)) != nullptr;
    if (row.leads_to.empty()) {
      return std::string(row.help);
    } else if (global || (place.command != nullptr && Has(*place.command, row.leads_to))) {
      return fmt::format("did you mean '{}'?{}{}", Spelled(row.leads_to),
                         row.help.empty() ? "" : " ", row.help);
    } else if (elsewhere.empty()) {
      const std::string commands = CommandsWith(line, row.leads_to);
      if (commands.empty()) continue;
      elsewhere = fmt::format("'{}' is a flag of {}", Spelled(row.leads_to), commands);
    }
  }
  if (!elsewhere.empty()) return elsewhere;
  const std::string commands = CommandsWith(line, WithDashes(given));
  return commands.empty() ? "" : fmt::format("it is a flag of {}", commands);
}

bool IsForeignShortFlag(std::string_view word) {
  return word.size() > 2 && word[0] == '-' && word[1] != '-' &&
         std::ranges::any_of(kForeignFlags,
                             [&](const ForeignFlag& row) { return Holds(row.words, word); });
}

}  // namespace folio
