#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/io/settings.h"
#include "folio/model/config.h"
#include "folio/train/config.h"

namespace folio {

class Group;
struct PrepareOptions;

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
  // Gives each field its strongest value, and fields that are not set a value that follows from
  // others: min_lr is a tenth of a learning rate that is set, the decay ends with the steps. Runs
  // with PyTorch's random numbers have nanoGPT's decay and held-out text.
  void Resolve();
  // Sets one value above those of presets, files and the environment: Set("train.max_steps",
  // "500").
  void Set(const std::string& key, const std::string& text);

  RunConfig config;
  Settings layers{config.Fields()};
};

// Options of a TrainingRun (run/training_run.h) beside its settings.
struct TrainingRunOptions {
  // Texts, "-" for standard input, directories of texts (corpus/text_files.h), or one data set.
  // Empty: the run's own with `resume`, or that of the run whose config.toml is sources.file.
  std::vector<std::string> data = {};
  std::filesystem::path out = {};  // the run directory (run_directory.h)
  bool resume = false;             // continue from the last checkpoint
  // Continues likewise if there is a checkpoint, else begins. Settings of the beginning, such as
  // train.init and train.budget, are ignored if the run continues.
  bool begin_or_resume = false;
  bool overwrite = false;  // replace an existing run
  bool dry_run = false;    // write nothing that stays: for Plan only
  // Chooses size and steps for so many seconds (automatic_settings.h) if neither the size of the
  // model nor train.budget is set. 0: does not choose them.
  double budget_seconds = 0;
  ConfigSources sources = {.discover = false};
  // Called on the first rank with a sentence for people: a setting that was chosen, a limit.
  std::function<void(const std::string& note)> on_note = {};
  // Prepares the data set from texts, on the first rank: PrepareDataset, with hooks of the caller.
  // Empty for PrepareDataset without hooks.
  std::function<void(const PrepareOptions&)> prepare = {};
  // The ranks that train together (ranks/group.h), each with a TrainingRun of the same settings and
  // options; null for one rank alone. The first prepares the data, writes, and calls most hooks;
  // all must be able to read the directory and the data.
  Group* group = nullptr;
  // Data of at most so many bytes, a few tenths of a second, is compared with its hashes before the
  // run begins, larger data during training.
  int64_t hashed_at_once = int64_t{128} << 20;
};

}  // namespace folio
