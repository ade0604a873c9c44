#pragma once

#include <string>

#include "folio/cli/command_line.h"

namespace folio {

// What `folio` alone prints: twelve lines.
std::string ProgramHelp(const CommandLine& line, const Terminal& terminal);
// What `folio --help` prints: all commands by group, then the global flags.
std::string FullProgramHelp(const CommandLine& line, const Terminal& terminal);
// The commands that begin with the word `group` ("data").
std::string GroupHelp(const CommandLine& line, const std::string& group, const Terminal& terminal);
// -h: usage, flags. --help (`full`): also settings, global flags, defaults, examples.
std::string CommandHelp(const CommandLine& line, const CommandEntry& entry, bool full,
                        const Terminal& terminal);

}  // namespace folio
