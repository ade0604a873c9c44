#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace folio {

// One pass over memory.
struct MemoryPass {
  std::string name;
  double bytes = 0;                  // read and written by one run
  std::vector<double> seconds = {};  // of each run

  double bytes_per_second() const;  // at the median
};

// The best that the machine's memory does: reading an array (what it returns keeps the compiler
// from leaving that out), copying it to another, on all threads.
uint32_t ReadAll(const float* x, int64_t n);
void CopyAll(const float* from, float* to, int64_t n);

}  // namespace folio
