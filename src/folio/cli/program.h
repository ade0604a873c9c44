#pragma once

#include <exception>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/cli/command_line.h"
#include "folio/ranks/group.h"
#include "folio/term/console.h"

namespace folio {

// The whole program: parses, runs one of the `commands`, reports what goes wrong. Returns the exit
// status.
int RunProgram(const std::vector<std::string>& arguments, CommandList (*commands)());

// The exception as the user is told it: std::bad_alloc is a kResource error, what else is no
// folio::Error a kRuntime one.
Error AsError(const std::exception& error);

// "error: what", "  cause", "  help: ...", without a line break at the end.
std::string RenderError(const Error& error, const Terminal& terminal);
// {"error":{"code","kind","message","cause","hint"},"schema":1} in one line.
std::string RenderErrorJson(const Error& error);

// Prints `error` to stderr in the console's manner and returns the exit status.
int ReportError(Console& console, const Error& error);

// The ranks that mpirun or srun has started (ranks/join.h), for a command that works on them: this
// one computes with its share of the machine's cores, and but for the first one it logs nothing. A
// rank that is lost is told. Throws as JoinGroup, and a kUsage Error where ranks run another
// `command`.
Group& JoinRanks(Console& console, const std::string& command);

// Throws a kUsage Error where ranks compute with different instruction sets: their numbers would
// not be the same.
void RequireSameSimd(Group& group);

std::string Version();    // "0.1.0"
std::string Compiler();   // "GCC 12.2.0"
std::string BuildType();  // "Release"

}  // namespace folio
