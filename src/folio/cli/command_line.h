#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/fields.h"
#include "folio/io/settings.h"
#include "folio/term/console.h"

namespace folio {

// How a flag or positional is shown, and whether it is required.
struct FlagShape {
  std::string placeholder = {};  // "DIR"; the field's type if empty
  bool required = false;
  std::vector<std::string> suggestions = {};  // for completion, if any text is allowed
  // The value may also be given without the flag, under this name ("MODEL"), as the first argument
  // that no earlier declared positional takes. "" if it may not.
  std::string position = {};
  // Returns true if a word can be such a value; only for guesses. Null if any word can.
  bool (*fits)(const std::string& word) = nullptr;
  // Arguments without a flag may be meant for this one: this text joins several of them to one
  // value, or is "" if each is a value.
  std::optional<std::string> meant = {};
};

// One declared flag or positional.
struct Flag {
  std::string name;                  // "--out", or "FILE" for a positional
  std::string short_name;            // "-o" or ""
  std::vector<std::string> aliases;  // other long names
  std::string opposite;              // "--no-out" for a switch, or ""
  std::string group;                 // heading in the full help, "" for the command's own
  std::string placeholder;           // "" for a switch
  std::string help;
  std::string initial;  // the value without the flag, "" if there is none or the settings decide
  std::vector<std::string> choices;  // all allowed values, or some; for help and completion
  bool positional = false;
  bool optional = false;  // its value may be left out
  bool many = false;      // takes all remaining positionals
  bool required = false;
  bool setting = false;                   // shorthand for a configuration key
  std::optional<std::string> meant = {};  // as in FlagShape
  std::string position;                   // as in FlagShape
  bool (*fits)(const std::string& word) = nullptr;
  std::vector<std::string> given;  // its values on the command line, in order
  bool stood = false;              // given at its position, without the flag
  // Takes the given values; called only if there are any.
  std::function<void(const std::vector<std::string>& given)> take;
};

// The flags of one command (or the global ones). Names are "--long" or "-s,--long"; in long names
// "_" is accepted for "-". Targets must outlive the object; they are written by Take.
class Flags {
 public:
  // Sets the heading of the following flags.
  void Group(std::string title) { group_ = std::move(title); }

  // One value, named field.flag or else "--" + field.key. A bool becomes a switch "--x" with the
  // opposite "--no-x", also accepted as `--x=false`. Type, range and choices are checked like by
  // SetField; help shows them and the target's current value.
  void Value(Field field, const FlagShape& shape = {});
  // A switch that sets *target.
  void Switch(const std::string& names, bool* target, const std::string& help);
  // A switch that a word may follow: *target becomes that word, one of `words`, else "yes".
  void SwitchOr(const std::string& names, std::string* target, const std::string& help,
                const std::vector<std::string>& words);
  // Sets *target to the number of times the switch was given.
  void Count(const std::string& names, int64_t* target, const std::string& help);
  // May be given repeatedly.
  void List(const std::string& names, std::vector<std::string>* target, const std::string& help,
            const FlagShape& shape);
  // One positional, shown as field.key ("DIR").
  void Positional(const Field& field, const FlagShape& shape = {});
  // All remaining positionals; at least one if shape.required.
  void Positionals(const std::string& name, std::vector<std::string>* target,
                   const std::string& help, const FlagShape& shape = {});
  // The fields of `settings` that have a flag of their own and whose section is among `sections`. A
  // key of several words names its flag too: --learning-rate for --lr.
  void Settings(folio::Settings* settings, const std::vector<std::string>& sections);

  const std::vector<Flag>& list() const { return flags_; }
  // The argument of Settings, or nullptr.
  const folio::Settings* settings() const { return settings_; }

  // The flag with that name, "-o", "--out" or an alias, or nullptr.
  Flag* Find(const std::string& name);

  // Writes all given values to their targets, including `positionals`. Throws a kUsage Error that
  // names `command` if a value is wrong, a required flag is missing or nothing takes an argument.
  void Take(const std::string& command, const std::vector<std::string>& positionals);

 private:
  Flag& Add(const std::string& names, const std::string& help, const FlagShape& shape);
  Flag& AddField(const Field& field, const std::string& aliases, FlagShape shape);
  std::string Meant(const std::vector<std::string>& extras) const;

  std::string group_;
  std::vector<Flag> flags_;
  const folio::Settings* settings_ = nullptr;
};

// The listed name of a flag, with "-" for "_".
std::string WithDashes(std::string name);

// Throws a kUsage Error that names the two flags, if both were given.
void RefuseTogether(bool both, const std::string& one, const std::string& other);

class CommandLine;

// A command's entry in help.
struct CommandInfo {
  std::string name;                        // "train", or "data prepare"
  std::string summary;                     // one line, no full stop
  std::string group;                       // heading in the list of commands; "" hides the command
  std::string details = {};                // paragraphs of the full help
  std::vector<std::string> examples = {};  // whole command lines
};

// The environment of a command.
struct Context {
  Console& console;
  const ConfigSources& sources;     // for Settings::ReadSources
  ProgressMode progress_mode;       // for Progress
  const CommandLine& command_line;  // for help and completion
};

// One subcommand: declares its flags as members, then runs with them. Created once per process.
class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo info() const = 0;
  virtual void AddFlags(Flags& flags) = 0;
  // Returns the exit status; mistakes of users and the system are thrown as Error.
  virtual int Run(const Context& context) = 0;
};

using CommandList = std::vector<std::unique_ptr<Command>>;

// One of each.
template <class... Each>
CommandList CommandsOf() {
  CommandList list;
  (list.push_back(std::make_unique<Each>()), ...);
  return list;
}

// The flags that every command accepts, before or after its name.
struct GlobalFlags {
  bool short_help = false;
  bool full_help = false;
  bool version = false;
  int64_t quiet = 0;
  int64_t verbose = 0;
  std::string color = "auto";
  std::string progress = "auto";
  bool json = false;
  bool no_config = false;
  std::string config;
  std::vector<std::string> sets;
};

// A command with its flags, which are created on demand: most are not used in a process.
struct CommandEntry {
  explicit CommandEntry(std::unique_ptr<Command> one)
      : command(std::move(one)), info(command->info()) {}
  Flags& flags() const {
    if (!flags_) command->AddFlags(*(flags_ = std::make_unique<Flags>()));
    return *flags_;
  }

  std::unique_ptr<Command> command;
  CommandInfo info;

 private:
  mutable std::unique_ptr<Flags> flags_;
};

// The state after the words of a command line so far.
struct Place {
  const CommandEntry* command = nullptr;
  std::string named;                     // the words of the command's name so far: "data"
  Flag* open = nullptr;                  // the flag that expects its value
  bool just_named = false;               // the last word was part of its name
  bool more_settings = false;            // after a value of --set, more values may follow
  bool only_positionals = false;         // after "--"
  std::vector<std::string> positionals;  // words that are no flags, or the unknown command
  std::vector<std::string> unknown;      // unknown flags, without their values
};

// The whole command line of folio: the tree of commands and the global flags.
class CommandLine {
 public:
  explicit CommandLine(CommandList commands);

  const std::vector<CommandEntry>& commands() const { return commands_; }
  Flags& global_flags() const { return *global_flags_; }
  const GlobalFlags& globals() const { return globals_; }

  // Finds the command and takes the global flags; Flags::Take takes the command's own, with the
  // positionals of the result. `arguments` exclude the program's name. Throws a kUsage Error for
  // unknown commands and flags, unless help is requested.
  Place Parse(const std::vector<std::string>& arguments);
  // Advances `place` by one word; values go into the flag there.
  void Follow(Place& place, const std::string& word) const;
  // The flag with that name of the command at `place`, or the global one, or nullptr.
  Flag* FindFlag(const Place& place, const std::string& name) const;

  // nullptr if there is none.
  const CommandEntry* Find(const std::string& name) const;
  // Returns true if commands begin with the word `group` ("data").
  bool HasGroup(const std::string& group) const;
  // The words that may follow "" or "data " in names of commands, each once.
  std::vector<std::string> WordsAfter(const std::string& group) const;
  // Throws a kUsage Error that names the nearest command, or all of them.
  [[noreturn]] void ThrowUnknownCommand(const std::string& name) const;

 private:
  void FollowFlag(Place& place, const std::string& word) const;
  void FollowShortFlags(Place& place, const std::string& word) const;
  [[noreturn]] void ThrowUnknownFlag(const std::string& given, const Place& place) const;
  // The one command whose summary has the last word of `name`, or "".
  std::string CommandAbout(const std::string& name) const;

  GlobalFlags globals_;
  std::unique_ptr<Flags> global_flags_;
  std::vector<CommandEntry> commands_;
};

// The help for a command or group of commands ("data"), or with "" for folio itself. -h: a few
// lines. --help (`full`): all flags, settings, defaults, examples. Throws like ThrowUnknownCommand.
std::string Help(const CommandLine& line, const std::string& name, bool full,
                 const Terminal& terminal);

// The man page of a command, or of folio as a whole: the contents of its full help.
struct ManPage {
  std::string file;  // "folio-train.1"
  std::string text;  // roff, with the macros of man(7)
};
std::vector<ManPage> ManPages(const CommandLine& line, const std::string& version);

struct Completion {
  std::string word;
  std::string help;
};

// Returns all completions for the last of `words` (the command line after "folio", the last word
// being typed, perhaps ""): commands, flags, the choices of the flag before it or before its "=",
// and the settings and their choices for --set. Empty if a file name or free text is expected.
std::vector<Completion> Complete(const CommandLine& line, const std::vector<std::string>& words);

// The script for "bash", "zsh" or "fish" to source; it calls `folio __complete`.
std::string CompletionScript(const std::string& shell);

}  // namespace folio
