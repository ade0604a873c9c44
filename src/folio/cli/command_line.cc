#include "folio/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

// The key that "--n-layer" would set if it were a flag: "model.n_layer". Or "".
std::string SettingNamed(const Settings& settings, const std::string& flag) {
  std::string name = flag.substr(std::min<size_t>(2, flag.size()));
  std::ranges::replace(name, '-', '_');
  for (const Field& field : settings.fields()) {
    if (field.key.substr(field.key.find('.') + 1) == name) return field.key;
  }
  return "";
}

constexpr char kSetFlag[] = "--set";

// "section.key=value"
bool IsSetting(const std::string& argument) {
  const size_t dot = argument.find('.'), equals = argument.find('=');
  return !argument.starts_with("-") && dot != std::string::npos && equals != std::string::npos &&
         0 < dot && dot < equals && argument.find_first_of("/ ") > equals;
}

// Negative numbers are none.
bool LooksLikeFlag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

bool TakesValue(const Flag& flag) {
  return !flag.placeholder.empty();
}

// The value of a switch that was given as `name`, with `value` behind it or "".
std::string SwitchValue(const Flag& flag, const std::string& name, const std::string& value) {
  const bool opposite = WithDashes(name) == flag.opposite;
  if (value.empty() || value == "true") return opposite ? "false" : "true";
  return opposite && value == "false" ? "true" : value;
}

}  // namespace

CommandLine::CommandLine(CommandList commands) : global_flags_(std::make_unique<Flags>()) {
  Flags& flags = *global_flags_;
  flags.Group("flags of every command");
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
  for (auto& command : commands) commands_.emplace_back(std::move(command));
}

Flag* CommandLine::FindFlag(const Place& place, const std::string& name) const {
  Flag* const own = place.command == nullptr ? nullptr : place.command->flags().Find(name);
  return own != nullptr ? own : global_flags_->Find(name);
}

void CommandLine::FollowFlag(Place& place, const std::string& word) const {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  Flag* const flag = FindFlag(place, name.starts_with("--") ? name : "-" + name);
  if (name.starts_with("--") && flag != nullptr) {
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    flag->given.push_back(TakesValue(*flag) ? value : SwitchValue(*flag, name, value));
    if (TakesValue(*flag) && equals == std::string::npos) place.open = flag;
    place.more_settings = flag->name == kSetFlag;
  } else if (name.starts_with("--") || (flag != nullptr && name.size() > 2)) {
    // A long name behind one dash would be read as short ones: "-model" as "-m odel".
    place.unknown.push_back(name);
  } else {
    FollowShortFlags(place, word);
  }
}

// "-vvq", "-o" or "-oFILE".
void CommandLine::FollowShortFlags(Place& place, const std::string& word) const {
  for (size_t i = 1; i < word.size(); ++i) {
    Flag* const flag = FindFlag(place, {'-', word[i]});
    if (flag == nullptr) return place.unknown.push_back("-" + word.substr(i));
    flag->given.push_back(TakesValue(*flag) ? word.substr(i + 1) : "true");
    if (!TakesValue(*flag)) continue;
    if (i + 1 == word.size()) place.open = flag;
    return;
  }
}

void CommandLine::Follow(Place& place, const std::string& word) const {
  Flag* const open = std::exchange(place.open, nullptr);
  const bool more_settings = std::exchange(place.more_settings, false);
  const std::string name = place.named + (place.named.empty() ? "" : " ") + word;
  if (open != nullptr && !(open->optional && word.starts_with("-"))) {
    open->given.back() = word;
    place.more_settings = open->name == kSetFlag;
  } else if (!place.only_positionals && word == "--") {
    place.only_positionals = true;
  } else if (!place.only_positionals && LooksLikeFlag(word)) {
    FollowFlag(place, word);
  } else if (more_settings && IsSetting(word)) {
    global_flags_->Find(kSetFlag)->given.push_back(word);
    place.more_settings = true;
  } else if (place.command == nullptr && place.positionals.empty() &&
             (Find(name) != nullptr || HasGroup(name))) {
    place.command = Find(name);
    place.named = name;
  } else {
    place.positionals.push_back(word);
  }
}

Place CommandLine::Parse(const std::vector<std::string>& arguments) {
  Place place;
  bool unknown_command = false;
  for (const std::string& argument : arguments) {
    Follow(place, argument);
    // Of what stands before an unknown command a flag is the mistake, of what follows it none is.
    unknown_command = unknown_command || (place.command == nullptr && place.unknown.empty() &&
                                          !place.positionals.empty());
  }
  if (place.open != nullptr && !place.open->optional) {
    throw UsageError(fmt::format("flag '{}' needs a value", arguments.back()), {},
                     "write the value after the flag");
  }
  global_flags_->Take("folio", {});
  if (globals_.short_help || globals_.full_help) return place;
  if (unknown_command) {
    ThrowUnknownCommand(place.named + (place.named.empty() ? "" : " ") + place.positionals.front());
  }
  if (!place.unknown.empty()) ThrowUnknownFlag(place.unknown.front(), place);
  return place;
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

void CommandLine::ThrowUnknownFlag(const std::string& given, const Place& place) const {
  const std::string what = fmt::format("unknown flag '{}'", given);
  if (!given.starts_with("--") && FindFlag(place, "-" + given) != nullptr) {
    throw UsageError(what, {}, fmt::format("did you mean '-{}', with two dashes?", given));
  }
  std::vector<std::string> names;
  const auto add = [&](const Flags& flags) {
    for (const Flag& known : flags.list()) {
      if (known.positional) continue;
      names.push_back(known.name);
      names.insert(names.end(), known.aliases.begin(), known.aliases.end());
    }
  };
  if (place.command != nullptr) add(place.command->flags());
  add(*global_flags_);
  const std::string spelling = WithDashes(given);
  // Short names are all near each other, so that none is suggested.
  const std::string nearest = given.starts_with("--") ? Nearest(spelling, names) : "";
  const Settings* const settings = place.command ? place.command->flags().settings() : nullptr;
  const std::string key = settings ? SettingNamed(*settings, spelling) : "";
  throw UsageError(what, {},
                   !nearest.empty() ? fmt::format("did you mean '{}'?", nearest)
                   : !key.empty()   ? fmt::format("it is a setting: --set {}=VALUE", key)
                   : place.command  ? fmt::format("folio {} --help lists its flags", place.named)
                                    : "folio --help lists its flags");
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
