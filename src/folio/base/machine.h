#pragma once

#include <cstdint>
#include <string>

namespace folio {

// Memory in bytes, 0 where the system does not tell.
struct MachineMemory {
  uint64_t total = 0;
  uint64_t available = 0;  // without swapping, as of now
};
MachineMemory ThisMachinesMemory();

// Throws a kResource Error if `what` ("this run") needs more memory than the machine has; `help`
// says what to do then.
void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help);

// The most memory that this process has held at a time since it began or since the last reset that
// worked, in bytes, 0 if the system does not tell.
uint64_t PeakMemoryBytes();
// False where the system does not allow it.
bool ResetPeakMemory();

}  // namespace folio
