#include <fmt/format.h>

#include <algorithm>

#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/io/json.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/run_config.h"

namespace folio {
namespace {

class ConfigShowCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "config show",
        .summary = "print all settings, and where each comes from",
        .group = "model",
        .details =
            "Settings come, strongest first, from flags, --set, FOLIO_* environment variables,\n"
            "--config FILE (else the nearest folio.toml above the current directory, then\n"
            "$XDG_CONFIG_HOME/folio/config.toml), the preset, and folio itself.",
        .examples = {"folio config show --preset char-cpu --origin",
                     "folio config show --preset gpt2 > folio.toml"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Switch("--origin", &origin_, "say where each value comes from");
    AddPresetFlag(flags, &preset_);
    flags.Settings(&settings_.layers, {"train", "data", "log"});
  }

  int Run(const Context& context) override {
    settings_.UsePreset(preset_);
    settings_.layers.ReadSources(context.sources);
    settings_.Resolve();
    // A run takes these over from the model that it begins with.
    const TrainConfig& train = settings_.config.train;
    if (!train.init.empty()) {
      UseInitialModel(settings_, FindModel(train.init, Loading::kMap, train.init_adapter));
    }
    Console& console = context.console;
    console.Result(console.json() ? AsJson()
                   : origin_      ? WithOrigins(console.out())
                                  : settings_.layers.ToToml());
    return 0;
  }

 private:
  std::string AsJson() const {
    Json all = Json::object();
    for (const Field& field : settings_.layers.fields()) {
      all[field.key] = {{"value", Value(field)}, {"origin", settings_.layers.origin(field.key)}};
    }
    return Json{{"schema", 1}, {"settings", all}}.dump(2) + "\n";
  }

  static Json Value(const Field& field) {
    const std::string text = FieldText(field);
    if (std::holds_alternative<std::string*>(field.value)) return text;
    return ParseJson(text, field.key);
  }

  std::string WithOrigins(const Terminal& terminal) const {
    size_t left = 0;
    for (const Field& field : settings_.layers.fields()) {
      left = std::max(left, field.key.size() + 3 + FieldText(field).size());
    }
    std::string text;
    for (const Field& field : settings_.layers.fields()) {
      const std::string setting = fmt::format("{} = {}", field.key, FieldText(field));
      const bool built_in = settings_.layers.layer(field.key) == Layer::kBuiltIn;
      const std::string& origin = settings_.layers.origin(field.key);
      text += fmt::format("{:<{}}  {}\n", setting, left,
                          built_in ? Styled(terminal, Style::kDim, origin) : origin);
    }
    return text;
  }

  bool origin_ = false;
  std::string preset_;
  RunSettings settings_;
};

}  // namespace

std::unique_ptr<Command> NewConfigShowCommand() {
  return std::make_unique<ConfigShowCommand>();
}

}  // namespace folio
