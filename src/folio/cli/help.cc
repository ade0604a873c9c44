#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/io/settings.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> GroupTitles(const CommandLine& line) {
  std::vector<std::string> titles;
  for (const CommandEntry& entry : line.commands()) {
    const std::string& group = entry.info.group;
    if (!group.empty() && std::ranges::find(titles, group) == titles.end()) titles.push_back(group);
  }
  return titles;
}

// The width of help in columns is limited for readability.
int64_t WidthOf(const Terminal& terminal) {
  return std::clamp(terminal.width, 20, 100);
}

// `text` with lines that are too long broken at spaces; the continuation is indented more.
std::string Fitted(const std::string& text, int64_t width) {
  std::vector<std::string> fitted;
  for (const std::string& line : Split(text, '\n')) {
    const auto indent = static_cast<int64_t>(std::min(line.find_first_not_of(' '), line.size()));
    const std::string first(static_cast<size_t>(indent), ' '), next = "\n" + first + "    ";
    fitted.push_back(DisplayWidth(line) <= width
                         ? line
                         : first + Join(WrapLines(line, width - indent - 4), next));
  }
  return Join(fitted, "\n");
}

// Paragraphs unchanged if they fit, else refilled.
std::string Paragraphs(const std::string& text, int64_t width) {
  std::vector<std::string> fitted;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\n\n", at), text.size());
    std::string paragraph = text.substr(at, end - at);
    const std::vector<std::string> lines = Split(paragraph, '\n');
    if (std::ranges::any_of(lines, [&](const auto& line) { return DisplayWidth(line) > width; })) {
      paragraph = Join(WrapLines(Join(lines, " "), width), "\n");
    }
    fitted.push_back(std::move(paragraph));
    at = end + 2;
  }
  return Join(fitted, "\n\n");
}

// A command line, continued over several lines if it is too long: never broken between quotation
// marks. A remark behind it then comes first.
std::string Example(const std::string& example, int64_t width) {
  constexpr size_t kIndent = 2, kNext = 6;
  if (std::cmp_less_equal(example.size() + kIndent, width)) return "  " + example + "\n";
  const size_t remark = example.find(" # ");
  std::string text, line = std::string(kIndent, ' '), word;
  if (remark != std::string::npos) text = "  " + example.substr(remark + 1) + "\n";
  const auto add_word = [&] {
    if (word.empty()) return;
    if (line.back() != ' ' && std::cmp_greater(line.size() + 1 + word.size() + 2, width)) {
      text += line + " \\\n";
      line = std::string(kNext, ' ');
    }
    line += (line.back() == ' ' ? "" : " ") + std::exchange(word, "");
  };
  char quote = 0;
  for (const char c : example.substr(0, remark)) {
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    }
    if (c == ' ' && quote == 0) {
      add_word();
    } else {
      word += c;
    }
  }
  add_word();
  return text + line + "\n";
}

// Two columns; a first column that is too wide gets a line of its own, as on narrow terminals.
std::string Table(const Rows& rows, const Terminal& terminal) {
  constexpr size_t kWidest = 30, kNarrow = 60, kNarrowIndent = 6;
  const auto width = static_cast<size_t>(WidthOf(terminal));
  if (width < kNarrow) {
    std::string text;
    const std::string indent(kNarrowIndent, ' ');
    for (const auto& [name, help] : rows) {
      text += Fitted("  " + name, WidthOf(terminal)) + "\n";
      for (const std::string& line : WrapLines(help, WidthOf(terminal) - std::ssize(indent))) {
        text += indent + line + "\n";
      }
    }
    return text;
  }
  size_t left = 0;
  for (const auto& [name, help] : rows) {
    if (name.size() <= kWidest) left = std::max(left, name.size());
  }
  const std::string indent = "\n" + std::string(left + 4, ' ');
  std::string text;
  for (const auto& [name, help] : rows) {
    const bool alone = name.size() > left;
    text += fmt::format("  {}{:{}}{}\n", name, alone ? "\n" : "",
                        alone ? left + 5 : left + 2 - name.size(),
                        Join(WrapLines(help, static_cast<int64_t>(width - left - 4)), indent));
  }
  return text;
}

std::string Section(const Terminal& terminal, std::string_view title, const std::string& text) {
  return fmt::format("\n{}\n{}", Styled(terminal, Style::kBold, title), text);
}

std::string FlagName(const Flag& flag) {
  std::string name = flag.name;
  if (!flag.short_name.empty() && flag.short_name != flag.name) {
    name = flag.short_name + ", " + name;
  }
  return flag.placeholder.empty() || flag.positional ? name : name + " " + flag.placeholder;
}

std::string FlagHelp(const Flag& flag, bool full) {
  std::string help = flag.help;
  const bool choices_shown = flag.placeholder.find('|') != std::string::npos;
  if (full && flag.choices.size() > 1 && !choices_shown) help += ": " + Join(flag.choices, ", ");
  if (flag.required) help += " (required)";
  if (full && !flag.initial.empty() && flag.initial != "false" && flag.initial != "0") {
    help += fmt::format(" [{}]", flag.initial);
  }
  return help;
}

// The flags under the headings of their groups, in the order of declaration.
std::string FlagSections(const Flags& flags, bool full, const Terminal& terminal) {
  std::vector<std::pair<std::string, Rows>> groups;
  for (const Flag& flag : flags.list()) {
    auto group = std::ranges::find(groups, flag.group, &std::pair<std::string, Rows>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {flag.group, {}});
    group->second.emplace_back(FlagName(flag), FlagHelp(flag, full));
  }
  std::string text;
  for (const auto& [group, rows] : groups) {
    text += Section(terminal, group.empty() ? "flags" : group, Table(rows, terminal));
  }
  return text;
}

std::string Usage(const CommandEntry& entry) {
  std::string required, positionals;
  bool has_flags = false;
  for (const Flag& flag : entry.flags().list()) {
    if (flag.positional || !flag.position.empty()) {
      const std::string name =
          (flag.positional ? flag.name : flag.position) + (flag.many ? "..." : "");
      has_flags = has_flags || !flag.positional;
      positionals += flag.required ? " " + name : " [" + name + "]";
    } else if (flag.required) {
      required += fmt::format(" {} {}", flag.name, flag.placeholder);
    } else {
      has_flags = true;
    }
  }
  return "folio " + entry.info.name + required + (has_flags ? " [FLAGS]" : "") + positionals;
}

Rows CommandRows(const CommandLine& line, const std::string& title) {
  Rows rows;
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.group == title) rows.emplace_back(entry.info.name, entry.info.summary);
  }
  return rows;
}

// The twelve lines that `folio` alone prints.
std::string ProgramHelp(const CommandLine& line, const Terminal& terminal) {
  constexpr int kNames = 11;  // the column of command names
  const int width = std::max(terminal.width, 20);
  std::string text =
      "folio trains and runs language models: folio COMMAND [FLAGS]\n"
      "  folio train --data input.txt --out runs/first\n"
      "  folio generate --model runs/first --prompt \"Once upon a time\"\n"
      "  folio data stories --out stories.txt\n\n";
  for (const std::string& title : GroupTitles(line)) {
    // "data prepare, info": a common first word is written once.
    std::vector<std::string> names;
    std::string shared;
    for (const auto& [name, summary] : CommandRows(line, title)) {
      const size_t space = name.find(' ');
      // A subcommand is listed in the help of its command.
      if (space != std::string::npos && line.Find(name.substr(0, space)) != nullptr) continue;
      const std::string first = space == std::string::npos ? "" : name.substr(0, space + 1);
      const bool again = !first.empty() && first == shared;
      names.push_back(again ? name.substr(space + 1) : name);
      shared = first;
    }
    const std::vector<std::string> lines = WrapLines(Join(names, ", "), width - kNames);
    text += fmt::format("{:<{}}{}\n", title, kNames, Join(lines, "\n" + std::string(kNames, ' ')));
  }
  text += "folio COMMAND --help explains a command, folio --help lists them all.\n";
  return Fitted(text, width);
}

constexpr const char* kExitStatuses =
    "0 success, 1 failure, 2 wrong usage or configuration, 3 missing or damaged input, 4 out of "
    "memory, 5 training diverged, 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM";

// All commands by group, then the global flags.
std::string FullProgramHelp(const CommandLine& line, const Terminal& terminal) {
  std::string text = Fitted(
      "folio trains and runs language models on the CPU; there is no GPU support yet.\n\n"
      "usage: folio COMMAND [FLAGS]\n",
      WidthOf(terminal));
  for (const std::string& title : GroupTitles(line)) {
    text += Section(terminal, title, Table(CommandRows(line, title), terminal));
  }
  return text + FlagSections(line.global_flags(), /*full=*/true, terminal) + "\n" +
         Paragraphs("exit status: " + std::string(kExitStatuses), WidthOf(terminal)) + "\n";
}

std::string GroupHelp(const CommandLine& line, const std::string& group, const Terminal& terminal) {
  Rows rows;
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.name.starts_with(group + " ")) {
      rows.emplace_back("folio " + entry.info.name, entry.info.summary);
    }
  }
  return Fitted(fmt::format("usage: folio {} COMMAND [FLAGS]\n\n", group), WidthOf(terminal)) +
         Table(rows, terminal);
}

std::string CommandHelp(const CommandLine& line, const CommandEntry& entry, bool full,
                        const Terminal& terminal) {
  const int64_t width = WidthOf(terminal);
  std::string text = fmt::format("{}\n\n{}\n", Paragraphs(entry.info.summary, width),
                                 Fitted("usage: " + Usage(entry), width));
  if (full && !entry.info.details.empty()) {
    text += "\n" + Paragraphs(entry.info.details, width) + "\n";
  }
  text += FlagSections(entry.flags(), full, terminal);
  if (!full) {
    return text + Fitted(fmt::format("\nfolio {} --help tells more\n", entry.info.name), width);
  }
  if (std::ranges::any_of(entry.flags().list(), &Flag::setting)) {
    text += "\n" +
            Paragraphs(
                "Every key that folio config show lists can be set: --set train.eps=1e-7, the\n"
                "environment (FOLIO_TRAIN_EPS), or a TOML file ([train] eps = 1e-7).",
                width) +
            "\n";
  }
  text += FlagSections(line.global_flags(), full, terminal);
  std::string examples;
  for (const std::string& example : entry.info.examples) examples += Example(example, width);
  return examples.empty() ? text : text + Section(terminal, "examples", examples);
}

}  // namespace

std::string Help(const CommandLine& line, const std::string& name, bool full,
                 const Terminal& terminal) {
  if (name.empty()) return full ? FullProgramHelp(line, terminal) : ProgramHelp(line, terminal);
  if (const CommandEntry* entry = line.Find(name)) return CommandHelp(line, *entry, full, terminal);
  if (!line.HasGroup(name)) line.ThrowUnknownCommand(name);
  return GroupHelp(line, name, terminal);
}

// --- man pages

namespace {

// A line of text for roff, with requests and escapes quoted.
std::string Roff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Paragraphs, filled by man except those with indented lines.
std::string RoffParagraphs(const std::string& text) {
  std::string page;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\n\n", at), text.size());
    const std::vector<std::string> lines = Split(text.substr(at, end - at), '\n');
    const bool as_is =
        std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with(' '); });
    page += as_is ? ".PP\n.nf\n" : ".PP\n";
    for (const std::string& line : lines) page += Roff(line) + "\n";
    if (as_is) page += ".fi\n";
    at = end + 2;
  }
  return page;
}

std::string RoffFlags(const Flags& flags) {
  std::string page, group;
  for (const Flag& flag : flags.list()) {
    if (flag.group != group) {
      group = flag.group;
      page += fmt::format(".SS {}\n", Roff(group.empty() ? "more" : group));
    }
    page +=
        fmt::format(".TP\n.B {}\n{}\n", Roff(FlagName(flag)), Roff(FlagHelp(flag, /*full=*/true)));
  }
  return page;
}

std::string RoffHead(const std::string& name, const std::string& version,
                     const std::string& summary, const std::string& usage) {
  return fmt::format(
      ".TH {} 1 \"\" \"folio {}\" \"folio\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", name,
      version, Roff(name), Roff(summary), Roff(usage));
}

std::string ManPageOf(const CommandLine& line, const CommandEntry& entry, const std::string& name,
                      const std::string& version) {
  std::string page = RoffHead(name, version, entry.info.summary, Usage(entry));
  if (!entry.info.details.empty()) {
    page += ".SH DESCRIPTION\n" + RoffParagraphs(entry.info.details);
  }
  page += ".SH OPTIONS\n" + RoffFlags(entry.flags());
  page += ".SH GLOBAL OPTIONS\n" + RoffFlags(line.global_flags());
  std::string examples;
  for (const std::string& example : entry.info.examples) examples += Roff(example) + "\n";
  if (!examples.empty()) page += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
  return page + ".SH SEE ALSO\n.BR folio (1)\n";
}

std::string ProgramManPage(const CommandLine& line, const std::string& version) {
  std::string page = RoffHead("folio", version, "train language models and write with them",
                              "folio COMMAND [FLAGS]");
  page += ".SH COMMANDS\n";
  for (const std::string& title : GroupTitles(line)) {
    page += fmt::format(".SS {}\n", Roff(title));
    for (const auto& [name, summary] : CommandRows(line, title)) {
      page += fmt::format(".TP\n.B {}\n{}\n", Roff("folio " + name), Roff(summary));
    }
  }
  return page + ".SH GLOBAL OPTIONS\n" + RoffFlags(line.global_flags()) + ".SH EXIT STATUS\n" +
         RoffParagraphs(kExitStatuses) + ".SH SEE ALSO\nEach command has a page: " +
         "folio\\-train(1), folio\\-data\\-prepare(1).\n";
}

}  // namespace

std::vector<ManPage> ManPages(const CommandLine& line, const std::string& version) {
  std::vector<ManPage> pages = {{"folio.1", ProgramManPage(line, version)}};
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.group.empty()) continue;
    std::string name = "folio-" + entry.info.name;
    std::ranges::replace(name, ' ', '-');
    pages.push_back({name + ".1", ManPageOf(line, entry, name, version)});
  }
  return pages;
}

// --- completion

namespace {

// Bash splits words at "=" and completes the part behind it.
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
[[ ${funcstack[1]} != _folio ]] || _folio
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

// Adds the words that may follow `named` ("data") or "".
void AddCommandNames(const CommandLine& line, const std::string& named,
                     std::vector<Completion>& found) {
  const std::string before = named.empty() ? "" : named + " ";
  for (const std::string& word : line.WordsAfter(before)) {
    const CommandEntry* const entry = line.Find(before + word);
    found.push_back({word, entry != nullptr ? entry->info.summary : "more commands"});
  }
}

// Adds the keys of the settings, "train.lr=", or their values, "train.schedule=cosine". They are
// the same for all commands.
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

// Adds the values that may follow `flag`, each prefixed with `before`: "--preset=".
void AddValues(const CommandLine& line, const Flag& flag, const std::string& typed,
               const std::string& before, std::vector<Completion>& found) {
  if (flag.name == "--set") {
    AddSettings(line, typed.find('=', before.size()) != std::string::npos, before, found);
  } else {
    AddChoices(flag.choices, before, found);
  }
}

// All that may stand in place of `typed`, and more.
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
