#pragma once

#include <string>

#include "folio/cli/flags.h"

namespace folio {

// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);

}  // namespace folio
