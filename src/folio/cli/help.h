#pragma once

#include <string>

#include "folio/cli/command_line.h"

namespace folio {

// The twelve lines that `folio` alone prints.
std::string ProgramHelp(const CommandLine& line, const Terminal& terminal);
// The text of `folio --help`: all commands by group, then the global flags.
std::string FullProgramHelp(const CommandLine& line, const Terminal& terminal);
// The commands that begin with the word `group` ("data").
std::string GroupHelp(const CommandLine& line, const std::string& group, const Terminal& terminal);
// -h: usage, flags. --help (`full`): also settings, global flags, defaults, examples.
std::string CommandHelp(const CommandLine& line, const CommandEntry& entry, bool full,
                        const Terminal& terminal);

}  // namespace folio
