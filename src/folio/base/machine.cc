#include "folio/base/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "folio/base/error.h"
#include "folio/base/memory.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

// A figure "name: N kB" of a /proc file in bytes, 0 if it is not told.
uint64_t ProcBytes(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    uint64_t kilobytes = 0;
    if (word == name && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

MachineMemory ThisMachinesMemory() {
  const uint64_t total = PhysicalMemoryBytes();
  const uint64_t available = ProcBytes("/proc/meminfo", "MemAvailable:");
  return {total, total > 0 ? std::min(available, total) : available};
}

void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help) {
  const uint64_t memory = PhysicalMemoryBytes();
  if (memory == 0 || bytes <= memory) return;
  throw Error(ErrorKind::kResource, fmt::format("{} does not fit into memory", what),
              fmt::format("it needs {}, the machine has {}", HumanBytes(static_cast<double>(bytes)),
                          HumanBytes(static_cast<double>(memory))),
              help);
}

uint64_t PeakMemoryBytes() {
  return ProcBytes("/proc/self/status", "VmHWM:");
}

bool ResetPeakMemory() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace folio
