#include "folio/run/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "folio/model_files/families.h"

namespace folio {

std::vector<Field> RunConfig::Fields() {
  std::vector<Field> all;
  const auto add = [&](const char* prefix, std::vector<Field> fields) {
    std::ranges::move(WithPrefix(prefix, std::move(fields)), std::back_inserter(all));
  };
  add("model.", model.Fields());
  std::ranges::find(all, "model.model_type", &Field::key)->choices = FamilyNames();
  add("lora.", train.lora.Fields());
  add("train.", train.Fields());
  add("data.", data.Fields());
  add("log.", log.Fields());
  return all;
}

void RunSettings::UsePreset(const std::string& name) {
  if (!name.empty()) layers.UsePreset(name, FindPreset(name).settings);
}

void RunSettings::Resolve() {
  layers.Resolve();
  const auto follow = [&](const std::string& key, const std::string& value,
                          const std::string& what) {
    if (layers.layer(key) <= Layer::kPreset) layers.Set(Layer::kPreset, key, value, what);
  };
  const TrainConfig& train = config.train;
  if (train.rng == "torch") {
    follow("data.val_split", "tail", "follows train.rng");
  } else {
    follow("train.decay_steps", "0", "follows train.max_steps");
    if (layers.layer("train.learning_rate") > Layer::kPreset) {
      follow("train.min_lr", fmt::format("{:.12g}", train.learning_rate / 10),
             "follows train.learning_rate");
    }
  }
  layers.Resolve();
}

void RunSettings::Set(const std::string& key, const std::string& text) {
  layers.Set(Layer::kFlag, key, text, key);
}

}  // namespace folio
