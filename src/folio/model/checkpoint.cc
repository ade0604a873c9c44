#include "folio/model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "folio/model/adapter.h"
#include "folio/model/config_json.h"
#include "folio/model/family_tensors.h"
#include "folio/model/head_layout.h"
#include "folio/tensor/convert.h"

namespace folio {
namespace {

constexpr uint64_t kMaxConfig = 1 << 20;  // bytes

// The file of weights of a model given as a directory, or as that file.
std::filesystem::path WeightsOf(const std::filesystem::path& model) {
  return DirOfModel(model) == model ? FindWeightsFile(model) : model;
}

bool IsZero(const TensorInfo& info) {
  if (!IsFloating(info.dtype)) return false;
  std::vector<float> numbers(static_cast<size_t>(info.shape.count()));
  DecodeFloats(info.data, info.dtype, numbers);
  return std::ranges::all_of(numbers, [](float x) { return x == 0; });
}

// The tensors of a file that are no parameters of the model: biases that it does without are
// passed over if they are zeros, so that they change nothing.
class OtherTensors {
 public:
  OtherTensors(const TensorFile& file, const GptConfig& config, const Family& family)
      : file_(file) {
    const ParamTable table(WithBiases(config));
    const auto find = [&](const ParamInfo& info) {
      return FindTensor(file, family, NameInFiles(family, FileFormat::kHuggingFace, info));
    };
    for (const ParamInfo& info : table.params()) {
      if (info.part != "bias") continue;
      if (const TensorInfo* bias = find(info)) biases_.emplace(bias->name, info.shape);
    }
    if (config.tie_word_embeddings) wte_ = find(table.params()[0]);
    head_ = NameInFiles(family, FileFormat::kHuggingFace, -1, kHeadName, "weight");
  }

  // Throws unless the file may hold it.
  void Check(const TensorInfo& info) const {
    const auto bias = biases_.find(info.name);
    if (bias != biases_.end() && bias->second == info.shape) {
      if (IsZero(info)) return;
      throw InputError(
          fmt::format("{}: tensor '{}' is not zero", file_.path().string(), info.name),
          "config.json beside it says that the model has no such bias",
          "set bias, attention_bias, mlp_bias or layer_norm_bias in config.json to true");
    }
    if (wte_ != nullptr && info.name == head_) {
      throw InputError(fmt::format("{}: tensor '{}' differs from '{}'", file_.path().string(),
                                   info.name, wte_->name),
                       "config.json beside it says that the two are one",
                       "set tie_word_embeddings in config.json to false to have both");
    }
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the model", file_.path().string(), info.name),
        "config.json beside it describes a model without it",
        "check lm_head_bias, tie_word_embeddings, position_embedding and n_layer in config.json; "
        "of other programs' models folio runs GPT2LMHeadModel, and no adapters");
  }

 private:
  const TensorFile& file_;
  std::map<std::string, Shape> biases_;
  const TensorInfo* wte_ = nullptr;  // if it is the head's matrix too
  std::string head_;
};

}  // namespace

void SaveModel(const std::filesystem::path& dir, const GptWeights& weights,
               const SaveOptions& options) {
  if (!std::ranges::count(kModelDirDtypes, options.dtype)) {
    throw UsageError(fmt::format("a model directory holds no {}", DtypeName(options.dtype)),
                     "expected F32, F16 or BF16");
  }
  const GptConfig& config = weights.config();
  const auto own = TensorsByName(weights);
  std::vector<float> zeros(static_cast<size_t>(
      std::max({config.n_embd, config.head_layout().qkv_width(), config.inner()})));
  const Family& family = FamilyFor(config, FileFormat::kHuggingFace);
  const ParamTable table(family.all_biases ? WithBiases(config) : config);
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& info : table.params()) {
    const auto found = own.find(info.name);
    tensors.push_back({NameInFiles(family, FileFormat::kHuggingFace, info),
                       found != own.end() ? *found->second : Tensor(zeros.data(), info.shape),
                       options.dtype});
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
  const bool config_there = std::filesystem::exists(path);
  if (!config_there && dir != model) {
    throw InputError(fmt::format("{}: weights without their configuration", model.string()),
                     fmt::format("{} is missing beside it", kConfigFile),
                     fmt::format("copy the model's {} there too", kConfigFile));
  }
  if (!config_there && std::filesystem::exists(dir / kAdapterConfigFile)) {
    throw InputError(
        fmt::format("{}: an adapter, and no model", dir.string()),
        fmt::format("it holds {}", kAdapterConfigFile),
        fmt::format("give the model that it was trained for, and --adapter {}", dir.string()));
  }
  if (!config_there || WeightsOf(model).empty()) {
    throw InputError(fmt::format("{}: no model here", dir.string()),
                     fmt::format("{} is missing", config_there ? kWeightsFile : kConfigFile),
                     "give the directory of a checkpoint: one that holds config.json and "
                     "model.safetensors, such as RUN/last or RUN/best");
  }
  GptConfig config = GptConfigFromJson(ReadFile(path, kMaxConfig), path.string());
  const std::filesystem::path generation = dir / kGenerationConfigFile;
  if (std::filesystem::exists(generation)) {
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
  RequireBlocks(config, family, std::ssize(file->tensors()), file->path().string());
  const OtherTensors others(*file, config, family);
  return FindParams(config, file, family, FileFormat::kHuggingFace,
                    [&](const TensorInfo& info) { others.Check(info); });
}

std::unique_ptr<GptWeights> LoadModel(const std::filesystem::path& model, Dtype dtype) {
  return ReadWeights(OpenModelDir(model), dtype);
}

}  // namespace folio
