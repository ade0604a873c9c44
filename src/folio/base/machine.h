#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace folio {

// The files in which Linux describes processors and the limits of containers.
struct MachineFiles {
  std::string processors = "/sys/devices/system/cpu";
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroups = "/sys/fs/cgroup";
};

// The name by which the network knows the machine; "localhost" where it has none.
std::string HostName();

// ---- Memory ------------------------------------------------------------------------------------

// Memory in bytes, of the machine or of what its cgroups (version 1 or 2) allow this process; 0
// where the system does not say.
struct MachineMemory {
  uint64_t total = 0;
  uint64_t available = 0;  // now, without swapping
};
MachineMemory ThisMachinesMemory(const MachineFiles& files = {});

// Throws a kResource Error if `what` ("this run") needs more memory than the machine has; `help`
// says what to do then.
void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help);

// The most memory in bytes that this process has held at once since it began or since the last
// successful reset; 0 if the system does not say.
uint64_t PeakMemoryBytes();
// Returns false if the system does not allow it.
bool ResetPeakMemory();
// The memory in bytes that this process holds now, 0 if the system does not say.
uint64_t HeldMemoryBytes();

// A size and alignment of memory for which the system may use pages that are larger than usual.
inline constexpr size_t kLargePageBytes = size_t{2} << 20;

// Asks the system for large pages in memory that is still untouched: fewer page faults, and cheaper
// address translation for random access. Only a hint: never fails.
void AdviseLargePages(void* memory, size_t bytes);

// Returns zeros that begin at a multiple of kLargePageBytes and take memory only where they are
// touched, in large pages if the system provides them; null if the system refuses. Must be given
// back with the same size.
std::byte* MapZeros(size_t bytes);
void UnmapZeros(std::byte* memory, size_t bytes);

// ---- Processors --------------------------------------------------------------------------------

// The processors that this process may run on, by Linux's numbers.
std::vector<int> ProcessorsOfThisProcess();
// The number of the processor that this thread runs on now; -1 if the system does not say.
int ThisProcessor();
bool IsOnProcessor(int number);  // false for a number below 0

// Returns how many threads that compute all the time these processors have room for: one for each
// physical core among them (hyperthreads share a core's arithmetic), and no more than the processor
// time that its cgroups allow the process (version 1 or 2, rounded up). A processor that Linux does
// not describe counts as a core. At least 1.
int UsableCores(const std::vector<int>& processors, const MachineFiles& files = {});

// Makes this thread, and threads that it starts later, run as soon as they wake up while other
// threads compute, in time slices of 0.1 ms: their share of the processors stays the same. Does
// nothing where the system has no such slices (Linux before 6.12) or does not allow it.
void TakeShortTurns();

}  // namespace folio
