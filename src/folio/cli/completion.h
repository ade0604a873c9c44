#pragma once

#include <string>
#include <vector>

#include "folio/cli/command_line.h"

namespace folio {

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
