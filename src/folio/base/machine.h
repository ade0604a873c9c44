#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "folio/base/cgroups.h"

namespace folio {

// Memory of this machine in bytes, or what this process's cgroups let it have of that; 0 if the
// system does not tell.
uint64_t PhysicalMemoryBytes(const CgroupFiles& files = {});

// A size and alignment of memory for which the system may use pages that are larger than usual.
inline constexpr size_t kLargePageBytes = size_t{2} << 20;

// Asks the system for large pages in memory that was not touched yet: fewer page faults, and less
// address translation where it is visited at random. Only a hint: never fails.
void AdviseLargePages(void* memory, size_t bytes);

// Zeros that begin at a multiple of kLargePageBytes and take memory, large pages where the system
// likes, only where they are touched; null if it says no. To be given back with the same size.
std::byte* MapZeros(size_t bytes);
void UnmapZeros(std::byte* memory, size_t bytes);

// Memory in bytes, of the machine or of what cgroups let this process have of it; 0 where the
// system does not tell.
struct MachineMemory {
  uint64_t total = 0;
  uint64_t available = 0;  // without swapping, as of now
};
MachineMemory ThisMachinesMemory(const CgroupFiles& files = {});

// Throws a kResource Error if `what` ("this run") needs more memory than the machine has; `help`
// says what to do then.
void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help);

// The most memory that this process has held at a time since it began or since the last reset that
// worked, in bytes, 0 if the system does not tell.
uint64_t PeakMemoryBytes();
// False where the system does not allow it.
bool ResetPeakMemory();

}  // namespace folio
