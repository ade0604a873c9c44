#include "folio/apps/machine.h"

#include <fmt/format.h>

#include <fstream>

#include "folio/base/error.h"
#include "folio/base/memory.h"
#include "folio/base/strings.h"

namespace folio {

void RequireMemory(const std::string& what, uint64_t bytes) {
  const uint64_t memory = PhysicalMemoryBytes();
  if (memory == 0 || bytes <= memory) return;
  throw Error(ErrorKind::kResource, fmt::format("{} does not fit into memory", what),
              fmt::format("it needs {}, the machine has {}", HumanBytes(static_cast<double>(bytes)),
                          HumanBytes(static_cast<double>(memory))),
              "lower the batch, the context or the size of the model; folio inspect plan shows "
              "every buffer");
}

uint64_t PeakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace folio
