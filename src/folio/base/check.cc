#include "folio/base/check.h"

#include <cstdio>
#include <cstdlib>

#include "folio/base/utf8.h"

namespace folio {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition,
               Visible(message, {.lines = false}).c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace folio
