#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace folio
