#pragma once

#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/io/settings.h"
#include "folio/model/config.h"
#include "folio/train/config.h"

namespace folio {

// Everything that can be set: sections model, lora (which is train.lora), train, data and log.
struct RunConfig {
  GptConfig model;
  TrainConfig train;
  DataConfig data;
  LogConfig log;

  // Keys "model.n_layer", "train.batch_size", ... The fields point into this object.
  std::vector<Field> Fields();
};

// A configuration, and the layers of settings that its values come from (io/settings.h).
struct RunSettings {
  RunSettings() = default;
  RunSettings(const RunSettings&) = delete;

  // Adds the settings of a preset (train/config.h), "" for none. Throws a kUsage Error for an
  // unknown one.
  void UsePreset(const std::string& name);
  // Gives each field its strongest value, and those that nobody set what follows from others:
  // min_lr is a tenth of a learning rate that is set, the decay ends with the steps. Runs with
  // PyTorch's random numbers have nanoGPT's decay and held-out text.
  void Resolve();
  // Sets one value above those of presets, files and the environment: Set("train.max_steps",
  // "500").
  void Set(const std::string& key, const std::string& text);

  RunConfig config;
  Settings layers{config.Fields()};
};

}  // namespace folio
