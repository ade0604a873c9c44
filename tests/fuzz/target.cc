#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "bodies.h"

// What libFuzzer calls for one input: stops the process, which is a finding, where the target's
// body fails.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto holds = folio::FOLIO_FUZZ_BODY({reinterpret_cast<const char*>(data), size});
  if (holds) return 0;
  std::fprintf(stderr, "%s\n", holds.message());
  std::abort();
}
