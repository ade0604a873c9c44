#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace folio {

// The files in which Linux tells of processors and of the limits of containers.
struct MachineFiles {
  std::string processors = "/sys/devices/system/cpu";
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroups = "/sys/fs/cgroup";
};

// The name by which the network knows the machine; "localhost" where it has none.
std::string HostName();

// ---- Memory ------------------------------------------------------------------------------------

// Memory in bytes, of the machine or of what cgroups (version 1 or 2) let this process have of it;
// 0 where the system does not tell.
struct MachineMemory {
  uint64_t total = 0;
  uint64_t available = 0;  // without swapping, as of now
};
MachineMemory ThisMachinesMemory(const MachineFiles& files = {});

// Throws a kResource Error if `what` ("this run") needs more memory than the machine has; `help`
// says what to do then.
void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help);

// The most memory that this process has held at a time since it began or since the last reset that
// worked, in bytes, 0 if the system does not tell.
uint64_t PeakMemoryBytes();
// False where the system does not allow it.
bool ResetPeakMemory();
// The memory that this process holds now, likewise.
uint64_t HeldMemoryBytes();

// A size and alignment of memory for which the system may use pages that are larger than usual.
inline constexpr size_t kLargePageBytes = size_t{2} << 20;

// Asks the system for large pages in memory that was not touched yet: fewer page faults, and less
// address translation where it is visited at random. Only a hint: never fails.
void AdviseLargePages(void* memory, size_t bytes);

// Zeros that begin at a multiple of kLargePageBytes and take memory, large pages where the system
// likes, only where they are touched; null if it says no. To be given back with the same size.
std::byte* MapZeros(size_t bytes);
void UnmapZeros(std::byte* memory, size_t bytes);

// ---- Processors --------------------------------------------------------------------------------

// The processors that this process may run on, by Linux's numbers.
std::vector<int> ProcessorsOfThisProcess();
// The number of the one that this thread is on just now; -1 where the system does not say.
int ThisProcessor();
bool IsOnProcessor(int number);  // never for a number below 0

// Returns how many threads that compute all the time these processors have room for: one for each
// physical core among them (hyperthreads share a core's arithmetic), and no more than the time that
// the process is given in its cgroups (version 1 or 2, rounded up). A processor that Linux says
// nothing of is a core of its own. At least 1.
int UsableCores(const std::vector<int>& processors, const MachineFiles& files = {});

// Has this thread, and those that it begins from now on, run as soon as they wake beside threads
// that compute, in turns of 0.1 ms: their share of the processors stays the same. Does nothing
// where the system has no such turns (Linux before 6.12) or does not allow it.
void TakeShortTurns();

}  // namespace folio
