#include "folio/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

#include "folio/base/error.h"
#include "folio/cli/command_line.h"
#include "folio/cli/error_report.h"
#include "folio/cli/help.h"
#include "folio/cli/version.h"
#include "folio/dist/join.h"
#include "folio/term/console.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

ColorMode ColorModeNamed(const std::string& name) {
  if (name == "always") return ColorMode::kAlways;
  return name == "never" ? ColorMode::kNever : ColorMode::kAuto;
}

ConfigSources Sources(const GlobalFlags& globals) {
  ConfigSources sources;
  sources.file = globals.config;
  sources.discover = !globals.no_config;
  sources.sets = globals.sets;
  for (char** entry = environ; *entry != nullptr; ++entry) sources.environment.push_back(*entry);
  std::error_code gone;  // a removed current directory has no folio.toml either
  sources.directory = std::filesystem::current_path(gone);
  return sources;
}

void PrintHelp(const CommandLine& line, const CommandEntry* entry, Console& console) {
  const bool full = line.globals().full_help;
  if (entry != nullptr) {
    console.Result(CommandHelp(line, *entry, full, console.out()));
  } else if (!line.group().empty()) {
    console.Result(GroupHelp(line, line.group(), console.out()));
  } else {
    console.Result(full ? FullProgramHelp(line, console.out()) : ProgramHelp(line, console.out()));
  }
}

int Dispatch(const std::vector<std::string>& arguments,
             std::vector<std::unique_ptr<Command>> commands, Console& console) {
  CommandLine line(std::move(commands));
  CommandEntry* entry = line.Parse(arguments);
  const GlobalFlags& globals = line.globals();
  console.Configure(ColorModeNamed(globals.color),
                    static_cast<int>(globals.verbose - globals.quiet), globals.json);
  if (globals.version) {
    console.Result(fmt::format("folio {}\n", Version()));
    return 0;
  }
  if (entry == nullptr || globals.short_help || globals.full_help) {
    PrintHelp(line, entry, console);
    return 0;
  }
  entry->flags->Take("folio " + entry->info.name);
  const ConfigSources sources = Sources(globals);
  const Context context{console, sources, ChooseProgressMode(globals.progress, console), line};
  return entry->command->Run(context);
}

// Launchers drop what they have not yet read of a rank when they hear of an end.
void AbortWhenRead(Group& group, int status) {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  group.Abort(status);
}

// The first rank tells of an error that befalls all; the others give it time to, since its end is
// theirs.
int ReportErrorOfRank(Console& console, const std::exception& error) {
  Group* group = JoinedGroup();
  if (group != nullptr && group->failed()) {  // told already
    AbortWhenRead(*group, DescribeError(error).status);
    return DescribeError(error).status;
  }
  const bool first = (group != nullptr ? group->rank() : RankByEnvironment()) == 0;
  if (!first) std::this_thread::sleep_for(std::chrono::seconds(2));
  int status = 1;
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && group != nullptr && !first) {
    const std::string what = fmt::format("{}: {}", group->NameOf(group->rank()), error.what());
    status = ReportError(console, Error(known->kind(), what, known->cause(), known->help()));
  } else {
    status = ReportError(console, error);
  }
  if (group != nullptr) AbortWhenRead(*group, status);
  return status;
}

// Returns the exit status.
int RunToTheEnd(const std::vector<std::string>& arguments,
                std::vector<std::unique_ptr<Command>> (*commands)(), Console& console) {
  try {
    return Dispatch(arguments, commands(), console);
  } catch (const OutputClosed&) {
    return 0;
  } catch (const Stopped& stopped) {
    return SignalExitStatus(stopped.signal);
  } catch (const std::exception& error) {
    return ReportErrorOfRank(console, error);
  }
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments,
               std::vector<std::unique_ptr<Command>> (*commands)()) {
  Console console;
  // Errors of the command line itself are told in the manner that it asks for.
  if (std::ranges::find(arguments, "--json") != arguments.end()) {
    console.Configure(ColorMode::kAuto, 0, /*json=*/true);
  }
  const int status = RunToTheEnd(arguments, commands, console);
  LeaveGroup(status);
  return status;
}

}  // namespace folio
