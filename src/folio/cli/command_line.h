#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/io/settings.h"
#include "folio/term/console.h"
#include "folio/term/progress.h"

namespace folio {

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
  // Throws a kUsage Error that names the nearest command, or all that there are.
  [[noreturn]] void ThrowUnknownCommand(const std::string& name) const;

 private:
  void FollowFlag(Place& place, const std::string& word) const;
  void FollowShortFlags(Place& place, const std::string& word) const;
  [[noreturn]] void ThrowUnknownFlag(const std::string& given, const Place& place) const;
  // The one command whose summary has the last word of `name`, or "".
  std::string CommandAbout(const std::string& name) const;
  // The words that may follow "" or "data ".
  std::vector<std::string> WordsAfter(const std::string& group) const;

  GlobalFlags globals_;
  std::unique_ptr<Flags> global_flags_;
  std::vector<CommandEntry> commands_;
};

// What help says of a command or group of commands ("data"), or with "" of folio itself. -h: a few
// lines. --help (`full`): all flags, settings, defaults, examples. Throws as ThrowUnknownCommand.
std::string Help(const CommandLine& line, const std::string& name, bool full,
                 const Terminal& terminal);

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
