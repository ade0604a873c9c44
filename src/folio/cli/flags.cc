#include "folio/cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

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

// The flags as they should have been written where `extras` are arguments that nothing takes:
// "--data a.txt". "" where no flag is meant by such.
std::string Flags::Meant(const std::vector<std::string>& extras) const {
  const auto flag =
      std::ranges::find_if(flags_, [](const Flag& one) { return one.meant.has_value(); });
  if (flag == flags_.end()) return "";
  std::vector<std::string> words = extras;
  if (!flag->meant->empty()) {
    // One value of several words begins with what the flag, or a positional, has taken of them.
    words = flag->given;
    for (const Flag& other : flags_) {
      if (other.positional) words.insert(words.end(), other.given.begin(), other.given.end());
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
    if (!flag.positional || next == positionals.end()) continue;
    const auto end = flag.many ? positionals.end() : next + 1;
    flag.given.assign(next, end);
    next = end;
  }
  if (next != positionals.end()) {
    const std::string meant = Meant({next, positionals.end()});
    throw UsageError(fmt::format("unexpected argument '{}'", *next), {},
                     meant.empty() ? fmt::format("{} --help shows what it takes", command)
                                   : fmt::format("did you mean {}?", meant));
  }
  for (const Flag& flag : flags_) {
    if (!flag.given.empty()) {
      flag.take(flag.given);
    } else if (flag.required) {
      const std::string shown =
          flag.positional ? flag.name : fmt::format("{} {}", flag.name, flag.placeholder);
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
  if (both) throw UsageError(one + " and " + other + " do not go together", {}, "leave one out");
}

}  // namespace folio
