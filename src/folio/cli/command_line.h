#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "folio/cli/command.h"
#include "folio/cli/flags.h"
#include "folio/io/settings.h"

namespace folio {

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

// A command with its flags.
struct CommandEntry {
  std::unique_ptr<Command> command;
  CommandInfo info;
  std::unique_ptr<Flags> flags;
};

// The whole command line of folio: the tree of commands and the global flags.
class CommandLine {
 public:
  explicit CommandLine(std::vector<std::unique_ptr<Command>> commands);
  ~CommandLine();

  const std::vector<CommandEntry>& commands() const { return commands_; }
  const Flags& global_flags() const { return *global_flags_; }
  const GlobalFlags& globals() const { return globals_; }

  // Finds the command and takes the global flags; the command's own flags wait for
  // `flags->Take`. `arguments` leave the program's name out. Returns nullptr if no command is
  // named; then group() is the first word of one ("data") or "". Throws a kUsage Error for unknown
  // commands and flags, unless help is asked for.
  CommandEntry* Parse(const std::vector<std::string>& arguments);
  const std::string& group() const { return group_; }

  // nullptr if there is none.
  const CommandEntry* Find(const std::string& name) const;
  // Returns whether commands begin with the word `group` ("data").
  bool HasGroup(const std::string& group) const;
  // Throws a kUsage Error that names the nearest command, or all that there are.
  [[noreturn]] void ThrowUnknownCommand(const std::string& name) const;

 private:
  // The one command whose summary has the last word of `name`, or "".
  std::string CommandAbout(const std::string& name) const;
  // The words that may follow "" or "data ".
  std::vector<std::string> WordsAfter(const std::string& group) const;
  void AddGlobalFlags();
  void AddCommand(std::unique_ptr<Command> command);
  bool TakesValue(const std::string& argument) const;
  // The long names that a command, or with nullptr folio alone, knows.
  std::vector<std::string> LongNames(const CommandEntry* entry) const;
  void RejectSingleDashes(const std::vector<std::string>& arguments,
                          const CommandEntry* entry) const;
  std::ptrdiff_t PositionalMark(const std::vector<std::string>& arguments) const;
  void RejectExtras(const std::vector<std::string>& extras, const CommandEntry* entry) const;
  [[noreturn]] void ThrowUnknownFlag(const std::string& flag, const CommandEntry* entry) const;

  std::unique_ptr<CLI::App> root_;
  GlobalFlags globals_;
  std::unique_ptr<Flags> global_flags_;
  std::vector<CommandEntry> commands_;
  std::string group_;
};

}  // namespace folio
