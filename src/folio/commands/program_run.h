#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace folio {

// What a run of the real program printed and how it ended.
struct ProgramRun {
  int status = -1;
  std::string text;
};

// Runs `folio ARGUMENTS` in a shell without settings from outside; `text` is what it wrote to
// stdout, or to stderr too.
inline ProgramRun RunFolio(const std::string& arguments, bool with_stderr = false) {
  const std::string command = std::string("env -i PATH=\"$PATH\" ") + FOLIO_PROGRAM + " " +
                              arguments + " --no-config" + (with_stderr ? " 2>&1" : " 2>/dev/null");
  ProgramRun run;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return run;
  }
  std::array<char, 4096> piece;
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) {
    run.text.append(piece.data(), n);
  }
  const int status = pclose(pipe);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

}  // namespace folio
