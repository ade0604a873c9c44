#include "folio/model/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/safetensors.h"
#include "folio/model/weight_init.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdapterPrefix = "base_model.model.";

// Kinds of adapters that PEFT has and this is not, by the key that says so: it may be missing,
// null, false or empty.
constexpr std::array kOtherKinds = {"alora_invocation_tokens",
                                    "alpha_pattern",
                                    "arrow_config",
                                    "exclude_modules",
                                    "kasa_config",
                                    "layer_replication",
                                    "layers_to_transform",
                                    "lora_bias",
                                    "modules_to_save",
                                    "monteclora_config",
                                    "rank_pattern",
                                    "target_parameters",
                                    "trainable_token_indices",
                                    "use_bdlora",
                                    "use_dora",
                                    "use_qalora",
                                    "use_rslora",
                                    "velora_config"};

bool SaysNo(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

[[noreturn]] void RefuseAdapter(const std::string& where, std::string_view key, const Json& value) {
  throw InputError(fmt::format("{}: {} is not supported", where, key),
                   fmt::format("it is {}", value.dump()),
                   "folio has plain LoRA adapters of the four linear layers of a block");
}

LoraConfig ConfigFromJson(const Json& json, const std::string& where) {
  if (const Json& type = json.at("peft_type"); type != "LORA")
    RefuseAdapter(where, "peft_type", type);
  if (const Json* bias = json.find("bias"); bias != nullptr && *bias != "none") {
    RefuseAdapter(where, "bias", *bias);
  }
  for (const char* key : kOtherKinds) {
    if (const Json* value = json.find(key); value != nullptr && !SaysNo(*value)) {
      RefuseAdapter(where, key, *value);
    }
  }
  LoraConfig config{.rank = json.at("r").get<int64_t>(),
                    .alpha = json.at("lora_alpha").get<double>(),
                    .targets = ""};
  if (const Json* dropout = json.find("lora_dropout")) config.dropout = dropout->get<double>();
  const Json& targets = json.at("target_modules");
  if (!targets.is_array() || targets.empty()) RefuseAdapter(where, "target_modules", targets);
  for (const Json& target : targets) {
    config.targets += (config.targets.empty() ? "" : ",") + target.text();
  }
  constexpr int64_t kMaxRank = 65536;
  if (config.rank < 1 || config.rank > kMaxRank || !(config.alpha > 0) || !(config.dropout >= 0) ||
      !(config.dropout < 1)) {
    throw InputError(fmt::format("{}: not an adapter's configuration", where),
                     fmt::format("r is {}, lora_alpha {}, lora_dropout {}", config.rank,
                                 config.alpha, config.dropout));
  }
  return config;
}

// Whether both mean the same adapters; dropout is a matter of training.
bool Same(const LoraConfig& a, const LoraConfig& b) {
  return a.rank == b.rank && a.scale() == b.scale() &&
         std::ranges::all_of(kLinearLayers, [&](std::string_view layer) {
           return a.Adapts(layer) == b.Adapts(layer);
         });
}

// weight (in,out) += scale (b a)^T, summed in double: a (rank,in), b (out,rank).
template <class T>
void AddProduct(const Tensor& weight, const Tensor& a, const Tensor& b, double scale) {
  const int64_t I = weight.dim(0), O = weight.dim(1), R = a.dim(0);
  const T *pa = a.data<T>(), *pb = b.data<T>();
  T* w = weight.data<T>();
  ParallelRange(I, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t o = 0; o < O; ++o) {
        double sum = 0;
        for (int64_t r = 0; r < R; ++r) {
          sum += static_cast<double>(pa[r * I + i]) * static_cast<double>(pb[o * R + r]);
        }
        w[i * O + o] = static_cast<T>(static_cast<double>(w[i * O + o]) + scale * sum);
      }
    }
  });
}

void MergeLayer(const LinearParams& from, const LinearParams& to, double scale) {
  if (!from.lora_a) return;
  if (to.weight.dtype() == Dtype::kF64) {
    AddProduct<double>(to.weight, from.lora_a, from.lora_b, scale);
  } else {
    AddProduct<float>(to.weight, from.lora_a, from.lora_b, scale);
  }
}

}  // namespace

void SaveAdapter(const fs::path& dir, const GptWeights& weights, const std::string& base) {
  const LoraConfig& lora = weights.config().lora;
  FOLIO_CHECK(lora.on(), "the model has no adapters");
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    tensors.push_back(
        {std::string(kAdapterPrefix) + info.name, weights.table().View(info, weights.flat())});
  }
  WriteSafetensors(dir / kAdapterWeightsFile, tensors);
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", base},
                     {"r", lora.rank},
                     {"lora_alpha", lora.scale() * static_cast<double>(lora.rank)},
                     {"lora_dropout", lora.dropout},
                     {"target_modules", Split(lora.targets, ',')},
                     {"fan_in_fan_out", true},  // base weights are (in,out)
                     {"bias", "none"},
                     {"inference_mode", true}};
  WriteFileAtomically(dir / kAdapterConfigFile, json.dump(2) + "\n");
}

LoraConfig LoadAdapterConfig(const fs::path& dir) {
  constexpr uint64_t kMaxConfig = 1 << 20;
  const std::string where = (dir / kAdapterConfigFile).string();
  try {
    return ConfigFromJson(ParseJson(ReadFile(where, kMaxConfig), where), where);
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: not an adapter's configuration", where), error.what());
  }
}

void LoadAdapter(const fs::path& dir, const GptWeights& weights) {
  const LoraConfig found = LoadAdapterConfig(dir);
  const LoraConfig& wanted = weights.config().lora;
  if (!Same(found, wanted)) {
    throw InputError(fmt::format("{}: other adapters than those of this run", dir.string()),
                     fmt::format("they have rank {}, alpha {:g} and targets {}; the settings say "
                                 "rank {}, alpha {:g} and targets {}",
                                 found.rank, found.alpha, found.targets, wanted.rank,
                                 wanted.scale() * static_cast<double>(wanted.rank), wanted.targets),
                     "go on with the settings that the run began with");
  }
  const SafetensorsFile file(dir / kAdapterWeightsFile);
  std::set<std::string, std::less<>> names;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    const std::string name = std::string(kAdapterPrefix) + info.name;
    file.Require(name, info.shape);
    names.insert(name);
  }
  for (const TensorInfo& info : file.tensors()) {
    if (names.contains(info.name)) continue;
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the adapter", file.path().string(), info.name),
        fmt::format("{} beside it describes one without it", kAdapterConfigFile));
  }
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    const Tensor to = weights.table().View(info, weights.flat());
    file.Read(std::string(kAdapterPrefix) + info.name,
              std::span(to.data<float>(), static_cast<size_t>(to.count())));
  }
}

std::unique_ptr<GptWeights> MergeAdapter(const GptWeights& weights) {
  GptConfig config = weights.config();
  const double scale = config.lora.scale();
  config.lora = {};
  auto merged = std::make_unique<GptWeights>(config, weights.flat().dtype());
  InitWeightsFrom(weights, *merged);
  for (size_t l = 0; l < weights.params().h.size(); ++l) {
    const BlockParams& from = weights.params().h[l];
    const BlockParams& to = merged->params().h[l];
    MergeLayer(from.c_attn, to.c_attn, scale);
    MergeLayer(from.attn_c_proj, to.attn_c_proj, scale);
    MergeLayer(from.c_fc, to.c_fc, scale);
    MergeLayer(from.mlp_c_proj, to.mlp_c_proj, scale);
  }
  return merged;
}

}  // namespace folio
