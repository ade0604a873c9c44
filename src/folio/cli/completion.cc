#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
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

void AddChoices(const std::vector<std::string>& choices, const std::string& before,
                std::vector<Completion>& found) {
  for (const std::string& choice : choices) found.push_back({before + choice, ""});
}

void AddFlagNames(const Flags& flags, std::vector<Completion>& found) {
  for (const Flag& flag : flags.list()) {
    if (!flag.positional) found.push_back({flag.name, flag.help});
  }
}

// The words that may follow `named` ("data") or "", each once.
void AddCommandNames(const CommandLine& line, const std::string& named,
                     std::vector<Completion>& found) {
  const std::string before = named.empty() ? "" : named + " ";
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.group.empty() || !entry.info.name.starts_with(before)) continue;
    const std::vector<std::string> rest = Split(entry.info.name.substr(before.size()), ' ');
    if (std::ranges::count(found, rest.front(), &Completion::word) > 0) continue;
    found.push_back({rest.front(), rest.size() == 1 ? entry.info.summary : "more commands"});
  }
}

// The keys of the settings, "train.lr=", or their values, "train.schedule=cosine". They are the
// same for all commands.
void AddSettings(const CommandLine& line, bool values, const std::string& before,
                 std::vector<Completion>& found) {
  const auto some = std::ranges::find_if(line.commands(), [](const CommandEntry& entry) {
    return entry.flags().settings() != nullptr;
  });
  if (some == line.commands().end()) return;
  for (const Field& field : some->flags().settings()->fields()) {
    const std::string key = before + field.key + "=";
    if (!values) {
      found.push_back({key, field.help});
    } else if (std::holds_alternative<bool*>(field.value) ||
               std::holds_alternative<std::optional<bool>*>(field.value)) {
      AddChoices({"true", "false"}, key, found);
    } else {
      AddChoices(field.choices.empty() ? field.suggestions : field.choices, key, found);
    }
  }
}

// The values that may follow `flag`, with `before` in front of each: "--preset=".
void AddValues(const CommandLine& line, const Flag& flag, const std::string& typed,
               const std::string& before, std::vector<Completion>& found) {
  if (flag.name == "--set") {
    AddSettings(line, typed.find('=', before.size()) != std::string::npos, before, found);
  } else {
    AddChoices(flag.choices, before, found);
  }
}

// All that may stand where `typed` is, and more.
std::vector<Completion> Candidates(const CommandLine& line, const Place& place,
                                   const std::string& typed) {
  std::vector<Completion> found;
  const size_t equals = typed.find('=');
  if (place.open != nullptr && !(place.open->optional && typed.starts_with("-"))) {
    AddValues(line, *place.open, typed, "", found);
  } else if (typed.starts_with("--") && equals != std::string::npos) {
    const Flag* const flag = line.FindFlag(place, typed.substr(0, equals));
    if (flag != nullptr) AddValues(line, *flag, typed, typed.substr(0, equals + 1), found);
  } else if (typed.starts_with("-")) {
    if (place.command != nullptr) AddFlagNames(place.command->flags(), found);
    AddFlagNames(line.global_flags(), found);
  } else if (place.command == nullptr) {
    if (place.positionals.empty()) AddCommandNames(line, place.named, found);
  } else if (place.named == "help") {
    AddCommandNames(line, "", found);
  } else {
    for (const Flag& flag : place.command->flags().list()) {
      if (flag.positional) AddChoices(flag.choices, "", found);
    }
    if (place.more_settings) AddSettings(line, equals != std::string::npos, "", found);
  }
  return found;
}

}  // namespace

std::vector<Completion> Complete(const CommandLine& line, const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? "" : words.back();
  Place place;
  for (size_t i = 0; i + 1 < words.size(); ++i) line.Follow(place, words[i]);
  std::vector<Completion> found = Candidates(line, place, typed);
  std::erase_if(found, [&](const Completion& one) { return !one.word.starts_with(typed); });
  return found;
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  FOLIO_CHECK(shell == "fish", "no such shell");
  return kFish;
}

}  // namespace folio
