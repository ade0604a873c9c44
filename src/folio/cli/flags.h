#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/io/settings.h"

namespace folio {

// The shape says how a flag or positional is shown, and whether it must be there.
struct FlagShape {
  std::string placeholder = {};  // "DIR"; the field's type if empty
  bool required = false;
  std::vector<std::string> suggestions = {};  // for completion, where any text is allowed
  // Arguments without a flag may mean one that the command does not take: this text joins
  // several of them to one value, or "" if each is a value.
  std::optional<std::string> meant = {};
};

// One declared flag or positional, for help, completion and for taking its value.
struct Flag {
  std::string name;                  // "--out", or "FILE" for a positional
  std::string short_name;            // "-o" or ""
  std::vector<std::string> aliases;  // other long names
  std::string opposite;              // "--no-out" of a switch, or ""
  std::string group;                 // heading in the full help, "" for the command's own
  std::string placeholder;           // "" for a switch
  std::string help;
  std::string initial;  // the value without the flag, "" if none or if the settings decide
  std::vector<std::string> choices;  // all that is allowed, or some of it; for help and completion
  bool positional = false;
  bool optional = false;  // its value may be left out
  bool many = false;      // takes all remaining positionals
  bool required = false;
  bool setting = false;                   // shorthand for a configuration key
  std::optional<std::string> meant = {};  // as FlagShape has it
  std::vector<std::string> given;         // its values on the command line, in order
  // Takes what was given; called only if anything was.
  std::function<void(const std::vector<std::string>& given)> take;
};

// The flags of one command (or the global ones). Names are "--long" or "-s,--long"; in long names
// "_" is accepted for "-". Targets must outlive the object; they are written by Take.
class Flags {
 public:
  // Heading for the flags that follow.
  void Group(std::string title) { group_ = std::move(title); }

  // One value, named field.flag or else "--" + field.key. A bool becomes a switch "--x" with the
  // opposite "--no-x" unless it is given as `--x=false`. Type, range and choices are checked as
  // SetField does; help shows them and the value the target has now.
  void Value(Field field, const FlagShape& shape = {});
  // A switch that sets *target.
  void Switch(const std::string& names, bool* target, const std::string& help);
  // A switch that a word may follow: *target becomes that, one of `words`, or "yes" without one.
  void SwitchOr(const std::string& names, std::string* target, const std::string& help,
                const std::vector<std::string>& words);
  // Sets *target to how often the switch was given.
  void Count(const std::string& names, int64_t* target, const std::string& help);
  // May be given again and again.
  void List(const std::string& names, std::vector<std::string>* target, const std::string& help,
            const FlagShape& shape);
  // One positional, shown as field.key ("DIR").
  void Positional(const Field& field, const FlagShape& shape = {});
  // All remaining positionals; at least one if shape.required.
  void Positionals(const std::string& name, std::vector<std::string>* target,
                   const std::string& help, const FlagShape& shape = {});
  // The fields of `settings` that have a flag of their own and whose section is among `sections`.
  // A key of several words is a name of its flag too: --learning-rate for --lr.
  void Settings(folio::Settings* settings, const std::vector<std::string>& sections);

  const std::vector<Flag>& list() const { return flags_; }
  // The settings that Settings was called with, or nullptr.
  const folio::Settings* settings() const { return settings_; }

  // The flag with that name, "-o", "--out" or an alias, or nullptr.
  Flag* Find(const std::string& name);

  // Writes all given values to their targets, `positionals` among them. Throws a kUsage Error if
  // a value is wrong, a required flag is missing or nothing takes an argument; `command` is named
  // then.
  void Take(const std::string& command, const std::vector<std::string>& positionals);

 private:
  Flag& Add(const std::string& names, const std::string& help, const FlagShape& shape);
  Flag& AddField(const Field& field, const std::string& aliases, FlagShape shape);
  std::string Meant(const std::vector<std::string>& extras) const;

  std::string group_;
  std::vector<Flag> flags_;
  const folio::Settings* settings_ = nullptr;
};

// The name of a flag with "-" for "_", as it is listed.
std::string WithDashes(std::string name);

// Throws a kUsage Error that names the two flags, if both were given.
void RefuseTogether(bool both, const std::string& one, const std::string& other);

}  // namespace folio
