#include "folio/formats/out_in_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/model/config_json.h"

namespace folio {

GptConfig ConfigOfFields(const Json& fields, const std::string& where, int64_t tensors) {
  GptConfig config = GptConfigFromJson(fields.dump(), where);
  constexpr int64_t kLeast = 6;  // tensors of a block
  if (config.n_layer <= tensors / kLeast) return config;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it has {} tensors for {} blocks", tensors, config.n_layer),
                   "copy or download it again: it may be damaged");
}

StoredModel OutInModel(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string, std::less<>> used = {fmt::format("{}{}.weight", prefix, kHeadName)};
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = prefix + info.name;
    const bool turned = info.kind == ParamKind::kLinear;
    model.params.push_back({model.file->Require(name, StoredShape(info.shape, turned)), turned});
    used.insert(name);
  }
  for (const TensorInfo& info : model.file->tensors()) {
    if (!info.name.starts_with(prefix) || used.contains(info.name) || IsMaskBuffer(info.name))
      continue;
    throw InputError(fmt::format("{}: tensor '{}' is not part of the model",
                                 model.file->path().string(), info.name),
                     "folio runs GPT-2 models only");
  }
  return model;
}

std::vector<TensorToWrite> OutInTensors(const GptWeights& weights, bool biases, Dtype matrices) {
  const auto ours = TensorsByName(weights);
  std::vector<TensorToWrite> tensors;
  const ParamTable table(biases ? WithBiases(weights.config()) : weights.config());
  for (const ParamInfo& info : table.params()) {
    const bool turned = info.kind == ParamKind::kLinear;
    const auto found = ours.find(info.name);
    const Tensor* source = found == ours.end() ? nullptr : found->second;
    const auto read = [source, turned](int64_t row, std::span<float> out) {
      if (source == nullptr) {
        std::ranges::fill(out, 0.0f);
      } else {
        GatherRows(*source, turned, row, out);
      }
    };
    tensors.push_back({info.name, IsMatrix(info) ? matrices : Dtype::kF32,
                       StoredShape(info.shape, turned), read});
  }
  return tensors;
}

std::string WhyNotOnlySizes(const GptConfig& config) {
  std::vector<std::string> reasons;
  if (std::string other = WhyNotGpt2(config); !other.empty()) reasons.push_back(std::move(other));
  const auto need = [&](bool same, std::string other) {
    if (!same) reasons.push_back(std::move(other));
  };
  need(config.scale_attn_weights, "scale_attn_weights = false");
  need(!config.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx = true");
  need(config.tie_word_embeddings, "tie_word_embeddings = false");
  need(config.inner() == 4 * config.n_embd, fmt::format("n_inner = {}", config.inner()));
  need(config.layer_norm_epsilon == 1e-5,
       fmt::format("layer_norm_epsilon = {}", config.layer_norm_epsilon));
  return Join(reasons, ", ");
}

}  // namespace folio
