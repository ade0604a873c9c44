#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/io/settings.h"
#include "folio/run/run_config.h"

namespace folio {

// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);

// The model that a command looks at without a run: a preset's, one that lies somewhere, or the
// one that the settings of all layers describe.
class ModelSettings {
 public:
  // `flags` names the settings that get a flag of their own: "--batch".
  explicit ModelSettings(const std::vector<std::string>& flags = {});
  ModelSettings(const ModelSettings&) = delete;

  // --preset, --model and the flags of the constructor.
  void AddFlags(Flags& flags);

  // Gathers the settings. Throws a kUsage Error if they contradict each other.
  void Resolve(const ConfigSources& sources);
  // The same; with --model the model section is what lies there. Throws a kInput Error if that is
  // no model.
  void Read(const ConfigSources& sources);

  const RunConfig& config() const { return config_; }
  // Where the model lies, or "".
  const std::string& path() const { return model_; }
  // Another way to say so. Throws a kUsage Error if both were used.
  void SetPath(const std::string& path);
  // The preset or the path, or "settings".
  std::string name() const;
  // Returns true where a preset or a path says which model it is.
  bool named() const { return !preset_.empty() || !model_.empty(); }
  // Returns true where somebody said what that setting is, and not a preset alone.
  bool told(const std::string& setting) const { return settings_.layer(setting) > Layer::kPreset; }
  // Returns true where that setting has a flag of its own on the command line.
  bool flagged(const std::string& setting) const {
    return settings_.layer(setting) == Layer::kFlag;
  }
  // T: train.context, or n_positions where that is 0. Throws a kUsage Error beyond n_positions.
  int64_t Context() const;

 private:
  std::string preset_, model_;
  RunConfig config_;
  Settings settings_;
};

}  // namespace folio
