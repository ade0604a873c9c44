#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace folio {

// What libFuzzer calls for one input: stops the process, which is a finding, where `body` fails.
inline int RunFuzzTarget(testing::AssertionResult (*body)(std::string_view), const uint8_t* data,
                         size_t size) {
  const auto holds = body({reinterpret_cast<const char*>(data), size});
  if (holds) return 0;
  std::fprintf(stderr, "%s\n", holds.message());
  std::abort();
}

}  // namespace folio
