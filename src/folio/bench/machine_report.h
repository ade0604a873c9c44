#pragma once

#include <string>

namespace folio {

// What this machine offers to folio, how fast it multiplies matrices (measured for a moment), and
// what will be a problem: for people, or as one JSON object (`json`). `version` and `compiler` are
// the program's.
std::string DescribeMachine(const std::string& version, const std::string& compiler, bool json);

}  // namespace folio
