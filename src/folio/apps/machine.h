#pragma once

#include <cstdint>
#include <string>

namespace folio {

// Throws a kResource Error if `what` ("this run") needs more memory than the machine has.
void RequireMemory(const std::string& what, uint64_t bytes);

// The most memory that this process has held at a time, in bytes, 0 if the system does not tell.
uint64_t PeakMemoryBytes();

}  // namespace folio
