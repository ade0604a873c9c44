#include "folio/model/checkpoint.h"

#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "folio/model/config_json.h"

namespace folio {
namespace {

std::string NameInFile(const TensorFile& file, const std::string& name) {
  if (file.Find(name) == nullptr && name.starts_with(kNamePrefix)) {
    std::string bare = name.substr(kNamePrefix.size());
    if (file.Find(bare) != nullptr) return bare;
  }
  return name;
}

std::shared_ptr<const TensorFile> OpenWeights(const std::filesystem::path& dir, Loading loading) {
  const std::filesystem::path path = FindWeightsFile(dir);
  if (path.filename() == kTorchWeightsFile) {
    return std::make_shared<const TorchFile>(path, loading);
  }
  return std::make_shared<const SafetensorsFile>(path, loading);
}

// Buffers of causal masks in old files: "h.0.attn.bias", "h.0.attn.masked_bias".
bool IsMaskBuffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

// Refuses a tensor that the model has no place for: the configuration would then be another
// model's.
void RefuseOthers(const TensorFile& file, const GptConfig& config,
                  const std::set<std::string>& used) {
  const std::string head = fmt::format("{}.weight", kHeadName);
  for (const TensorInfo& info : file.tensors()) {
    const bool tied_head = config.tie_word_embeddings && info.name == head &&
                           info.shape == Shape{config.vocab_size, config.n_embd};
    if (used.contains(info.name) || IsMaskBuffer(info.name) || tied_head) continue;
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the model", file.path().string(), info.name),
        "config.json beside it describes a model without it",
        "check bias, attention_bias, mlp_bias, layer_norm_bias, lm_head_bias, tie_word_embeddings, "
        "position_embedding and n_layer in config.json");
  }
}

}  // namespace

void SaveModel(const std::filesystem::path& dir, const GptWeights& weights) {
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind == ParamKind::kAdapter) continue;
    tensors.push_back({info.name, weights.table().View(info, weights.flat())});
  }
  WriteSafetensors(dir / kWeightsFile, tensors);
  WriteFileAtomically(dir / kConfigFile, GptConfigToJson(weights.config()));
}

GptConfig LoadModelConfig(const std::filesystem::path& dir) {
  RequireDirectory(dir, "the model directory");
  const std::filesystem::path path = dir / kConfigFile;
  const bool config_there = std::filesystem::exists(path);
  if (!config_there || FindWeightsFile(dir).empty()) {
    throw InputError(fmt::format("{}: no model here", dir.string()),
                     fmt::format("{} is missing", config_there ? kWeightsFile : kConfigFile),
                     "give the directory of a checkpoint: one that holds config.json and "
                     "model.safetensors, such as RUN/last or RUN/best");
  }
  constexpr uint64_t kMaxConfig = 1 << 20;
  return GptConfigFromJson(ReadFile(path, kMaxConfig), path.string());
}

StoredModel OpenModelDir(const std::filesystem::path& dir, Loading loading) {
  StoredModel model{.config = LoadModelConfig(dir)};
  model.file = OpenWeights(dir, loading);
  std::set<std::string> used;
  const ParamTable table(model.config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = NameInFile(*model.file, info.name);
    model.params.push_back({model.file->Require(name, info.shape)});
    used.insert(name);
  }
  RefuseOthers(*model.file, model.config, used);
  return model;
}

std::unique_ptr<GptWeights> LoadModel(const std::filesystem::path& dir, Dtype dtype) {
  return ReadWeights(OpenModelDir(dir), dtype);
}

}  // namespace folio
