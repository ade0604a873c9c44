#include "folio/cli/version.h"

namespace folio {

std::string Version() {
  return FOLIO_VERSION;
}

std::string Compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string BuildType() {
  return FOLIO_BUILD_TYPE;
}

}  // namespace folio
