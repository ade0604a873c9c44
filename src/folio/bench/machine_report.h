#pragma once

#include <string>

namespace folio {

// The program that asks, and what it found of the kernel.
struct ReportedProgram {
  std::string version, compiler;
  std::string sandbox;  // what can confine a service, for people
  int landlock = 0;     // its version there, 0: none
  bool seccomp = false;
};

// Describes what this machine offers to folio, how fast it multiplies matrices (measured for a
// moment), and what will be a problem: for people, or as one JSON object (`json`).
std::string DescribeMachine(const ReportedProgram& program, bool json);

}  // namespace folio
