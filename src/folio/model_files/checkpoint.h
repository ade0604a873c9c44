#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "folio/io/model_dir.h"
#include "folio/io/tensor_file.h"
#include "folio/model/params.h"
#include "folio/model_files/stored_model.h"

namespace folio {

// The model part of a checkpoint directory, as Hugging Face lays it out: config.json,
// generation_config.json and model.safetensors, or shards of it. The tokenizer's files and
// train_state/ lie beside them and are others' business.

// The dtypes that such a directory can hold its tensors as.
inline constexpr std::array kModelDirDtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBF16};

struct SaveOptions {
  Dtype dtype = Dtype::kF32;                 // of every tensor, one of these
  uint64_t max_shard_bytes = 5'000'000'000;  // a larger model is cut into shards
  bool checksums = false;  // config.json says that the caller writes some (io/checksums.h)
};

// Writes these files into the existing directory, which holds no model of other shards. Float32
// weights only. A model that a family of other programs can express (families.h) has all of that
// family's parameters there: zeros for biases that it lacks. Others are marked so that no other
// program takes them for one.
// Throws a kUsage Error for another dtype.
void SaveModel(const std::filesystem::path& dir, const GptWeights& weights,
               const SaveOptions& options = {});

// The functions below take the directory, or one of the files of weights in it, which is then read
// whichever others there are.

// Throws a kInput Error if `model` is neither or holds no model, naming what is missing.
GptConfig LoadModelConfig(const std::filesystem::path& model);

// The weights, of a directory those of FindWeightsFile.
std::shared_ptr<const TensorFile> OpenWeights(const std::filesystem::path& model,
                                              Loading loading = Loading::kMap);

// The weights (F32, F16, BF16 or F64 in the file), checked against its configuration:
// every parameter there, of the right shape, and nothing else. Names may lack the prefix
// "transformer.", as in the original release; its attention masks are passed over, and so are an
// lm_head.weight that repeats a tied wte and biases of zeros that the model does without.
StoredModel OpenModelDir(const std::filesystem::path& from, Loading loading = Loading::kMap);

// ReadWeights of that.
std::unique_ptr<GptWeights> LoadModel(const std::filesystem::path& model,
                                      Dtype dtype = Dtype::kF32);

}  // namespace folio
