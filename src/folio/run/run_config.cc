#include "folio/run/run_config.h"

#include "folio/train/presets.h"

namespace folio {

std::vector<Field> RunConfig::Fields() {
  std::vector<Field> all;
  for (auto& section :
       {WithPrefix("model.", model.Fields()), WithPrefix("lora.", model.lora.Fields()),
        WithPrefix("train.", train.Fields()), WithPrefix("data.", data.Fields()),
        WithPrefix("log.", log.Fields())}) {
    all.insert(all.end(), section.begin(), section.end());
  }
  return all;
}

void RunSettings::UsePreset(const std::string& name) {
  if (!name.empty()) layers.UsePreset(name, FindPreset(name).settings);
}

void RunSettings::Set(const std::string& key, const std::string& text) {
  layers.Set(Layer::kFlag, key, text, key);
}

}  // namespace folio
