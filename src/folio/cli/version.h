#pragma once

#include <string>

namespace folio {

std::string Version();    // "0.2.0"
std::string Compiler();   // "GCC 12.2.0"
std::string BuildType();  // "Release"

}  // namespace folio
