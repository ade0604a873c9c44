#include "folio/cli/completion.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "folio/base/check.h"
#include "folio/base/strings.h"
#include "folio/io/settings.h"

namespace folio {
namespace {

// Bash cuts words at "=" and completes what is behind it.
constexpr const char* kBash = R"(_folio() {
  local IFS=$'\n' words=() word i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && [[ $word == "=" || ${words[-1]} == *= ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  COMPREPLY=($(folio __complete -- "${words[@]}" 2>/dev/null | cut -f1))
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  if [[ ${words[-1]} == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${words[-1]%=*}="}")
  fi
}
complete -o default -F _folio folio
)";

constexpr const char* kZsh = R"(#compdef folio
_folio() {
  local -a candidates
  candidates=("${(@f)$(folio __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
  if [[ -n "${candidates[1]}" ]]; then
    local -a open=("${(@M)candidates:#[^:]#=(:*|)}") whole=("${(@)candidates:#[^:]#=(:*|)}")
    ((${#open})) && _describe folio open -S ''
    ((${#whole})) && _describe folio whole
    return 0
  else
    _files
  fi
}
compdef _folio folio
)";

constexpr const char* kFish = R"(function __folio_complete
  set -l words (commandline -opc) (commandline -ct)
  folio __complete -- $words[2..] 2>/dev/null
end
complete -c folio -a '(__folio_complete)'
)";

// The key of a setting, then "=", then a value.
constexpr const char* kSet = "--set";

const Flag* FindFlag(const Flags& flags, const std::string& name) {
  std::string spelling = name;
  if (name.starts_with("--")) std::ranges::replace(spelling, '_', '-');
  for (const Flag& flag : flags.list()) {
    if (!flag.positional && (flag.name == spelling || flag.short_name == name)) return &flag;
  }
  return nullptr;
}

void AddFlagNames(const Flags& flags, const std::string& prefix, std::vector<Completion>& found) {
  for (const Flag& flag : flags.list()) {
    if (flag.positional || flag.hidden || !flag.name.starts_with(prefix)) continue;
    found.push_back({flag.name, flag.help});
  }
}

// The next words of commands whose name begins with the words of `typed`.
void AddCommandNames(const CommandLine& line, const std::string& typed, const std::string& prefix,
                     std::vector<Completion>& found) {
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.group.empty() || !entry.info.name.starts_with(typed)) continue;
    const std::vector<std::string> rest = Split(entry.info.name.substr(typed.size()), ' ');
    const bool known = std::ranges::any_of(
        found, [&](const Completion& candidate) { return candidate.word == rest.front(); });
    if (known || !rest.front().starts_with(prefix)) continue;
    found.push_back({rest.front(), rest.size() == 1 ? entry.info.summary : "more commands"});
  }
}

struct Place {
  const CommandEntry* command = nullptr;
  std::string typed;           // words of a command not yet complete: "data "
  const Flag* open = nullptr;  // the flag whose value is due
  bool more_settings = false;  // after a value of --set
};

const Flag* FlagAt(const CommandLine& line, const Place& place, const std::string& name) {
  const Flag* flag = place.command ? FindFlag(*place.command->flags, name) : nullptr;
  return flag != nullptr ? flag : FindFlag(line.global_flags(), name);
}

// Returns the place that the words before the last lead to.
Place Follow(const CommandLine& line, const std::vector<std::string>& words) {
  Place place;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.open != nullptr && place.open->optional && word.starts_with("-")) {
      place.open = nullptr;
    }
    if (place.open != nullptr) {
      place.more_settings = place.open->name == kSet;
      place.open = nullptr;
    } else if (word.starts_with("-")) {
      place.more_settings = false;
      const Flag* flag = FlagAt(line, place, word);
      if (flag != nullptr && !flag->placeholder.empty()) place.open = flag;
    } else if (place.more_settings && word.find('=') != std::string::npos) {
      continue;
    } else if (place.command == nullptr) {
      place.typed += word;
      place.command = line.Find(place.typed);
      place.typed += ' ';
    }
  }
  return place;
}

// Returns the settings of the command, or of any that has some: their keys are the same everywhere.
const Settings* SettingsOf(const CommandLine& line, const CommandEntry* command) {
  if (command != nullptr && command->flags->settings() != nullptr) {
    return command->flags->settings();
  }
  for (const CommandEntry& entry : line.commands()) {
    if (entry.flags->settings() != nullptr) return entry.flags->settings();
  }
  return nullptr;
}

// Words of `choices` that go on from `prefix`, behind `before`.
void AddChoices(const std::vector<std::string>& choices, const std::string& prefix,
                const std::string& before, std::vector<Completion>& found) {
  for (const std::string& choice : choices) {
    if (choice.starts_with(prefix)) found.push_back({before + choice, ""});
  }
}

// "train.lr=", or of a key that has choices "train.schedule=cosine".
void AddSettings(const Settings& settings, const std::string& prefix, const std::string& before,
                 std::vector<Completion>& found) {
  const size_t equals = prefix.find('=');
  for (const Field& field : settings.fields()) {
    if (equals == std::string::npos) {
      if (field.key.starts_with(prefix)) found.push_back({before + field.key + "=", field.help});
    } else if (field.key == prefix.substr(0, equals)) {
      const bool is_bool = std::holds_alternative<bool*>(field.value) ||
                           std::holds_alternative<std::optional<bool>*>(field.value);
      const std::vector<std::string> yes_or_no = {"true", "false"};
      AddChoices(is_bool                 ? yes_or_no
                 : field.choices.empty() ? field.suggestions
                                         : field.choices,
                 prefix.substr(equals + 1), before + field.key + "=", found);
    }
  }
}

// Adds the values that may follow `flag`, with `before` in front of each: "--preset=".
void AddValues(const CommandLine& line, const Place& place, const Flag& flag,
               const std::string& prefix, const std::string& before,
               std::vector<Completion>& found) {
  const Settings* const settings = SettingsOf(line, place.command);
  if (flag.name == kSet && settings != nullptr) {
    AddSettings(*settings, prefix, before, found);
  } else {
    AddChoices(flag.choices, prefix, before, found);
  }
}

}  // namespace

std::vector<Completion> Complete(const CommandLine& line, const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  const Place place = Follow(line, words);
  std::vector<Completion> found;
  const size_t equals = last.find('=');
  if (place.open != nullptr && !(place.open->optional && last.starts_with("-"))) {
    AddValues(line, place, *place.open, last, "", found);
  } else if (last.starts_with("--") && equals != std::string::npos) {
    const Flag* const flag = FlagAt(line, place, last.substr(0, equals));
    if (flag != nullptr) {
      AddValues(line, place, *flag, last.substr(equals + 1), last.substr(0, equals + 1), found);
    }
  } else if (last.starts_with("-")) {
    if (place.command != nullptr) AddFlagNames(*place.command->flags, last, found);
    AddFlagNames(line.global_flags(), last, found);
  } else if (place.command == nullptr) {
    AddCommandNames(line, place.typed, last, found);
  } else if (place.command->info.name == "help") {
    AddCommandNames(line, "", last, found);
  } else {
    for (const Flag& flag : place.command->flags->list()) {
      if (flag.positional) AddChoices(flag.choices, last, "", found);
    }
    const Settings* const settings = SettingsOf(line, place.command);
    if (place.more_settings && settings != nullptr) AddSettings(*settings, last, "", found);
  }
  return found;
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  FOLIO_CHECK(shell == "fish", "no such shell");
  return kFish;
}

}  // namespace folio
