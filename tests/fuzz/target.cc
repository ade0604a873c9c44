#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "bodies.h"

namespace folio {
namespace {

using Body = testing::AssertionResult (*)(std::string_view input);
Body body = nullptr;

const std::map<std::string, Body> bodies = {
#include "targets.inc"
};

}  // namespace
}  // namespace folio

// The target is named by the name under which the program was started.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  const auto found = folio::bodies.find(std::filesystem::path((*argv)[0]).filename().string());
  if (found == folio::bodies.end()) {
    std::fprintf(stderr, "%s is the name of no fuzz target\n", (*argv)[0]);
    std::exit(2);
  }
  folio::body = found->second;
  return 0;
}

// LibFuzzer calls this for one input: a failure of the target's body stops the process, which is a
// finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto holds = folio::body({reinterpret_cast<const char*>(data), size});
  if (holds) return 0;
  std::fprintf(stderr, "%s\n", holds.message());
  std::abort();
}
