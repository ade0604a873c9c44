#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/kit/expect.h"

namespace folio {

// The output of shell text and how it ended.
struct ProgramRun {
  int status = -1;  // 128 + n: by signal n
  std::string out, err;
};

// Runs shell text in `dir`, its home, without other settings from outside and without input; $F is
// the program.
ProgramRun RunShell(const std::filesystem::path& dir, const std::string& text);

// Runs `folio ARGUMENTS`, which is shell text too, in this directory without a home or files of
// settings.
inline ProgramRun RunFolio(const std::string& arguments) {
  return RunShell(".", "unset HOME; $F " + arguments + " --no-config");
}

// Shell text that waits, at most ten seconds, until the test succeeds.
inline std::string Awaited(const std::string& test) {
  return "i=0; until " + test + " || [ $i = 500 ]; do sleep 0.02; i=$((i+1)); done\n";
}

// The run, which must have ended with this status.
inline ProgramRun Ended(int status, ProgramRun run) {
  EXPECT_EQ(run.status, status) << run.err;
  return run;
}
inline ProgramRun Well(ProgramRun run) {
  return Ended(0, std::move(run));
}

// The run must end with `status`, write no result and mention all of `parts`.
template <class... Parts>
void ExpectError(int status, const std::string& arguments, const Parts&... parts) {
  const ProgramRun run = RunFolio(arguments);
  EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
  EXPECT_EQ(run.out, "") << arguments;
  EXPECT_TRUE(run.err.starts_with("error: ")) << run.err;
  EXPECT_TRUE(Contains(run.err, parts...)) << arguments;
}

}  // namespace folio
