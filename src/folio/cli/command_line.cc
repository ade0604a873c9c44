#include "folio/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

// The subcommand of `app` called `name`, made if there is none.
CLI::App* Subcommand(CLI::App* app, const std::string& name) {
  for (CLI::App* known : app->get_subcommands([&](CLI::App* a) { return a->get_name() == name; })) {
    return known;
  }
  return app->add_subcommand(name)->require_subcommand(0, 1);
}

// The key that "--n-layer" would set if it were a flag: "model.n_layer". Or "".
std::string SettingNamed(const Settings& settings, const std::string& flag) {
  std::string name = flag.substr(std::min<size_t>(2, flag.size()));
  std::ranges::replace(name, '-', '_');
  for (const Field& field : settings.fields()) {
    if (field.key.substr(field.key.find('.') + 1) == name) return field.key;
  }
  return "";
}

// "section.key=value"
bool IsSetting(const std::string& argument) {
  const size_t dot = argument.find('.'), equals = argument.find('=');
  return !argument.starts_with("-") && dot != std::string::npos && equals != std::string::npos &&
         0 < dot && dot < equals && argument.find_first_of("/ ") > equals;
}

// `--set a.b=1 c.d=2` as `--set a.b=1 --set c.d=2`.
std::vector<std::string> SetForEach(const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  bool setting = false;  // the last argument was a value of --set
  for (const std::string& argument : arguments) {
    if (setting && IsSetting(argument)) all.push_back("--set");
    const bool value = !all.empty() && all.back() == "--set";
    all.push_back(argument);
    setting = value || argument.starts_with("--set=");
  }
  return all;
}

}  // namespace

CommandLine::CommandLine(std::vector<std::unique_ptr<Command>> commands)
    : root_(std::make_unique<CLI::App>()) {
  root_->set_help_flag();
  root_->allow_extras();
  root_->fallthrough();
  root_->require_subcommand(0, 1);
  AddGlobalFlags();
  for (auto& command : commands) AddCommand(std::move(command));
}

CommandLine::~CommandLine() = default;

void CommandLine::AddGlobalFlags() {
  global_flags_ = std::make_unique<Flags>(root_.get());
  Flags& flags = *global_flags_;
  flags.Group("global");
  flags.Switch("-h", &globals_.short_help, "short help");
  flags.Switch("--help", &globals_.full_help, "full help: all flags, defaults, examples");
  flags.Switch("-V,--version", &globals_.version, "print the version");
  flags.Count("-q,--quiet", &globals_.quiet, "errors only on stderr; -qq: not even these");
  flags.Count("-v,--verbose", &globals_.verbose, "more messages on stderr");
  flags.Value(Field{"color", &globals_.color, "colored text; auto: on a terminal"}.Choices(
      {"auto", "always", "never"}));
  flags.Value(Field{"progress", &globals_.progress, "how progress is shown on stderr"}.Choices(
      {"auto", "bar", "plain", "json", "none"}));
  flags.Switch("--json", &globals_.json, "results and errors as JSON");
  flags.Value(Field{"config", &globals_.config, "settings from this TOML file"},
              {.placeholder = "FILE"});
  flags.Switch("--no-config", &globals_.no_config, "do not look for folio.toml and config.toml");
  flags.List("--set", &globals_.sets, "settings; more KEY=VALUE may follow",
             {.placeholder = "KEY=VALUE"});
}

void CommandLine::AddCommand(std::unique_ptr<Command> command) {
  CommandEntry entry;
  entry.info = command->info();
  CLI::App* app = root_.get();
  for (const std::string& word : Split(entry.info.name, ' ')) app = Subcommand(app, word);
  entry.flags = std::make_unique<Flags>(app);
  command->AddFlags(*entry.flags);
  entry.command = std::move(command);
  commands_.push_back(std::move(entry));
}

// Returns whether the word behind `argument` is its value, in some command.
bool CommandLine::TakesValue(const std::string& argument) const {
  if (argument.empty()) return false;
  const auto takes = [&](const Flags& flags) {
    return std::ranges::any_of(flags.list(), [&](const Flag& flag) {
      return !flag.placeholder.empty() && !flag.optional && !flag.positional &&
             (flag.name == argument || flag.short_name == argument);
    });
  };
  return takes(*global_flags_) || std::ranges::any_of(commands_, [&](const CommandEntry& entry) {
           return takes(*entry.flags);
         });
}

// The index of the "--" after which everything is positional, or the number of arguments. A "--"
// that is the value of a flag does not count.
std::ptrdiff_t CommandLine::PositionalMark(const std::vector<std::string>& arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--" && (i == 0 || !TakesValue(arguments[i - 1]))) {
      return static_cast<std::ptrdiff_t>(i);
    }
  }
  return static_cast<std::ptrdiff_t>(arguments.size());
}

CommandEntry* CommandLine::Parse(const std::vector<std::string>& given) {
  const std::vector<std::string> arguments = SetForEach(given);
  const auto end = arguments.begin() + PositionalMark(arguments);
  std::vector<std::string> trailing(end == arguments.end() ? end : end + 1, arguments.end());
  try {
    root_->parse(std::vector<std::string>(std::make_reverse_iterator(end), arguments.rend()));
  } catch (const CLI::ArgumentMismatch&) {
    // Only the last argument can lack its value: a value is whatever follows its flag.
    throw UsageError(fmt::format("flag '{}' needs a value", *(end - 1)), {},
                     "write the value after the flag");
  }
  global_flags_->Take("folio");
  std::string name;
  for (const CLI::App* app = root_.get(); !app->get_subcommands().empty();) {
    app = app->get_subcommands().front();
    name += (name.empty() ? "" : " ") + app->get_name();
  }
  CommandEntry* found = nullptr;
  for (CommandEntry& entry : commands_) {
    if (entry.info.name == name) found = &entry;
  }
  group_ = found == nullptr ? name : "";
  if (!globals_.short_help && !globals_.full_help) {
    RejectSingleDashes({arguments.begin(), end}, found);
    RejectExtras(root_->remaining(true), found);
  }
  if (found != nullptr) found->flags->SetTrailing(std::move(trailing));
  return found;
}

const CommandEntry* CommandLine::Find(const std::string& name) const {
  const auto found =
      std::ranges::find(commands_, name, [](const CommandEntry& entry) { return entry.info.name; });
  return found == commands_.end() ? nullptr : &*found;
}

bool CommandLine::HasGroup(const std::string& group) const {
  return std::ranges::any_of(commands_, [&](const CommandEntry& entry) {
    return entry.info.name.starts_with(group + " ");
  });
}

void CommandLine::RejectExtras(const std::vector<std::string>& extras,
                               const CommandEntry* entry) const {
  // A flag that is unknown leaves its value behind too: the flag is the mistake.
  for (const std::string& extra : extras) {
    if (extra.size() > 1 && extra.starts_with("-")) {
      if (entry == nullptr && extra != extras.front()) break;  // first the unknown command
      ThrowUnknownFlag(extra.substr(0, extra.find('=')), entry);
    }
  }
  if (extras.empty()) return;
  const std::string& extra = extras.front();
  if (entry == nullptr) ThrowUnknownCommand(group_.empty() ? extra : group_ + " " + extra);
  const std::string meant = entry->flags->Meant(extras);
  throw UsageError(fmt::format("unexpected argument '{}'", extra), {},
                   meant.empty()
                       ? fmt::format("folio {} --help shows what it takes", entry->info.name)
                       : fmt::format("did you mean {}?", meant));
}

// A long name behind one dash would be read as short ones: "-model" as "-m odel".
void CommandLine::RejectSingleDashes(const std::vector<std::string>& arguments,
                                     const CommandEntry* entry) const {
  const std::vector<std::string> names = LongNames(entry);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') continue;
    if (i > 0 && TakesValue(arguments[i - 1])) continue;
    std::string name = "-" + argument.substr(0, argument.find('='));
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(names, name) == names.end()) continue;
    throw UsageError(fmt::format("unknown flag '{}'", name.substr(1)), {},
                     fmt::format("did you mean '{}', with two dashes?", name));
  }
}

std::vector<std::string> CommandLine::LongNames(const CommandEntry* entry) const {
  std::vector<std::string> names;
  if (entry != nullptr) {
    for (const Flag& known : entry->flags->list()) {
      if (known.positional || known.hidden) continue;
      names.push_back(known.name);
      names.insert(names.end(), known.aliases.begin(), known.aliases.end());
    }
  }
  for (const Flag& known : global_flags_->list()) names.push_back(known.name);
  return names;
}

void CommandLine::ThrowUnknownFlag(const std::string& flag, const CommandEntry* entry) const {
  const std::string command = entry == nullptr ? "folio" : "folio " + entry->info.name;
  std::string spelling = flag;
  std::ranges::replace(spelling, '_', '-');
  // Short names are all near each other, so that none is suggested.
  const std::string nearest = flag.starts_with("--") ? Nearest(spelling, LongNames(entry)) : "";
  std::string help = fmt::format("{} --help lists its flags", command);
  if (!nearest.empty()) {
    help = fmt::format("did you mean '{}'?", nearest);
  } else if (entry != nullptr && entry->flags->settings() != nullptr) {
    const std::string key = SettingNamed(*entry->flags->settings(), spelling);
    if (!key.empty()) help = fmt::format("it is a setting: --set {}=VALUE", key);
  }
  throw UsageError(fmt::format("unknown flag '{}'", flag), {}, help);
}

std::string CommandLine::CommandAbout(const std::string& name) const {
  const size_t space = name.rfind(' ');
  const std::string group = space == std::string::npos ? "" : name.substr(0, space + 1);
  std::string word = name.substr(group.size());
  if (word.ends_with('s')) word.pop_back();
  constexpr size_t kShortest = 4;  // shorter ones are part of many
  std::string about;
  for (const CommandEntry& entry : commands_) {
    if (entry.info.group.empty() || !entry.info.name.starts_with(group)) continue;
    for (const std::string& said : Split(entry.info.summary, ' ')) {
      if (word.size() < kShortest || (said != word && said != word + "s")) continue;
      if (!about.empty() && about != entry.info.name) return "";  // of several none is meant
      about = entry.info.name;
    }
  }
  return about;
}

std::vector<std::string> CommandLine::WordsAfter(const std::string& group) const {
  std::vector<std::string> words;
  for (const CommandEntry& entry : commands_) {
    if (entry.info.group.empty() || !entry.info.name.starts_with(group)) continue;
    const std::string rest = entry.info.name.substr(group.size());
    const std::string word = rest.substr(0, rest.find(' '));
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

void CommandLine::ThrowUnknownCommand(const std::string& name) const {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands_) {
    if (entry.info.group.empty()) continue;
    names.push_back(entry.info.name);
    const std::string first = entry.info.name.substr(0, entry.info.name.find(' '));
    if (first != entry.info.name) names.push_back(first);
  }
  std::string nearest = Nearest(name, names);
  // A short word is near every other, so that none is suggested.
  if (std::cmp_greater_equal(2 * EditDistance(name, nearest), name.size())) nearest.clear();
  if (nearest.empty()) nearest = CommandAbout(name);
  if (!nearest.empty()) {
    throw UsageError(fmt::format("unknown command '{}'", name), {},
                     fmt::format("did you mean 'folio {}'?", nearest));
  }
  const size_t space = name.find(' ');
  const std::string group = space == std::string::npos ? "" : name.substr(0, space + 1);
  throw UsageError(fmt::format("unknown command '{}'", name),
                   fmt::format("folio {}has {}", group, Join(WordsAfter(group), ", ")),
                   fmt::format("folio {}--help says what each does",
                               HasGroup(name.substr(0, space)) ? group : ""));
}

}  // namespace folio
