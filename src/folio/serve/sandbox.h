#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace folio {

// Sandbox says what the kernel can take away from a process, or has taken.
struct Sandbox {
  int landlock = 0;      // the version of Landlock's interface, 0: none
  bool seccomp = false;  // a filter of system calls
};

// Returns what this kernel has, and lets this process use.
Sandbox FindSandbox();

// "Landlock 7 and seccomp", "neither Landlock nor seccomp".
std::string DescribeSandbox(const Sandbox& sandbox);

// SandboxRules say what a process in a sandbox may still touch. Paths that do not exist are left
// out.
struct SandboxRules {
  std::vector<std::filesystem::path> readable = {};  // files, and directories with all beneath them
  std::vector<std::filesystem::path> writable = {};  // the same, to make and rename files too
};

// Takes from this process for good, as far as the kernel can, what a service that is bound to its
// address does not need: files beyond `rules` and what libraries read of the system, new sockets,
// processes and programs, signals to others, and the system calls by which a process looks into
// others or changes the system. Returns what has taken it.
// REQUIRES: this thread is the only one: Landlock holds for it and those that it starts.
// Throws a kRuntime Error where the kernel has something and refuses it.
Sandbox EnterSandbox(const SandboxRules& rules);

}  // namespace folio
