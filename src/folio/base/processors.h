#pragma once

#include <string>
#include <vector>

#include "folio/base/cgroups.h"

namespace folio {

// The processors that this process may run on, by Linux's numbers.
std::vector<int> ProcessorsOfThisProcess();

// The files in which Linux tells of processors and of the limits of containers.
struct ProcessorFiles {
  std::string processors = "/sys/devices/system/cpu";
  CgroupFiles cgroups = {};
};

// Returns how many threads that compute all the time these processors have room for: one for each
// physical core among them (hyperthreads share a core's arithmetic), and no more than the time that
// the process is given in its cgroups (version 1 or 2, rounded up). A processor that Linux says
// nothing of is a core of its own. At least 1.
int UsableCores(const std::vector<int>& processors, const ProcessorFiles& files = {});

// Has this thread, and those that it begins from now on, run as soon as they wake beside threads
// that compute, in turns of 0.1 ms: their share of the processors stays the same. Does nothing
// where the system has no such turns (Linux before 6.12) or does not allow it.
void TakeShortTurns();

}  // namespace folio
