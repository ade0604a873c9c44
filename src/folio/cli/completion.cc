#include "folio/cli/completion.h"

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

constexpr const char* kBash = R"(_folio() {
  local IFS=$'\n'
  COMPREPLY=($(folio __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _folio folio
)";

constexpr const char* kZsh = R"(#compdef folio
_folio() {
  local -a candidates
  candidates=("${(@f)$(folio __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
  if [[ -n "${candidates[1]}" ]]; then
    _describe folio candidates
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
};

// Where the words before the last lead.
Place Follow(const CommandLine& line, const std::vector<std::string>& words) {
  Place place;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.open != nullptr) {
      place.open = nullptr;
    } else if (word.starts_with("-")) {
      const Flag* flag = place.command ? FindFlag(*place.command->flags, word) : nullptr;
      if (flag == nullptr) flag = FindFlag(line.global_flags(), word);
      if (flag != nullptr && !flag->placeholder.empty()) place.open = flag;
    } else if (place.command == nullptr) {
      place.typed += word;
      place.command = line.Find(place.typed);
      place.typed += ' ';
    }
  }
  return place;
}

}  // namespace

std::vector<Completion> Complete(const CommandLine& line, const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  const Place place = Follow(line, words);
  std::vector<Completion> found;
  if (place.open != nullptr) {
    for (const std::string& choice : place.open->choices) {
      if (choice.starts_with(last)) found.push_back({choice, ""});
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
      if (!flag.positional) continue;
      for (const std::string& choice : flag.choices) {
        if (choice.starts_with(last)) found.push_back({choice, ""});
      }
    }
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
