#include "folio/cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

bool IsBool(const Field& field) {
  return std::holds_alternative<bool*>(field.value);
}

// "-o,--max-steps" with the spelling "--max_steps" added for the parser.
std::string WithUnderscores(const std::string& names) {
  std::string all = names;
  for (const std::string& name : Split(names, ',')) {
    if (!name.starts_with("--")) continue;
    std::string other = name.substr(2);
    std::ranges::replace(other, '-', '_');
    if (other != name.substr(2)) all += ",--" + other;
  }
  return all;
}

std::string Placeholder(const Field& field, const FlagShape& shape) {
  if (!shape.placeholder.empty()) return shape.placeholder;
  if (!field.choices.empty()) return Join(field.choices, "|");
  if (std::holds_alternative<std::string*>(field.value)) return "TEXT";
  return std::holds_alternative<double*>(field.value) ? "X" : "N";
}

std::vector<std::string> ShownChoices(const Field& field) {
  return field.choices.empty() ? field.suggestions : field.choices;
}

// ",--learning-rate" for a field train.learning_rate with the flag --lr. A key of one word says too
// little without its section and is no flag.
std::string KeyAlias(const Field& field) {
  std::string name = field.key.substr(field.key.find('.') + 1);
  if (name.find('_') == std::string::npos) return "";
  std::ranges::replace(name, '_', '-');
  return "--" + name == field.flag ? "" : ",--" + name;
}

// Sets the field to what was given last; errors are those of the flag `name`.
std::function<void(const std::vector<std::string>&)> Setter(Field field, const std::string& name) {
  field.key = name;
  return
      [field](const std::vector<std::string>& given) { SetField(field, given.back(), field.key); };
}

// Accepts any number of results, and leaves them to Flags::Take.
bool Keep(const CLI::results_t&) {
  return true;
}

}  // namespace

Flag& Flags::Add(const std::string& names, bool takes_value, const std::string& help,
                 const FlagShape& shape) {
  Flag flag;
  if (takes_value) {
    flag.option = app_->add_option(WithUnderscores(names), CLI::callback_t(Keep), help);
    flag.option->allow_extra_args(false);
  } else {
    flag.option = app_->add_flag(WithUnderscores(names), help);
  }
  flag.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  for (const std::string& name : Split(names, ',')) {
    if (name.starts_with("--")) {
      if (flag.name.empty()) {
        flag.name = name;
      } else {
        flag.aliases.push_back(name);
      }
    } else if (name.starts_with("-")) {
      flag.short_name = name;
    } else if (!name.starts_with("!")) {
      flag.name = name;
    }
  }
  if (flag.name.empty()) std::swap(flag.name, flag.short_name);
  flag.positional = !flag.name.starts_with("-");
  flag.group = group_;
  flag.help = help;
  flag.placeholder = shape.placeholder;
  flag.required = shape.required;
  flag.hidden = shape.hidden;
  flag.choices = shape.suggestions;
  flag.meant = shape.meant;
  return flags_.emplace_back(std::move(flag));
}

// The flag of a field, a switch with its opposite for a bool; `aliases` begin with commas.
Flag& Flags::AddField(const Field& field, const std::string& aliases, FlagShape shape) {
  std::string names = field.flag + aliases;
  const bool is_switch = IsBool(field);
  if (is_switch) {
    const size_t dashes = field.flag.find("--");
    FOLIO_CHECK(dashes != std::string::npos, "a switch has a long name");
    names += ",!--no-" + field.flag.substr(dashes + 2);
  } else {
    shape.placeholder = Placeholder(field, shape);
  }
  Flag& flag = Add(names, !is_switch, field.help, shape);
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
  Flag& flag = Add(names, false, help, {});
  flag.take = Setter({flag.name, target, help}, flag.name);
}

void Flags::SwitchOr(const std::string& names, std::string* target, const std::string& help,
                     const std::vector<std::string>& words) {
  Flag& flag = Add(names, true, help, {.placeholder = "[" + Join(words, "|") + "]"});
  flag.option->expected(0, 1);
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
  Add(names, false, help, {}).take = [target](const std::vector<std::string>& given) {
    *target = static_cast<int64_t>(given.size());
  };
}

void Flags::List(const std::string& names, std::vector<std::string>* target,
                 const std::string& help, const FlagShape& shape) {
  Add(names, true, help, shape).take = [target](const std::vector<std::string>& given) {
    *target = given;
  };
}

void Flags::Positional(const Field& field, const FlagShape& shape) {
  Flag& flag = Add(field.key, true, field.help, shape);
  flag.choices = ShownChoices(field);
  flag.take = Setter(field, field.key);
}

void Flags::Positionals(const std::string& name, std::vector<std::string>* target,
                        const std::string& help, const FlagShape& shape) {
  Flag& flag = Add(name, true, help, shape);
  flag.many = true;
  flag.option->expected(0, -1)->allow_extra_args();
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

std::string Flags::Meant(const std::vector<std::string>& extras) const {
  const auto flag =
      std::ranges::find_if(flags_, [](const Flag& one) { return one.meant.has_value(); });
  if (flag == flags_.end()) return "";
  // One value of several words begins with what the flag, or a positional, has taken of them.
  std::vector<std::string> words;
  if (!flag->meant->empty()) {
    words = flag->option->results();
    for (const Flag& other : flags_) {
      if (!other.positional) continue;
      const std::vector<std::string> taken = other.option->results();
      words.insert(words.end(), taken.begin(), taken.end());
    }
  }
  words.insert(words.end(), extras.begin(), extras.end());
  if (!flag->meant->empty()) words = {Join(words, *flag->meant)};
  std::vector<std::string> meant;
  for (const std::string& word : words) meant.push_back(flag->name + " " + ShellWord(word));
  return Join(meant, " ");
}

void Flags::Take(const std::string& command) const {
  auto trailing = trailing_.begin();
  for (const Flag& flag : flags_) {
    std::vector<std::string> given = flag.option->results();
    if (flag.positional && trailing != trailing_.end()) {
      const auto end = flag.many ? trailing_.end() : trailing + (given.empty() ? 1 : 0);
      given.insert(given.end(), trailing, end);
      trailing = end;
    }
    if (!given.empty()) {
      flag.take(given);
    } else if (flag.required) {
      const std::string shown =
          flag.positional ? flag.name : fmt::format("{} {}", flag.name, flag.placeholder);
      throw UsageError(fmt::format("{} needs {}", command, shown), flag.help,
                       fmt::format("{} --help explains it", command));
    }
  }
  if (trailing != trailing_.end()) {
    throw UsageError(fmt::format("unexpected argument '{}'", *trailing), {},
                     fmt::format("{} --help shows what it takes", command));
  }
}

void RefuseTogether(bool both, const std::string& one, const std::string& other) {
  if (both) throw UsageError(one + " and " + other + " do not go together", {}, "leave one out");
}

}  // namespace folio
