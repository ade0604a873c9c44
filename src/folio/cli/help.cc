#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
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

// The width of help, in columns, is not more than is read well.
int64_t WidthOf(const Terminal& terminal) {
  return std::clamp(terminal.width, 20, 100);
}

// `text` with the lines that are too long broken at spaces, what follows farther right.
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

// Paragraphs as they were written where that fits, else filled anew.
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

// A command line, in several that the shell takes for one if it is too long: never cut between
// quotation marks. A remark behind it comes first then.
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

// Two columns; a first column that is too wide has its line alone, as all have on narrow terminals.
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

std::string Heading(const Terminal& terminal, std::string_view title) {
  return fmt::format("\n{}\n", Styled(terminal, Style::kBold, title));
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

Rows FlagRows(const Flags& flags, const std::string& group, bool settings, bool full) {
  Rows rows;
  for (const Flag& flag : flags.list()) {
    if (flag.hidden || flag.setting != settings || flag.group != group) continue;
    rows.emplace_back(FlagName(flag), FlagHelp(flag, full));
  }
  return rows;
}

// Headings of the flags in order of appearance.
std::vector<std::pair<std::string, bool>> FlagGroups(const Flags& flags) {
  std::vector<std::pair<std::string, bool>> groups;
  for (const Flag& flag : flags.list()) {
    const std::pair group{flag.group, flag.setting};
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

std::string Usage(const CommandEntry& entry) {
  std::string usage = "folio " + entry.info.name;
  bool has_flags = false;
  for (const Flag& flag : entry.flags->list()) {
    if (flag.hidden || flag.positional) continue;
    if (flag.required) {
      usage += fmt::format(" {} {}", flag.name, flag.placeholder);
    } else {
      has_flags = true;
    }
  }
  if (has_flags) usage += " [FLAGS]";
  for (const Flag& flag : entry.flags->list()) {
    if (!flag.positional) continue;
    const bool many = flag.many;
    const std::string name = flag.name + (many ? "..." : "");
    usage += flag.required ? " " + name : " [" + name + "]";
  }
  return usage;
}

Rows CommandRows(const CommandLine& line, const std::string& title) {
  Rows rows;
  for (const CommandEntry& entry : line.commands()) {
    if (entry.info.group == title) rows.emplace_back(entry.info.name, entry.info.summary);
  }
  return rows;
}

}  // namespace

std::string ProgramHelp(const CommandLine& line, const Terminal& terminal) {
  constexpr int kNames = 11;  // where the names of commands begin
  const int width = std::max(terminal.width, 20);
  std::string text =
      "folio trains GPT models and writes with them: folio COMMAND [FLAGS]\n"
      "  folio train --data input.txt --out runs/first\n"
      "  folio generate --model runs/first --prompt \"Once upon a time\"\n"
      "  folio data stories --out stories.txt\n\n";
  for (const std::string& title : GroupTitles(line)) {
    // "data prepare, info": the first word once for those that share it.
    std::vector<std::string> names;
    std::string shared;
    for (const auto& [name, summary] : CommandRows(line, title)) {
      const size_t space = name.find(' ');
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

std::string FullProgramHelp(const CommandLine& line, const Terminal& terminal) {
  std::string text =
      Fitted("folio trains GPT models and writes with them.\n\nusage: folio COMMAND [FLAGS]\n",
             WidthOf(terminal));
  for (const std::string& title : GroupTitles(line)) {
    text += Heading(terminal, title) + Table(CommandRows(line, title), terminal);
  }
  text += Heading(terminal, "flags of every command") +
          Table(FlagRows(line.global_flags(), "global", false, true), terminal);
  return text + "\n" +
         Paragraphs(
             "exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 missing or corrupt\n"
             "input, 4 out of memory or no such device, 5 training diverged, 129, 130 and 143 "
             "stopped "
             "by\n"
             "SIGHUP, SIGINT and SIGTERM",
             WidthOf(terminal)) +
         "\n";
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
  bool has_settings = false;
  for (const auto& [group, setting] : FlagGroups(*entry.flags)) {
    has_settings = has_settings || setting;
    const Rows rows = FlagRows(*entry.flags, group, setting, full);
    if (rows.empty()) continue;
    const std::string title = group.empty() ? "flags" : group;
    text += Heading(terminal, title);
    text += Table(rows, terminal);
  }
  if (full) {
    if (has_settings) {
      text += "\n" +
              Paragraphs(
                  "Every key that folio config show lists can be set: --set train.eps=1e-7, the\n"
                  "environment (FOLIO_TRAIN_EPS), or a TOML file ([train] eps = 1e-7).",
                  width) +
              "\n";
    }
    text += Heading(terminal, "flags of every command") +
            Table(FlagRows(line.global_flags(), "global", false, true), terminal);
    if (!entry.info.examples.empty()) {
      text += Heading(terminal, "examples");
      for (const std::string& example : entry.info.examples) text += Example(example, width);
    }
  } else {
    text += Fitted(fmt::format("\nfolio {} --help tells more\n", entry.info.name), width);
  }
  return text;
}

}  // namespace folio
