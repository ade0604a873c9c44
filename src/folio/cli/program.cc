#include "folio/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "folio/base/log.h"
#include "folio/base/signals.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/ranks/join.h"

#ifdef __APPLE__
extern "C" char** environ;  // no header declares it
#endif

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

int Dispatch(const std::vector<std::string>& arguments, CommandList commands, Console& console) {
  CommandLine line(std::move(commands));
  const Place place = line.Parse(arguments);
  const GlobalFlags& globals = line.globals();
  console.Configure(ColorModeNamed(globals.color),
                    static_cast<int>(globals.verbose - globals.quiet), globals.json);
  if (globals.version) {
    console.Result(fmt::format("folio {}\n", Version()));
    return 0;
  }
  if (place.command == nullptr || globals.short_help || globals.full_help) {
    console.Result(Help(line, place.named, globals.full_help, console.out()));
    return 0;
  }
  place.command->flags().Take("folio " + place.named, place.positionals);
  const ConfigSources sources = Sources(globals);
  const Context context{console, sources, ChooseProgressMode(globals.progress, console), line};
  return place.command->command->Run(context);
}

// The first rank reports an error that all have; the others wait for it, as their exit ends it.
int ReportErrorOfRank(Console& console, Error error) {
  Group* group = JoinedGroup();
  const int rank = group != nullptr ? group->rank() : RankByEnvironment();
  if (group == nullptr || !group->failed()) {  // else it was reported already
    if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    if (rank != 0 && group != nullptr) {
      const std::string what = fmt::format("{}: {}", group->NameOf(rank), error.what());
      error = Error(error.kind(), what, error.cause(), error.help());
    }
    ReportError(console, error);
  }
  if (group != nullptr) {
    // When a rank ends, launchers drop its output that they have not read yet.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    group->Abort(error.exit_status());
  }
  return error.exit_status();
}

// Returns the exit status.
int RunToTheEnd(const std::vector<std::string>& arguments, CommandList (*commands)(),
                Console& console) {
  try {
    return Dispatch(arguments, commands(), console);
  } catch (const OutputClosed&) {
    return 0;
  } catch (const Stopped& stopped) {
    return SignalExitStatus(stopped.signal);
  } catch (const std::exception& error) {
    return ReportErrorOfRank(console, AsError(error));
  }
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, CommandList (*commands)()) {
  Console console;
  // Errors in the command line itself are reported in the requested format.
  if (std::ranges::find(arguments, "--json") != arguments.end()) {
    console.Configure(ColorMode::kAuto, 0, /*json=*/true);
  }
  const int status = RunToTheEnd(arguments, commands, console);
  LeaveGroup(status);
  return status;
}

Error AsError(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ErrorKind::kResource, "out of memory", "the system refused to allocate more",
            "use a smaller batch, context or model"};
  }
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return RuntimeError("cannot access " + file->path1().string(), file->code().message());
  }
  return RuntimeError(error.what());
}

std::string RenderError(const Error& error, const Terminal& terminal) {
  const auto on_a_line = [](const std::string& text) { return Visible(text, {.lines = false}); };
  std::string text = Styled(terminal, Style::kError, "error:") + " " + on_a_line(error.what());
  if (!error.cause().empty()) {
    for (const std::string& line : Split(error.cause(), '\n')) text += "\n  " + on_a_line(line);
  }
  if (!error.help().empty()) {
    text += "\n  " + Styled(terminal, Style::kHelp, "help:") + " " + on_a_line(error.help());
  }
  return text;
}

std::string RenderErrorJson(const Error& error) {
  static constexpr const char* kKinds[] = {"runtime", "usage", "input", "resource", "diverged"};
  const Json json = {{"error",
                      {{"cause", error.cause()},
                       {"code", error.exit_status()},
                       {"hint", error.help()},
                       {"kind", kKinds[error.exit_status() - 1]},
                       {"message", error.what()}}},
                     {"schema", 1}};
  return json.dump();
}

int ReportError(Console& console, const Error& error) {
  console.SetStatus("");
  console.Message(console.json() ? RenderErrorJson(error) : RenderError(error, console.err()));
  return error.exit_status();
}

Group& JoinRanks(Console& console, const std::string& command) {
  // A launcher that ends a run after a rank has died, such as mpirun, may only leave time to report
  // the progress.
  GroupOptions options = {
      .on_lost = [&console](const Error& error) { ReportError(console, error); },
      .on_heartbeat =
          [&console, told = false](const std::string& progress) mutable {
            if (told || progress.empty() || StopRequested() == 0 || RankByEnvironment() != 0) {
              return;
            }
            told = true;
            console.Note(fmt::format("stopping (signal {}) {}", StopRequested(), progress));
          }};
  Group& group = JoinGroup(Version() + " (" + Compiler() + ")", std::move(options));
  RequireSame(group, "commands", command);
  if (!group.alone()) SetThreads(ThreadsOfRank(group));
  if (!group.first()) SetLogSink([](LogLevel, std::string_view) {});
  return group;
}

void RequireSameSimd(Group& group) {
  RequireSame(group, "instruction sets", SimdTarget(),
              "use one that all machines have, on all ranks: --simd NAME (folio doctor lists those "
              "of a machine)");
}

std::string Version() {
  return FOLIO_VERSION;
}

std::string Compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string BuildType() {
  return FOLIO_BUILD_TYPE;
}

}  // namespace folio
