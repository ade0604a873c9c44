#pragma once

#include <filesystem>

namespace folio {

// A model directory, as Hugging Face lays it out, holds these two files, the tokenizer's and, of a
// run, train_state/.
inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kWeightsFile[] = "model.safetensors";

// Checkpoints of a run: both are whole model directories; `last` has train_state/ too. A run that
// trains adapters has them merged there, and by themselves in adapter/.
inline constexpr char kLastDir[] = "last";
inline constexpr char kBestDir[] = "best";
// Of a run that trains adapters: the model that they are for, as it was when training began.
inline constexpr char kBaseDir[] = "base";

// The model directory that `dir` means: itself if it holds a model, else, for a run directory,
// best/ or last/. `dir` if it is neither: loading it says what is missing.
std::filesystem::path FindModelDir(const std::filesystem::path& dir);

}  // namespace folio
