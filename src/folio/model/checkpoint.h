#pragma once

#include <filesystem>
#include <memory>

#include "folio/io/model_dir.h"
#include "folio/model/stored_model.h"

namespace folio {

// The model part of a checkpoint directory, as Hugging Face lays it out: config.json and
// model.safetensors. The tokenizer's files and train_state/ lie beside them and are others'
// business.

// Writes both files into the existing directory. Float32 weights only; adapters are left out
// (adapter.h).
void SaveModel(const std::filesystem::path& dir, const GptWeights& weights);

// Throws a kInput Error if `dir` is no directory or holds no model, naming what is missing.
GptConfig LoadModelConfig(const std::filesystem::path& dir);

// The weights of `dir` (F32, F16, BF16 or F64 in the file), checked against its configuration:
// every parameter there, of the right shape, and nothing else. Names may lack the prefix
// "transformer.", as in the original release; its attention masks are passed over, and so is an
// lm_head.weight that repeats a tied wte.
StoredModel OpenModelDir(const std::filesystem::path& dir, Loading loading = Loading::kMap);

// ReadWeights of that.
std::unique_ptr<GptWeights> LoadModel(const std::filesystem::path& dir, Dtype dtype = Dtype::kF32);

}  // namespace folio
