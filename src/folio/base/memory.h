#pragma once

#include <cstdint>

namespace folio {

// Memory of this machine in bytes, 0 if the system does not tell.
uint64_t PhysicalMemoryBytes();

}  // namespace folio
