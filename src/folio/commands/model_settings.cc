#include "folio/commands/model_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/cli/compute_flags.h"
#include "folio/formats/model_formats.h"
#include "folio/train/presets.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

std::vector<Field> WithFlagsOf(std::vector<Field> fields, const std::vector<std::string>& flags) {
  for (Field& field : fields) {
    if (std::ranges::find(flags, field.flag) == flags.end()) field.flag.clear();
  }
  return fields;
}

}  // namespace

void AddPresetFlag(Flags& flags, std::string* preset) {
  std::vector<std::string> names;
  for (const Preset& known : Presets()) names.push_back(known.name);
  flags.Value(
      Field{"preset", preset, "a named model with its training settings"}.Choices(std::move(names)),
      {.placeholder = "NAME"});
}

ModelSettings::ModelSettings(const std::vector<std::string>& flags)
    : settings_(WithFlagsOf(config_.Fields(), flags)) {}

void ModelSettings::AddFlags(Flags& flags) {
  AddPresetFlag(flags, &preset_);
  AddModelFlag(flags, &model_, /*required=*/false);
  flags.Settings(&settings_, {"train", "lora"});
}

void ModelSettings::SetPath(const std::string& path) {
  RefuseTogether(!path.empty() && !model_.empty(), path, "--model");
  if (!path.empty()) model_ = path;
}

void ModelSettings::Resolve(const ConfigSources& sources) {
  if (!preset_.empty() && !model_.empty()) {
    throw UsageError("--preset and --model do not go together", "both say which model is meant",
                     "leave one of them out");
  }
  if (!preset_.empty()) settings_.UsePreset(preset_, FindPreset(preset_).settings);
  settings_.ReadSources(sources);
  settings_.Resolve();
  if (model_.empty()) {
    config_.model.Validate("settings");
    config_.train.lora.Validate("settings");
    return;
  }
  for (const Field& field : settings_.fields()) {
    if (field.key.starts_with("model.") && settings_.layer(field.key) == Layer::kSet) {
      throw UsageError(fmt::format("--set {} does not go with --model", field.key),
                       fmt::format("'{}' says what the model is", model_), "leave one of them out");
    }
  }
}

void ModelSettings::Read(const ConfigSources& sources) {
  Resolve(sources);
  if (model_.empty()) return;
  config_.model = FindModel(model_).model.config;
}

std::string ModelSettings::name() const {
  if (!model_.empty()) return model_;
  return preset_.empty() ? "settings" : preset_;
}

int64_t ModelSettings::Context() const {
  return ContextOf(config_.model, config_.train);
}

}  // namespace folio
