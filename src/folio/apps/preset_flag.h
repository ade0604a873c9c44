#pragma once

#include <string>

#include "folio/apps/flags.h"
#include "folio/apps/settings.h"

namespace folio {

// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);

// Adds the preset's settings to `settings`, if one is named.
void UsePreset(Settings& settings, const std::string& preset);

}  // namespace folio
