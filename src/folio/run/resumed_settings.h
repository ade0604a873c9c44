#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/run/run_config.h"

namespace folio {

// The meaning of a setting that is another one now, for a run that goes on.
enum class Resumption {
  kFree,      // its numbers are the same
  kFromHere,  // from here on it is another run
  kFixed,     // cannot be
};
Resumption ResumptionOf(std::string_view key);

// Tells how the settings changed of a run that goes on at `step`: a line for each that is another
// one `now`, and one for all that make the learning rate another. Throws a kUsage Error that names
// the first that cannot be another.
std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step);

}  // namespace folio
