#include "folio/model_files/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/tensor/blocks.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace {

constexpr uint64_t kMaxConfig = 1 << 20;  // bytes

// The file of weights of a model given as a directory, or as that file.
std::filesystem::path WeightsOf(const std::filesystem::path& model) {
  return DirOfModel(model) == model ? FindWeightsFile(model) : model;
}

bool IsZero(const TensorInfo& info) {
  std::vector<float> numbers(static_cast<size_t>(info.shape.count()));
  DecodeFloats(info.data, info.dtype, numbers);
  return std::ranges::all_of(numbers, [](float x) { return x == 0; });
}

// Refuses a tensor that is no parameter of the model, but for `biases` that it does without, by
// their names: those that are zeros change nothing.
void CheckOther(const TensorFile& file, const GptConfig& config, const Family& family,
                const std::map<std::string_view, Shape>& biases, const TensorInfo& info) {
  const auto refuse = [&](const std::string& why, const char* cause, const char* help) {
    throw InputError(fmt::format("{}: tensor '{}' {}", file.path().string(), info.name, why), cause,
                     help);
  };
  if (const auto bias = biases.find(info.name);
      bias != biases.end() && bias->second == info.shape) {
    file.RequireFloating(info);
    if (IsZero(info)) return;
    refuse("is not zero", "according to config.json the model has no such bias",
           "set bias, attention_bias, mlp_bias or layer_norm_bias in config.json to true");
  }
  const auto name = [&](std::string_view module) {
    return NameInFiles(family, FileFormat::kHuggingFace, -1, module, "weight");
  };
  const TensorInfo* wte = FindTensor(file, family, name("wte"));
  if (config.tie_word_embeddings && wte != nullptr && info.name == name(kHeadName)) {
    refuse(fmt::format("differs from '{}'", wte->name),
           "according to config.json they are the same tensor",
           "set tie_word_embeddings in config.json to false to have both");
  }
  refuse("is not part of the model", "config.json describes a model without it",
         "check lm_head_bias, tie_word_embeddings, position_embedding and n_layer in config.json");
}

// Refuses weights that are integers and their scales, by the names that these have, whether
// config.json tells of them or not.
void RefuseQuantised(const TensorFile& file) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".qweight", "GPTQ or AWQ"},
      {".weight.absmax", "bitsandbytes"},
      {".SCB", "bitsandbytes"},
      {".weight_scale_inv", "8-bit floats"},
      {".weight_scale", "compressed-tensors or 8-bit floats"},
      {".weight_packed", "compressed-tensors"},
      {"_blocks", "MXFP4"}};
  for (const TensorInfo& info : file.tensors()) {
    const auto* const kind = std::ranges::find_if(
        kEndings, [&](const auto& one) { return info.name.ends_with(one.first); });
    if (kind == std::end(kEndings)) continue;
    throw InputError(fmt::format("{}: quantized weights are not supported", file.path().string()),
                     fmt::format("tensor \"{}\" is stored as {}", info.name, kind->second),
                     "use the original model, or a GGUF file of it");
  }
}

}  // namespace

void SaveModel(const std::filesystem::path& dir, const GptWeights& weights,
               const SaveOptions& options) {
  if (!std::ranges::count(kModelDirDtypes, options.dtype)) {
    throw UsageError(
        fmt::format("{} is not supported in a model directory", DtypeName(options.dtype)),
        "expected F32, F16 or BF16");
  }
  const GptConfig& config = weights.config();
  const Family& family = FamilyFor(config, FileFormat::kHuggingFace);
  const GptConfig described = family.all_biases ? WithBiases(config) : config;
  std::vector<NamedTensor> tensors;
  for (TensorToWrite& tensor :
       TensorsToWrite(weights, described, family, FileFormat::kHuggingFace, options.dtype)) {
    tensors.push_back({.name = std::move(tensor.name),
                       .tensor = Tensor(nullptr, Dtype::kF32, tensor.shape),
                       .as = options.dtype,
                       .read = std::move(tensor.read)});
  }
  const GuardedDirectory inside(dir);
  WriteSafetensorsShards(dir, tensors, options.max_shard_bytes);
  WriteFileAtomically(dir / kGenerationConfigFile, GenerationConfigToJson(config));
  WriteFileAtomically(dir / kConfigFile, GptConfigToJson(config, options.dtype, options.checksums));
}

GptConfig LoadModelConfig(const std::filesystem::path& model) {
  const std::filesystem::path dir = DirOfModel(model);
  RequireDirectory(dir, "the model directory");
  const std::filesystem::path path = dir / kConfigFile;
  const bool config_there = Exists(path);
  if (!config_there && dir != model) {
    throw InputError(fmt::format("{}: weights without their configuration", model.string()),
                     fmt::format("{} is missing beside it", kConfigFile),
                     fmt::format("copy the model's {} there, too", kConfigFile));
  }
  if (!config_there && Exists(dir / kAdapterConfigFile)) {
    throw InputError(fmt::format("{}: an adapter, not a model", dir.string()),
                     fmt::format("it contains {}", kAdapterConfigFile),
                     fmt::format("give its base model, and --adapter {}", dir.string()));
  }
  if (!config_there || WeightsOf(model).empty()) {
    const std::string other = OtherProgramsModel(dir);
    throw InputError(fmt::format("{}: no model found", dir.string()),
                     fmt::format("{} is missing{}{}", config_there ? kWeightsFile : kConfigFile,
                                 other.empty() ? "" : "; ", other),
                     "give the directory of a checkpoint with config.json and model.safetensors, "
                     "such as RUN/last or RUN/best");
  }
  GptConfig config = GptConfigFromJson(ReadFile(path, kMaxConfig), path.string());
  const std::filesystem::path generation = dir / kGenerationConfigFile;
  if (Exists(generation)) {
    AddGenerationConfig(ReadFile(generation, kMaxConfig), generation.string(), config);
  }
  return config;
}

std::shared_ptr<const TensorFile> OpenWeights(const std::filesystem::path& model, Loading loading) {
  const std::filesystem::path path = WeightsOf(model);
  if (IsIndexName(path)) return std::make_shared<const ModelShards>(path, loading);
  if (IsTorchName(path)) return std::make_shared<const TorchFile>(path, loading);
  return std::make_shared<const SafetensorsFile>(path, loading);
}

StoredModel OpenModelDir(const std::filesystem::path& from, Loading loading) {
  const GptConfig config = LoadModelConfig(from);
  const auto file = OpenWeights(from, loading);
  const Family& family = FamilyFor(config, FileFormat::kHuggingFace);
  RefuseQuantised(*file);
  RequireBlocks(config, std::ssize(file->tensors()), file->path().string());
  std::map<std::string_view, Shape> biases;
  const ParamTable with_biases(WithBiases(config));
  for (const ParamInfo& param : with_biases.params()) {
    if (param.part != "bias") continue;
    for (const RowsInFiles& rows :
         TensorsInFiles(family, FileFormat::kHuggingFace, config, param)) {
      const TensorInfo* bias = FindTensor(*file, family, rows.name);
      if (bias != nullptr) biases[bias->name] = rows.shape;
    }
  }
  return FindParams(config, file, family, FileFormat::kHuggingFace, [&](const TensorInfo& info) {
    CheckOther(*file, config, family, biases, info);
  });
}

std::unique_ptr<GptWeights> LoadModel(const std::filesystem::path& model, Dtype dtype) {
  return ReadWeights(OpenModelDir(model), dtype);
}

}  // namespace folio
