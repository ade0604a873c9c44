#pragma once

#include <memory>
#include <string>
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

}  // namespace folio
