#pragma once

#include <string>

#include "folio/cli/flags.h"
#include "folio/io/settings.h"

namespace folio {

// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);

// Adds the preset's settings to `settings`, if one is named.
void UsePreset(Settings& settings, const std::string& preset);

}  // namespace folio
