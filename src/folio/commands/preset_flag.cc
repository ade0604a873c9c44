#include "folio/commands/preset_flag.h"

#include <utility>
#include <vector>

#include "folio/train/presets.h"

namespace folio {

void AddPresetFlag(Flags& flags, std::string* preset) {
  std::vector<std::string> names;
  for (const Preset& known : Presets()) names.push_back(known.name);
  flags.Value(
      Field{"preset", preset, "a named model with its training settings"}.Choices(std::move(names)),
      {.placeholder = "NAME"});
}

}  // namespace folio
