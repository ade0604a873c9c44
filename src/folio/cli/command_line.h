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

// The shape says how a flag or positional is shown, and whether it must be there.
struct FlagShape {
  std::string placeholder = {};  // "DIR"; the field's type if empty
  bool required = false;
  std::vector<std::string> suggestions = {};  // for completion, where any text is allowed
  // The name under which the value may also stand without the flag, as the first of the arguments
  // that no positional declared before it takes: "MODEL". "" where it may not.
  std::string position = {};
  // Returns whether a word can be such a value; for guesses alone. Null where any can.
  bool (*fits)(const std::string& word) = nullptr;
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
  std::string position;                   // likewise
  bool (*fits)(const std::string& word) = nullptr;
  std::vector<std::string> given;  // its values on the command line, in order
  bool stood = false;              // at its position, without the flag
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

class CommandLine;

// The entry of a command in help.
struct CommandInfo {
  std::string name;                        // "train", or "data prepare"
  std::string summary;                     // one line, no full stop
  std::string group;                       // heading in the list of commands; "" hides the command
  std::string details = {};                // paragraphs of the full help
  std::vector<std::string> examples = {};  // whole command lines
};

// A command runs in a context of console and settings.
struct Context {
  Console& console;
  const ConfigSources& sources;     // for Settings::ReadSources
  ProgressMode progress_mode;       // for Progress
  const CommandLine& command_line;  // for help and completion
};

// One subcommand: declares its flags as members, then runs with them. Made once for each process.
class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo info() const = 0;
  virtual void AddFlags(Flags& flags) = 0;
  // Returns the exit status; the world's mistakes are thrown as Error.
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

// A command with its flags, which are made when somebody looks at them: most are of no call.
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

// The place to which the words of a command line have led.
struct Place {
  const CommandEntry* command = nullptr;
  std::string named;                     // the words of a command's name so far: "data"
  Flag* open = nullptr;                  // the flag whose value is due
  bool just_named = false;               // the last word was of its name
  bool more_settings = false;            // after a value of --set, others may follow
  bool only_positionals = false;         // after "--"
  std::vector<std::string> positionals;  // words that are no flags; without a command the wrong one
  std::vector<std::string> unknown;      // flags that there are not, without their values
};

// The whole command line of folio: the tree of commands and the global flags.
class CommandLine {
 public:
  explicit CommandLine(CommandList commands);

  const std::vector<CommandEntry>& commands() const { return commands_; }
  Flags& global_flags() const { return *global_flags_; }
  const GlobalFlags& globals() const { return globals_; }

  // Finds the command and takes the global flags; Flags::Take takes the command's own, with the
  // positionals of the place. `arguments` leave the program's name out. Throws a kUsage Error for
  // unknown commands and flags, unless help is asked for.
  Place Parse(const std::vector<std::string>& arguments);
  // Goes on from `place` by one word, and keeps what it gives to a flag there.
  void Follow(Place& place, const std::string& word) const;
  // The flag of the command at `place`, or the global one, with that name, or nullptr.
  Flag* FindFlag(const Place& place, const std::string& name) const;

  // nullptr if there is none.
  const CommandEntry* Find(const std::string& name) const;
  // Returns whether commands begin with the word `group` ("data").
  bool HasGroup(const std::string& group) const;
  // The words that may follow "" or "data " in names of commands, each once.
  std::vector<std::string> WordsAfter(const std::string& group) const;
  // Throws a kUsage Error that names the nearest command, or all that there are.
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

// What help says of a command or group of commands ("data"), or with "" of folio itself. -h: a few
// lines. --help (`full`): all flags, settings, defaults, examples. Throws as ThrowUnknownCommand.
std::string Help(const CommandLine& line, const std::string& name, bool full,
                 const Terminal& terminal);

// The page of `man` for a command, or for folio as a whole: what its full help says.
struct ManPage {
  std::string file;  // "folio-train.1"
  std::string text;  // roff, with the macros of man(7)
};
std::vector<ManPage> ManPages(const CommandLine& line, const std::string& version);

struct Completion {
  std::string word;
  std::string help;
};

// Returns all that may stand in place of the last of `words` (the command line after "folio", the
// last word being typed, perhaps ""): commands, flags, the choices of the flag before it or before
// its "=", and the settings and their choices for --set. Empty where a file name or free text is
// due.
std::vector<Completion> Complete(const CommandLine& line, const std::vector<std::string>& words);

// The script to be sourced by "bash", "zsh" or "fish"; it calls `folio __complete`.
std::string CompletionScript(const std::string& shell);

}  // namespace folio
