#include "folio/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <variant>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/foreign_words.h"

namespace folio {
namespace {

std::string Placeholder(const Field& field, const FlagShape& shape) {
  if (!shape.placeholder.empty()) return shape.placeholder;
  if (!field.choices.empty()) return Join(field.choices, "|");
  if (IsText(field)) return "TEXT";
  return std::holds_alternative<double*>(field.value) ? "X" : "N";
}

std::vector<std::string> ShownChoices(const Field& field) {
  return field.choices.empty() ? field.suggestions : field.choices;
}

// ",--learning-rate" for a field train.learning_rate with the flag --lr. A key of one word is too
// vague without its section, and gets no flag.
std::string KeyAlias(const Field& field) {
  const std::string name = field.key.substr(field.key.find('.') + 1);
  const std::string flag = "--" + WithDashes(name);
  return name.find('_') == std::string::npos || flag == field.flag ? "" : "," + flag;
}

// Sets the field to the last value given; errors name the flag `name`.
std::function<void(const std::vector<std::string>&)> Setter(Field field, const std::string& name) {
  field.key = name;
  return
      [field](const std::vector<std::string>& given) { SetField(field, given.back(), field.key); };
}

// The key that "--n-layer" would set if it were a flag: "model.n_layer". Else "".
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

// Negative numbers do not.
bool LooksLikeFlag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

bool TakesValue(const Flag& flag) {
  return !flag.placeholder.empty();
}

// The value of a switch given as `name`, with `value` behind it or "".
std::string SwitchValue(const Flag& flag, const std::string& name, const std::string& value) {
  const bool opposite = WithDashes(name) == flag.opposite;
  if (value.empty() || value == "true") return opposite ? "false" : "true";
  return opposite && value == "false" ? "true" : value;
}

}  // namespace

Flag& Flags::Add(const std::string& names, const std::string& help, const FlagShape& shape) {
  Flag flag;
  for (const std::string& name : Split(names, ',')) {
    if (name.starts_with("-") && !name.starts_with("--")) {
      flag.short_name = name;
    } else if (flag.name.empty()) {
      flag.name = name;
    } else {
      flag.aliases.push_back(name);
    }
  }
  if (flag.name.empty()) std::swap(flag.name, flag.short_name);
  flag.positional = !flag.name.starts_with("-");
  flag.group = group_;
  flag.help = help;
  flag.placeholder = shape.placeholder;
  flag.required = shape.required;
  flag.choices = shape.suggestions;
  flag.meant = shape.meant;
  flag.position = shape.position;
  flag.fits = shape.fits;
  return flags_.emplace_back(std::move(flag));
}

// The flag of a field, a switch with its opposite for a bool; `aliases` begin with commas.
Flag& Flags::AddField(const Field& field, const std::string& aliases, FlagShape shape) {
  const bool is_switch = std::holds_alternative<bool*>(field.value);
  if (!is_switch) shape.placeholder = Placeholder(field, shape);
  Flag& flag = Add(field.flag + aliases, field.help, shape);
  if (is_switch) flag.opposite = "--no-" + flag.name.substr(2);
  flag.initial = FieldText(field);
  flag.choices = ShownChoices(field);
  return flag;
}

void Flags::Value(Field field, const FlagShape& shape) {
  if (field.flag.empty()) field.flag = "--" + field.key;
  Flag& flag = AddField(field, "", shape);
  if (shape.required || flag.initial == "null") flag.initial.clear();
  flag.take = Setter(field, flag.name);
}

void Flags::Switch(const std::string& names, bool* target, const std::string& help) {
  Flag& flag = Add(names, help, {});
  flag.take = Setter({flag.name, target, help}, flag.name);
}

void Flags::SwitchOr(const std::string& names, std::string* target, const std::string& help,
                     const std::vector<std::string>& words) {
  Flag& flag = Add(names, help, {.placeholder = "[" + Join(words, "|") + "]"});
  flag.optional = true;
  flag.choices = words;
  flag.take = [target, words, name = flag.name](const std::vector<std::string>& given) {
    if (given.back().empty()) {
      *target = "yes";
    } else {
      SetField(Field{name, target, ""}.Choices(words), given.back(), name);
    }
  };
}

void Flags::Count(const std::string& names, int64_t* target, const std::string& help) {
  Add(names, help, {}).take = [target](const std::vector<std::string>& given) {
    *target = static_cast<int64_t>(given.size());
  };
}

void Flags::List(const std::string& names, std::vector<std::string>* target,
                 const std::string& help, const FlagShape& shape) {
  Add(names, help, shape).take = [target](const std::vector<std::string>& given) {
    *target = given;
  };
}

void Flags::Positional(const Field& field, const FlagShape& shape) {
  Flag& flag = Add(field.key, field.help, shape);
  flag.choices = ShownChoices(field);
  flag.take = Setter(field, field.key);
}

void Flags::Positionals(const std::string& name, std::vector<std::string>* target,
                        const std::string& help, const FlagShape& shape) {
  Flag& flag = Add(name, help, shape);
  flag.many = true;
  flag.take = [target](const std::vector<std::string>& given) { *target = given; };
}

void Flags::Settings(folio::Settings* settings, const std::vector<std::string>& sections) {
  for (const Field& field : settings->fields()) {
    const std::string section = field.key.substr(0, field.key.find('.'));
    if (field.flag.empty() || std::ranges::find(sections, section) == sections.end()) continue;
    group_ = section;
    Flag& flag = AddField(field, KeyAlias(field), {});
    flag.setting = true;
    flag.take = [settings, key = field.key,
                 name = flag.name](const std::vector<std::string>& given) {
      settings->Set(Layer::kFlag, key, given.back(), name);
    };
  }
  group_.clear();
  settings_ = settings;
}

Flag* Flags::Find(const std::string& name) {
  const std::string spelling = WithDashes(name);
  const auto found = std::ranges::find_if(flags_, [&](const Flag& flag) {
    return !flag.positional &&
           (flag.name == spelling || flag.short_name == spelling || flag.opposite == spelling ||
            std::ranges::count(flag.aliases, spelling) > 0);
  });
  return found == flags_.end() ? nullptr : &*found;
}

// The flags that were probably meant by `extras`, arguments that nothing takes: "--data a.txt". ""
// if no flag fits.
std::string Flags::Meant(const std::vector<std::string>& extras) const {
  const auto flag =
      std::ranges::find_if(flags_, [](const Flag& one) { return one.meant.has_value(); });
  if (flag == flags_.end()) return "";
  std::vector<std::string> words = extras;
  if (!flag->meant->empty()) {
    // One value of several words begins with the words that the flag, or a positional, has taken.
    words = flag->given;
    for (const Flag& other : flags_) {
      const bool mistaken = other.stood && other.fits != nullptr && !other.fits(other.given[0]);
      if (other.positional || mistaken) {
        words.insert(words.end(), other.given.begin(), other.given.end());
      }
    }
    words.insert(words.end(), extras.begin(), extras.end());
    words = {Join(words, *flag->meant)};
  }
  std::vector<std::string> meant;
  for (const std::string& word : words) meant.push_back(flag->name + " " + ShellWord(word));
  return Join(meant, " ");
}

void Flags::Take(const std::string& command, const std::vector<std::string>& positionals) {
  auto next = positionals.begin();
  for (Flag& flag : flags_) {
    const bool stands = flag.positional || (!flag.position.empty() && flag.given.empty());
    if (!stands || next == positionals.end()) continue;
    const auto end = flag.many ? positionals.end() : next + 1;
    flag.given.assign(next, end);
    flag.stood = !flag.positional;
    next = end;
  }
  if (next != positionals.end()) {
    const std::string meant = Meant({next, positionals.end()});
    const auto said = std::ranges::find_if(
        flags_, [](const Flag& flag) { return !flag.position.empty() && !flag.given.empty(); });
    throw UsageError(fmt::format("unexpected argument '{}'", *next),
                     said == flags_.end() || !meant.empty()
                         ? ""
                         : fmt::format("{} is already '{}'", said->name, said->given.back()),
                     meant.empty() ? fmt::format("{} --help shows its arguments", command)
                                   : fmt::format("did you mean {}?", meant));
  }
  for (const Flag& flag : flags_) {
    if (!flag.given.empty()) {
      flag.take(flag.given);
    } else if (flag.required) {
      const std::string by_flag = fmt::format("{} {}", flag.name, flag.placeholder);
      const std::string shown = flag.positional         ? flag.name
                                : flag.position.empty() ? by_flag
                                                        : flag.position + " (or " + by_flag + ")";
      throw UsageError(fmt::format("{} needs {}", command, shown), flag.help,
                       fmt::format("{} --help explains it", command));
    }
  }
}

std::string WithDashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

void RefuseTogether(bool both, const std::string& one, const std::string& other) {
  if (both)
    throw UsageError(one + " and " + other + " cannot be used together", {}, "remove one of them");
}

CommandLine::CommandLine(CommandList commands) : global_flags_(std::make_unique<Flags>()) {
  Flags& flags = *global_flags_;
  flags.Group("flags of every command");
  flags.Switch("-h", &globals_.short_help, "short help");
  flags.Switch("--help", &globals_.full_help, "full help: all flags, defaults, examples");
  flags.Switch("-V,--version", &globals_.version, "print the version");
  flags.Count("-q,--quiet", &globals_.quiet, "only errors on stderr; -qq: nothing");
  flags.Count("-v,--verbose", &globals_.verbose, "more messages on stderr");
  flags.Value(Field{"color", &globals_.color, "colored text; auto: on a terminal"}.Choices(
      {"auto", "always", "never"}));
  flags.Value(Field{"progress", &globals_.progress, "how progress is shown on stderr"}.Choices(
      {"auto", "bar", "plain", "json", "none"}));
  flags.Switch("--json", &globals_.json, "print results and errors as JSON");
  flags.Value(Field{"config", &globals_.config, "settings from this TOML file"},
              {.placeholder = "FILE"});
  flags.Switch("--no-config", &globals_.no_config, "do not read folio.toml and config.toml");
  flags.List("--set", &globals_.sets, "set KEY to VALUE; more KEY=VALUE may follow",
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
  } else if (name.starts_with("--") || (flag != nullptr && name.size() > 2) ||
             IsForeignShortFlag(name)) {
    // A long name after one dash would be read as short flags: "-model" as "-m odel".
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
  const bool just_named = std::exchange(place.just_named, false);
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
  } else if (place.command != nullptr
                 ? just_named && Find(name) != nullptr
                 : place.positionals.empty() && (Find(name) != nullptr || HasGroup(name))) {
    place.command = Find(name);
    place.named = name;
    place.just_named = true;
  } else {
    place.positionals.push_back(word);
  }
}

Place CommandLine::Parse(const std::vector<std::string>& arguments) {
  Place place;
  bool unknown_command = false;
  for (const std::string& argument : arguments) {
    Follow(place, argument);
    // Before an unknown command a flag is the mistake; behind it the command is.
    unknown_command = unknown_command || (place.command == nullptr && place.unknown.empty() &&
                                          !place.positionals.empty());
  }
  if (place.open != nullptr && !place.open->optional) {
    throw UsageError(fmt::format("flag '{}' requires a value", arguments.back()), {},
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
  if (const std::string help = HelpForForeignFlag(*this, place, given); !help.empty()) {
    throw UsageError(what, {}, help);
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
  // Short names are all similar, so none is suggested.
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
  constexpr size_t kShortest = 4;  // shorter words are part of many
  std::string about;
  for (const CommandEntry& entry : commands_) {
    if (entry.info.group.empty() || !entry.info.name.starts_with(group)) continue;
    for (const std::string& said : Split(entry.info.summary, ' ')) {
      if (word.size() < kShortest || (said != word && said != word + "s")) continue;
      if (!about.empty() && about != entry.info.name) return "";  // ambiguous
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
  const std::string what = fmt::format("unknown command '{}'", name);
  if (const std::string help = HelpForForeignCommand(*this, name); !help.empty()) {
    throw UsageError(what, {}, help);
  }
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands_) {
    if (entry.info.group.empty()) continue;
    names.push_back(entry.info.name);
    const std::string first = entry.info.name.substr(0, entry.info.name.find(' '));
    if (first != entry.info.name) names.push_back(first);
  }
  std::string nearest = Nearest(name, names);
  // A short word is similar to every other, so none is suggested.
  if (std::cmp_greater_equal(2 * EditDistance(name, nearest), name.size())) nearest.clear();
  if (nearest.empty()) nearest = CommandAbout(name);
  if (!nearest.empty()) {
    throw UsageError(what, {}, fmt::format("did you mean 'folio {}'?", nearest));
  }
  const size_t space = name.find(' ');
  const std::string group = space == std::string::npos ? "" : name.substr(0, space + 1);
  throw UsageError(
      what, fmt::format("the commands of folio {}are {}", group, Join(WordsAfter(group), ", ")),
      fmt::format("folio {}--help describes them", HasGroup(name.substr(0, space)) ? group : ""));
}

}  // namespace folio
