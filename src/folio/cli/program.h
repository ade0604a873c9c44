#pragma once

#include <exception>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/cli/command_line.h"
#include "folio/ranks/group.h"
#include "folio/term/console.h"

namespace folio {

// The whole program: parses, runs one of the `commands`, reports errors. Returns the exit status.
int RunProgram(const std::vector<std::string>& arguments, CommandList (*commands)());

// Converts an exception for the user: std::bad_alloc becomes a kResource error, any other that is
// no folio::Error a kRuntime one.
Error AsError(const std::exception& error);

// "error: what", "  cause", "  help: ...", without a line break at the end.
std::string RenderError(const Error& error, const Terminal& terminal);
// {"error":{"code","kind","message","cause","hint"},"schema":1} in one line.
std::string RenderErrorJson(const Error& error);

// Prints `error` to stderr in the console's format and returns the exit status.
int ReportError(Console& console, const Error& error);

// The ranks that mpirun or srun started (ranks/join.h), for a command that works on them: this one
// uses its share of the machine's cores, and only the first one logs. A lost rank is reported.
// Throws as JoinGroup, and a kUsage Error if ranks run another `command`.
Group& JoinRanks(Console& console, const std::string& command);

// Throws a kUsage Error if ranks have different instruction sets, so that results would differ.
void RequireSameSimd(Group& group);

std::string Version();    // "0.1.0"
std::string Compiler();   // "GCC 12.2.0"
std::string BuildType();  // "Release"

}  // namespace folio
