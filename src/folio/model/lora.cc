#include "folio/model/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "folio/model/block.h"
#include "folio/model/checkpoint.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/model/weight_init.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace {

bool Names(std::string_view target, std::string_view module) {
  return !target.empty() && module.ends_with(target) &&
         (module.size() == target.size() || module[module.size() - target.size() - 1] == '.');
}

// Calls visit(target) for each, until it returns true; whether it did.
template <class Visit>
bool AnyTarget(std::string_view targets, const Visit& visit) {
  for (;;) {
    const size_t comma = targets.find(',');
    if (visit(targets.substr(0, comma))) return true;
    if (comma == std::string_view::npos) return false;
    targets.remove_prefix(comma + 1);
  }
}

}  // namespace

const LoraConfig& NoAdapters() {
  static const LoraConfig none;
  return none;
}

bool LoraConfig::Adapts(std::string_view module) const {
  return on() && AnyTarget(targets, [&](std::string_view target) { return Names(target, module); });
}

std::vector<Field> LoraConfig::Fields() {
  return {
      Field{
          "rank", &rank,
          "train adapters of this rank (LoRA) beside the model's weights, which stay as they are; "
          "0 trains the weights",
          0, 65536}
          .WithFlag("--lora"),
      Field{"alpha", &alpha, "what adapters add is multiplied by alpha / rank; 0 means the rank", 0,
            1e6},
      Field{"targets", &targets,
            "layers with an adapter, between commas: c_attn, attn.c_proj, c_fc, mlp.c_proj; c_proj "
            "means both"},
      Field{"dropout", &dropout, "dropout of what the adapters read", 0, 1}.MaxExcluded(),
  };
}

void LoraConfig::Validate(const std::string& where) const {
  if (!on()) return;
  AnyTarget(targets, [&](std::string_view target) {
    if (std::ranges::any_of(kLinearLayers, [&](auto layer) { return Names(target, layer); })) {
      return false;
    }
    throw UsageError(fmt::format("{}: lora.targets names no layer '{}'", where, target), {},
                     fmt::format("the layers of a block are {}", fmt::join(kLinearLayers, ", ")));
  });
}

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

// Ways to begin that leave the weights of the model as they are. Others (PiSSA, OLoRA, LoftQ ...)
// change them, and what is in the files is beside weights that are nowhere.
constexpr std::array<std::string_view, 3> kPlainBeginnings = {"gaussian", "eva", "orthogonal"};

void CheckAdapterBeginning(const Json& json, const std::string& where) {
  const Json* init = json.find("init_lora_weights");
  if (init == nullptr || init->is_null() || init->is_boolean()) return;
  if (init->is_string() && std::ranges::count(kPlainBeginnings, init->text()) > 0) return;
  RefuseAdapter(where, "init_lora_weights", *init);
}

// The name of a layer as PEFT has it: the end of what the model calls it, "c_proj", "attn.c_proj",
// up to all of it, "transformer.h.0.attn.c_proj".
void CheckAdapterTarget(const Json& target, const std::string& where) {
  const LoraConfig one{.rank = 1, .targets = target.text()};
  const bool known = std::ranges::any_of(kLinearLayers, [&](std::string_view layer) {
    return one.Adapts(layer) || target.text().ends_with(fmt::format(".{}", layer));
  });
  if (known) return;
  RefuseAdapter(where, "an adapter of another layer", target);
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
  CheckAdapterBeginning(json, where);
  LoraConfig config{.rank = json.at("r").get<int64_t>(),
                    .alpha = json.at("lora_alpha").get<double>(),
                    .targets = ""};
  if (const Json* dropout = json.find("lora_dropout")) config.dropout = dropout->get<double>();
  const Json& targets = json.at("target_modules");
  if (!targets.is_array() || targets.empty()) RefuseAdapter(where, "target_modules", targets);
  for (const Json& target : targets) {
    CheckAdapterTarget(target, where);
    config.targets += (config.targets.empty() ? "" : ",") + target.text();
  }
  constexpr int64_t kMaxRank = 65536;
  if (config.rank < 1 || config.rank > kMaxRank || !(config.alpha > 0) || !(config.dropout >= 0) ||
      !(config.dropout < 1)) {
    throw InputError(fmt::format("{}: not an adapter's configuration", where),
                     fmt::format("r is {}, lora_alpha {}, lora_dropout {}", config.rank,
                                 config.alpha, config.dropout));
  }
  // Their result is multiplied by alpha / sqrt(r) then (D. Kalajdzievski, arXiv:2312.03732).
  const Json* rank_stabilized = json.find("use_rslora");
  if (rank_stabilized != nullptr && !SaysNo(*rank_stabilized)) {
    if (!rank_stabilized->is_boolean()) RefuseAdapter(where, "use_rslora", *rank_stabilized);
    config.alpha *= std::sqrt(static_cast<double>(config.rank));
  }
  return config;
}

Json ReadAdapterJson(const fs::path& dir) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const fs::path path = dir / kAdapterConfigFile;
  if (!fs::exists(path)) {
    throw InputError(fmt::format("{}: no adapter here", dir.string()),
                     fmt::format("{} is missing", kAdapterConfigFile),
                     "give the directory that PEFT's save_pretrained wrote, or RUN/last/adapter");
  }
  return ParseJson(ReadFile(path, kMostBytes), path.string());
}

// The help of an error where an adapter does not fit the model.
std::string AdapterHelp(const fs::path& dir) {
  const Json json = ReadAdapterJson(dir);
  const Json* base = json.find("base_model_name_or_path");
  if (base == nullptr || !base->is_string() || base->text().empty()) {
    return "give the model that it was trained for";
  }
  return fmt::format("give the model that it was trained for: {} says \"{}\"", kAdapterConfigFile,
                     base->text());
}

// True if both mean the same adapters; dropout is a matter of training.
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
  std::vector<double> turned(static_cast<size_t>(R * O));  // b, by rank
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t o = 0; o < O; ++o) turned[r * O + o] = static_cast<double>(pb[o * R + r]);
  }
  ParallelRange(I, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<double> sums(static_cast<size_t>(O));
    for (int64_t i = begin; i < end; ++i) {
      std::ranges::fill(sums, 0.0);
      for (int64_t r = 0; r < R; ++r) {
        const auto factor = static_cast<double>(pa[r * I + i]);
        const double* row = turned.data() + r * O;
        for (int64_t o = 0; o < O; ++o) sums[o] += factor * row[o];
      }
      for (int64_t o = 0; o < O; ++o) {
        w[i * O + o] = static_cast<T>(static_cast<double>(w[i * O + o]) + scale * sums[o]);
      }
    }
  });
}

using AdapterTensors = std::vector<std::pair<std::string, Shape>>;

// Throws unless the file holds just these.
void RequireJust(const TensorFile& file, const AdapterTensors& tensors, const std::string& cause) {
  for (const auto& [name, shape] : tensors) file.Require(name, shape);
  for (const TensorInfo& info : file.tensors()) {
    const auto is_name = [&](const auto& tensor) { return tensor.first == info.name; };
    if (std::ranges::any_of(tensors, is_name)) continue;
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the adapter", file.path().string(), info.name),
        cause);
  }
}

}  // namespace

void SaveAdapter(const fs::path& dir, const GptWeights& weights, const std::string& base) {
  const LoraConfig& lora = weights.table().lora();
  FOLIO_CHECK(lora.on(), "the model has no adapters");
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    tensors.push_back(
        {std::string(kAdapterPrefix) + info.name, weights.table().View(info, weights.flat())});
  }
  const GuardedDirectory inside(dir);
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
  const std::string where = (dir / kAdapterConfigFile).string();
  try {
    return ConfigFromJson(ReadAdapterJson(dir), where);
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: not an adapter's configuration", where), error.what());
  }
}

void LoadAdapter(const fs::path& dir, const GptWeights& weights) {
  const LoraConfig found = LoadAdapterConfig(dir);
  const LoraConfig& wanted = weights.table().lora();
  if (!Same(found, wanted)) {
    throw InputError(fmt::format("{}: other adapters than those of this run", dir.string()),
                     fmt::format("they have rank {}, alpha {:g} and targets {}; the settings say "
                                 "rank {}, alpha {:g} and targets {}",
                                 found.rank, found.alpha, found.targets, wanted.rank,
                                 wanted.scale() * static_cast<double>(wanted.rank), wanted.targets),
                     "go on with the settings that the run began with");
  }
  const SafetensorsFile file(dir / kAdapterWeightsFile);
  const auto name = [](const ParamInfo& info) { return std::string(kAdapterPrefix) + info.name; };
  AdapterTensors tensors;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind == ParamKind::kAdapter) tensors.emplace_back(name(info), info.shape);
  }
  RequireJust(file, tensors,
              fmt::format("{} beside it describes one without it", kAdapterConfigFile));
  for (const ParamInfo& info : weights.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    const Tensor to = weights.table().View(info, weights.flat());
    file.Read(name(info), std::span(to.data<float>(), static_cast<size_t>(to.count())));
  }
}

namespace {

std::shared_ptr<const TensorFile> OpenAdapterWeights(const fs::path& dir) {
  if (!fs::exists(dir / kAdapterWeightsFile) && fs::exists(dir / kAdapterTorchFile)) {
    return std::make_shared<const TorchFile>(dir / kAdapterTorchFile);
  }
  return std::make_shared<const SafetensorsFile>(dir / kAdapterWeightsFile);
}

// A layer of a model, and what its adapter's tensors are called and must be shaped like.
struct AdaptedLayer {
  size_t param = 0;  // the weight among the model's parameters
  std::string a, b;
  Shape a_shape, b_shape;
};

std::vector<AdaptedLayer> AdaptedLayers(const GptConfig& config, const LoraConfig& lora,
                                        const TensorFile& file) {
  // PEFT's name for a GPT2LMHeadModel, or for a GPT2Model by itself.
  const auto named = [&](const std::string& name) {
    const std::string full = std::string(kAdapterPrefix) + name;
    const std::string bare = std::string(kAdapterPrefix) + name.substr(kNamePrefix.size());
    return file.Find(full) == nullptr && file.Find(bare) != nullptr ? bare : full;
  };
  std::vector<AdaptedLayer> layers;
  const ParamTable table(config);
  for (size_t i = 0; i < table.params().size(); ++i) {
    const ParamInfo& info = table.params()[i];
    const std::string module = info.name.substr(0, info.name.rfind('.'));
    if (info.kind != ParamKind::kLinear || !lora.Adapts(module)) continue;
    layers.push_back({.param = i,
                      .a = named(module + ".lora_A.weight"),
                      .b = named(module + ".lora_B.weight"),
                      .a_shape = {lora.rank, info.shape[0]},
                      .b_shape = {info.shape[1], lora.rank}});
  }
  return layers;
}

std::vector<float> FiniteNumbers(const TensorFile& file, const std::string& name) {
  std::vector<float> numbers = file.ReadAs<float>(name);
  if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) {
    throw InputError(fmt::format("{}: tensor '{}' is damaged", file.path().string(), name),
                     "a number in it is not finite", "train the adapter again, or copy it again");
  }
  return numbers;
}

// The tensors of another file, of which some have been replaced.
class ReplacedTensors : public TensorFile {
 public:
  explicit ReplacedTensors(std::shared_ptr<const TensorFile> from)
      : TensorFile(from->path()), from_(std::move(from)) {}

  // Room for one of float32, of which `info` becomes.
  std::span<float> Replace(TensorInfo& info, const Shape& shape) {
    const auto count = static_cast<size_t>(shape.count());
    const std::span<std::byte> memory = Allocate(count * sizeof(float));
    info.dtype = Dtype::kF32;
    info.shape = shape;
    info.data = memory.data();
    info.bytes = memory.size();
    return {reinterpret_cast<float*>(memory.data()), count};
  }

 private:
  std::shared_ptr<const TensorFile> from_;
};

}  // namespace

StoredModel WithAdapter(const StoredModel& model, const fs::path& dir) {
  RequireDirectory(dir, "the directory of an adapter");
  const LoraConfig lora = LoadAdapterConfig(dir);
  const auto file = OpenAdapterWeights(dir);
  const std::vector<AdaptedLayer> layers = AdaptedLayers(model.config, lora, *file);
  AdapterTensors tensors;
  for (const AdaptedLayer& layer : layers) {
    tensors.emplace_back(layer.a, layer.a_shape);
    tensors.emplace_back(layer.b, layer.b_shape);
  }
  try {
    RequireJust(*file, tensors,
                fmt::format("{} beside it describes one without it, or the model has no such layer",
                            kAdapterConfigFile));
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), AdapterHelp(dir));
  }
  StoredModel merged = model;
  const auto replaced = std::make_shared<ReplacedTensors>(model.file);
  const ParamTable table(model.config);
  for (const AdaptedLayer& layer : layers) {
    StoredParam& param = merged.params[layer.param];
    if (!IsFloating(param.from.dtype)) continue;  // who reads the model refuses it
    const Shape& shape = table.params()[layer.param].shape;
    std::vector<float> a = FiniteNumbers(*file, layer.a), b = FiniteNumbers(*file, layer.b);
    const StoredParam from = std::exchange(param, {});
    param.from.name = from.from.name;
    const std::span<float> weight = replaced->Replace(param.from, shape);
    DecodeParam(from, weight);
    AddProduct<float>(Tensor(weight.data(), shape), Tensor(a.data(), layer.a_shape),
                      Tensor(b.data(), layer.b_shape), lora.scale());
  }
  merged.file = replaced;
  return merged;
}

std::unique_ptr<GptWeights> MergeAdapter(const GptWeights& weights) {
  const double scale = weights.table().lora().scale();
  auto merged = std::make_unique<GptWeights>(weights.config(), weights.flat().dtype());
  InitWeightsFrom(weights, *merged);
  for (size_t l = 0; l < weights.params().h.size(); ++l) {
    ForEachLinear(
        [&](const Linear&, const LinearParams& from, const LinearParams& to) {
          if (!from.lora_a) return;
          const auto add =
              to.weight.dtype() == Dtype::kF64 ? AddProduct<double> : AddProduct<float>;
          add(to.weight, from.lora_a, from.lora_b, scale);
        },
        weights.params().h[l], merged->params().h[l]);
  }
  return merged;
}

}  // namespace folio
