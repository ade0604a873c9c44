#include "folio/model_files/adapter_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "folio/model/adapters.h"
#include "folio/model/block.h"
#include "folio/model_files/families.h"
#include "folio/model_files/unknown_keys.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

namespace {

// The target that means all layers.
constexpr std::string_view kAllLinear = "all-linear";

// A matrix in files of a model's family that may have an adapter.
struct AdapterPlace {
  size_t param = 0;         // the layer's weight among the model's parameters
  std::string_view target;  // the layer's name, or the part's
  std::string_view layer;   // the layer's
  std::string module;       // as files call it, "model.layers.0.self_attn.q_proj"
  ColumnRange columns;      // of the layer's result
  int64_t inputs = 0;
  RowOrder order = RowOrder::kAsHere;  // of rows of B

  // The module's name in a block, "self_attn.q_proj".
  std::string_view InBlock() const {
    const std::string_view name = module;
    return name.substr(name.find('.', name.find_first_of("0123456789")) + 1);
  }
};

std::vector<AdapterPlace> AdapterPlaces(const ParamTable& table) {
  constexpr std::string_view kWeight = ".weight";
  const Family& family = FamilyFor(table.config(), FileFormat::kHuggingFace);
  std::vector<AdapterPlace> places;
  for (size_t i = 0; i < table.params().size(); ++i) {
    const ParamInfo& info = table.params()[i];
    if (info.kind != ParamKind::kLinear) continue;
    const auto tensors = TensorsInFiles(family, FileFormat::kHuggingFace, table.config(), info);
    for (size_t t = 0; t < tensors.size(); ++t) {
      const RowsInFiles& tensor = tensors[t];
      AdapterPlace place{.param = i,
                         .target = info.module,
                         .layer = info.module,
                         .module = tensor.name.substr(0, tensor.name.size() - kWeight.size()),
                         .columns = {0, info.shape[1]},
                         .inputs = info.shape[0],
                         .order = tensor.order};
      if (tensors.size() > 1) {
        ForEachLinear([&](const Linear& linear) {
          if (linear.name == info.module) place.target = linear.parts[t];
        });
        place.columns = {tensor.first_row, tensor.shape[0]};
      }
      places.push_back(std::move(place));
    }
  }
  return places;
}

// The places of one block.
std::vector<AdapterPlace> PlacesOfABlock(GptConfig model) {
  model.n_layer = 1;
  return AdapterPlaces(ParamTable(model));
}

// Returns true if files of the model's family have weights as (in,out).
bool GivesInOut(const GptConfig& model) {
  const Family& family = FamilyFor(model, FileFormat::kHuggingFace);
  const auto row = std::ranges::find(family.tensors, kCAttn.name, &TensorRow::module);
  return row->files[static_cast<size_t>(FileFormat::kHuggingFace)].transform == Transform::kNone;
}

// The last word of a name, behind the last dot.
std::string_view LastWord(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

// Targets that name just these layers and parts: `said`, if each of them does.
std::string TargetsFor(const std::set<std::string_view>& adapted, const std::string& said) {
  const std::vector<std::string_view> all = AdapterTargets();
  const LoraConfig config{.rank = 1, .targets = said};
  const bool foreign = AnyTarget(said, [&](std::string_view target) {
    return std::ranges::none_of(all, [&](auto name) { return TargetNames(target, name); });
  });
  const bool same = std::ranges::all_of(all, [&](std::string_view target) {
    return config.Adapts(target) == adapted.contains(target);
  });
  if (same && !foreign) return said;
  std::vector<std::string> names;
  for (const std::string_view target : all) {
    if (!adapted.contains(target)) continue;
    const bool part = std::ranges::count(target, '.') > 1;
    names.emplace_back(part ? LastWord(target) : target);
  }
  return Join(names, ",");
}

// Returns true if `target` names the place by the layer's role: o, up or down.
bool IsRole(std::string_view target, const AdapterPlace& place, bool gated) {
  if (target == "o") return place.target == kAttnCProj.name;
  if (target == "down") return place.target == kMlpCProj.name;
  return target == "up" && !gated && place.target == kCFc.name;
}

}  // namespace

void ResolveTargets(LoraConfig& lora, const GptConfig& model, const std::string& where) {
  if (!lora.on()) return;
  const std::vector<AdapterPlace> places = PlacesOfABlock(model);
  std::set<std::string_view> adapted;
  AnyTarget(lora.targets, [&](std::string_view target) {
    const auto add = [&](const auto& is) {
      bool found = false;
      for (const AdapterPlace& place : places) {
        if (!is(place)) continue;
        adapted.insert(place.target);
        found = true;
      }
      return found;
    };
    const bool found =
        add([&](const AdapterPlace& p) { return TargetNames(target, p.InBlock()); }) ||
        add([&](const AdapterPlace& p) {
          return target == kAllLinear || TargetNames(target, p.layer) ||
                 TargetNames(target, p.target) || IsRole(target, p, model.gated());
        });
    if (found) return false;
    std::vector<std::string_view> names;
    for (const AdapterPlace& place : places) names.push_back(place.InBlock());
    throw UsageError(fmt::format("{}: lora.targets: there is no layer '{}'", where, target), {},
                     fmt::format("the layers of a block are {}", fmt::join(names, ", ")));
  });
  lora.targets = TargetsFor(adapted, lora.targets);
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdapterPrefix = "base_model.model.";

// Keys of kinds of adapters that folio does not support. Each may be missing, null, false or empty.
constexpr auto kOtherKinds = std::to_array<std::string_view>(
    {"alora_invocation_tokens", "alpha_pattern", "arrow_config", "exclude_modules", "kasa_config",
     "layer_replication", "layers_to_transform", "lora_bias", "modules_to_save",
     "monteclora_config", "rank_pattern", "target_parameters", "trainable_token_indices",
     "use_bdlora", "use_dora", "use_qalora", "velora_config"});

// The name of one of an adapter's tensors, "lora_A" or "lora_B".
std::string TensorOf(std::string_view module, std::string_view part) {
  return fmt::format("{}{}.{}.weight", kAdapterPrefix, module, part);
}

// Keys of PEFT's LoraConfig that are read, and those that change no number where no key of
// kOtherKinds says anything: of training, of where files lie, and of ways to begin.
constexpr auto kReadKeys = std::to_array<std::string_view>(
    {"base_model_name_or_path", "bias", "init_lora_weights", "lora_alpha", "lora_dropout",
     "peft_type", "r", "target_modules", "use_rslora"});
constexpr auto kPassedOverKeys = std::to_array<std::string_view>(
    {"auto_mapping", "corda_config", "ensure_weight_tying", "eva_config", "fan_in_fan_out",
     "inference_mode", "layers_pattern", "loftq_config", "lora_ga_config", "megatron_config",
     "megatron_core", "peft_version", "qalora_group_size", "revision", "runtime_config",
     "task_type"});

void WarnOfOtherKeys(const Json& json, const std::string& where) {
  std::vector<std::string> known, unknown;
  for (const auto& keys : {std::span<const std::string_view>(kReadKeys),
                           std::span<const std::string_view>(kPassedOverKeys),
                           std::span<const std::string_view>(kOtherKinds)}) {
    known.insert(known.end(), keys.begin(), keys.end());
  }
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null() && std::ranges::count(known, key) == 0) unknown.push_back(key);
  }
  WarnOfUnknownKeys(where, unknown, known);
}

[[noreturn]] void RefuseAdapter(const std::string& where, std::string_view key, const Json& value) {
  throw InputError(fmt::format("{}: {} is not supported", where, key),
                   fmt::format("it is {}", value.dump()),
                   "folio supports plain LoRA adapters of the linear layers of blocks");
}

// Initialisations that leave the weights of the model unchanged. Others (PiSSA, OLoRA, LoftQ ...)
// change them, and the changed weights are in no file.
constexpr std::array<std::string_view, 3> kPlainBeginnings = {"gaussian", "eva", "orthogonal"};

void CheckAdapterBeginning(const Json& json, const std::string& where) {
  const Json* init = json.find("init_lora_weights");
  if (init == nullptr || init->is_null() || init->is_boolean()) return;
  if (init->is_string() && std::ranges::count(kPlainBeginnings, init->text()) > 0) return;
  RefuseAdapter(where, "init_lora_weights", *init);
}

// The configuration of an adapter, and the layers that it has, as PEFT says them.
struct StoredAdapter {
  LoraConfig config;  // without targets
  // Ends of layers' names, "c_proj", "attn.c_proj", up to all of one. Without any an expression
  // says which have an adapter, and here it is those of which there are tensors.
  std::vector<std::string> targets = {};
  bool all = false;

  bool Adapts(const std::string& module, const TensorFile& file) const {
    if (all) return true;
    if (targets.empty()) return file.Find(TensorOf(module, "lora_A")) != nullptr;
    return std::ranges::any_of(targets,
                               [&](const auto& target) { return TargetNames(target, module); });
  }
};

StoredAdapter AdapterFromJson(const Json& json, const std::string& where) {
  if (const Json& type = json.at("peft_type"); type != "LORA")
    RefuseAdapter(where, "peft_type", type);
  if (const Json* bias = json.find("bias"); bias != nullptr && *bias != "none") {
    RefuseAdapter(where, "bias", *bias);
  }
  for (const std::string_view key : kOtherKinds) {
    if (const Json* value = json.find(key); value != nullptr && !AsksForNothing(*value)) {
      RefuseAdapter(where, key, *value);
    }
  }
  CheckAdapterBeginning(json, where);
  WarnOfOtherKeys(json, where);
  StoredAdapter adapter{.config = {.rank = json.at("r").get<int64_t>(),
                                   .alpha = json.at("lora_alpha").get<double>(),
                                   .targets = ""}};
  LoraConfig& config = adapter.config;
  if (const Json* dropout = json.find("lora_dropout")) config.dropout = dropout->get<double>();
  const Json& targets = json.at("target_modules");
  const bool some = targets.is_string() ? !targets.text().empty() : targets.is_array();
  if (!some || (targets.is_array() && targets.empty())) {
    RefuseAdapter(where, "target_modules", targets);
  }
  adapter.all = targets.is_string() && targets.text() == kAllLinear;
  for (size_t i = 0; targets.is_array() && i < targets.size(); ++i) {
    adapter.targets.push_back(targets[i].text());
  }
  constexpr int64_t kMaxRank = 65536;
  if (config.rank < 1 || config.rank > kMaxRank || !(config.alpha > 0) || !(config.dropout >= 0) ||
      !(config.dropout < 1)) {
    throw InputError(fmt::format("{}: not the configuration of an adapter", where),
                     fmt::format("r is {}, lora_alpha {}, lora_dropout {}", config.rank,
                                 config.alpha, config.dropout));
  }
  // Their result is multiplied by alpha / sqrt(r) then (D. Kalajdzievski, arXiv:2312.03732).
  const Json* rank_stabilized = json.find("use_rslora");
  if (rank_stabilized != nullptr && !AsksForNothing(*rank_stabilized)) {
    if (!rank_stabilized->is_boolean()) RefuseAdapter(where, "use_rslora", *rank_stabilized);
    config.alpha *= std::sqrt(static_cast<double>(config.rank));
  }
  return adapter;
}

Json ReadAdapterJson(const fs::path& dir) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const fs::path path = dir / kAdapterConfigFile;
  if (!Exists(path)) {
    throw InputError(fmt::format("{}: no adapter found", dir.string()),
                     fmt::format("{} is missing", kAdapterConfigFile),
                     "give a directory written by PEFT's save_pretrained, or RUN/last/adapter");
  }
  return ParseJson(ReadFile(path, kMostBytes), path.string());
}

// The help of an error where an adapter does not fit the model.
std::string AdapterHelp(const fs::path& dir) {
  const Json json = ReadAdapterJson(dir);
  const Json* base = json.find("base_model_name_or_path");
  if (base == nullptr || !base->is_string() || base->text().empty()) {
    return "give its base model";
  }
  return fmt::format("give its base model: {} has \"{}\"", kAdapterConfigFile, base->text());
}

// True if both mean the same adapters; dropout is a matter of training.
bool Same(const LoraConfig& a, const LoraConfig& b) {
  return a.rank == b.rank && a.scale() == b.scale() &&
         std::ranges::all_of(AdapterTargets(), [&](std::string_view target) {
           return a.Adapts(target) == b.Adapts(target);
         });
}

// Returns the rows of B with the order of a file instead of that of the model (`to_file`), or the
// other way round.
std::vector<float> Reordered(const AdapterPlace& place, const HeadLayout& heads,
                             std::vector<float> rows, bool to_file) {
  if (place.order == RowOrder::kAsHere) return rows;
  const int64_t rank = std::ssize(rows) / place.columns.width;
  std::vector<float> reordered(rows.size());
  for (int64_t in_file = 0; in_file < place.columns.width; ++in_file) {
    const int64_t here = RowAt(place.order, heads, in_file);
    const auto [from, to] = to_file ? std::pair(here, in_file) : std::pair(in_file, here);
    std::copy_n(rows.begin() + from * rank, rank, reordered.begin() + to * rank);
  }
  return reordered;
}

// The names and shapes of an adapter's two tensors.
std::array<std::pair<std::string, Shape>, 2> TensorsOf(const AdapterPlace& place, int64_t rank) {
  return {{{TensorOf(place.module, "lora_A"), {rank, place.inputs}},
           {TensorOf(place.module, "lora_B"), {place.columns.width, rank}}}};
}

// Calls visit(place, a, b) for each adapter of a model with its matrices.
template <class Visit>
void ForEachAdapter(const GptWeights& weights, const Visit& visit) {
  const ParamTable& table = weights.table();
  const int64_t rank = table.lora().rank;
  int64_t a_row = 0, b_row = 0;
  size_t param = 0, matrices = 0, at = 0;
  for (const AdapterPlace& place : AdapterPlaces(table)) {
    if (!table.lora().Adapts(place.target)) continue;
    if (matrices == 0 || place.param != param) {
      param = place.param;
      at = param + 1;
      while (table.params()[at].kind != ParamKind::kAdapter) ++at;
      a_row = b_row = 0;
      matrices += 2;
    }
    const Tensor &a = weights.tensors()[at], &b = weights.tensors()[at + 1];
    visit(place, a.Slice(a_row, a_row + rank), b.Slice(b_row, b_row + place.columns.width));
    a_row += rank;
    b_row += place.columns.width;
  }
  const auto there = std::ranges::count(table.params(), ParamKind::kAdapter, &ParamInfo::kind);
  FOLIO_CHECK(static_cast<size_t>(there) == matrices, "adapters of layers of another family");
}

// Short names of a model's layers that have adapters, which name no other.
std::vector<std::string> TargetModules(const GptConfig& model, const LoraConfig& lora) {
  const std::vector<AdapterPlace> places = PlacesOfABlock(model);
  std::vector<std::string> targets;
  for (const AdapterPlace& place : places) {
    if (!lora.Adapts(place.target)) continue;
    const std::string_view word = LastWord(place.module);
    const bool all = std::ranges::all_of(places, [&](const AdapterPlace& other) {
      return LastWord(other.module) != word || lora.Adapts(other.target);
    });
    std::string target(all ? word : place.InBlock());
    if (std::ranges::count(targets, target) == 0) targets.push_back(std::move(target));
  }
  return targets;
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

// Refuses by name what PEFT saves beside adapters of linear layers.
void RefuseOtherPart(const TensorFile& file, std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  const char* what = has("lora_embedding_")         ? "an adapter of embeddings"
                     : has("lora_magnitude_vector") ? "part of DoRA"
                     : has(".lora_") || has("ia3_") ? nullptr
                     : name.ends_with(".bias")      ? "a full bias"
                     : has("embed") || has("wte") || has("lm_head")
                         ? "a full embedding matrix, which PEFT saves if tokens were added"
                         : "a full layer";
  if (what == nullptr || !name.starts_with(kAdapterPrefix)) return;
  throw InputError(
      fmt::format("{}: tensor '{}' is {}", file.path().string(), name, what),
      "folio supports plain LoRA adapters of the linear layers of blocks",
      "merge it into its model with PEFT: merge_and_unload(), then save_pretrained(DIR)");
}

std::shared_ptr<const TensorFile> OpenAdapterWeights(const fs::path& dir) {
  std::shared_ptr<const TensorFile> file;
  if (!Exists(dir / kAdapterWeightsFile) && Exists(dir / kAdapterTorchFile)) {
    file = std::make_shared<const TorchFile>(dir / kAdapterTorchFile);
  } else {
    file = std::make_shared<const SafetensorsFile>(dir / kAdapterWeightsFile);
  }
  for (const TensorInfo& info : file->tensors()) RefuseOtherPart(*file, info.name);
  return file;
}

StoredAdapter ReadAdapter(const fs::path& dir) {
  const std::string where = (dir / kAdapterConfigFile).string();
  try {
    return AdapterFromJson(ReadAdapterJson(dir), where);
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: not the configuration of an adapter", where), error.what());
  }
}

// The places of a model that have an adapter in a file. Names there may be those of a model without
// its head. Throws a kInput Error for a target that no layer has.
std::vector<AdapterPlace> AdaptedPlaces(const fs::path& dir, const StoredAdapter& adapter,
                                        const GptConfig& model, const TensorFile& file) {
  const std::string_view prefix = FamilyFor(model, FileFormat::kHuggingFace).optional_prefix;
  std::vector<AdapterPlace> places = AdapterPlaces(ParamTable(model));
  for (const std::string& target : adapter.targets) {
    const auto names = [&](const AdapterPlace& place) { return TargetNames(target, place.module); };
    if (std::ranges::any_of(places, names)) continue;
    RefuseAdapter((dir / kAdapterConfigFile).string(), "an adapter of another layer", target);
  }
  std::vector<AdapterPlace> adapted;
  for (AdapterPlace& place : places) {
    const std::string bare =
        place.module.substr(place.module.starts_with(prefix) ? prefix.size() : 0);
    const bool is_bare = file.Find(TensorOf(place.module, "lora_A")) == nullptr &&
                         file.Find(TensorOf(bare, "lora_A")) != nullptr;
    const bool has = adapter.Adapts(place.module, file) || (is_bare && adapter.Adapts(bare, file));
    if (is_bare) place.module = bare;
    if (has) adapted.push_back(std::move(place));
  }
  return adapted;
}

// Other programs read an integer where it is one.
Json AlphaAsJson(const LoraConfig& lora) {
  const double alpha = lora.scale() * static_cast<double>(lora.rank);
  if (alpha == std::floor(alpha)) return static_cast<int64_t>(alpha);
  return alpha;
}

}  // namespace

void SaveAdapter(const fs::path& dir, const GptWeights& weights, const std::string& base) {
  const GptConfig& model = weights.config();
  const LoraConfig& lora = weights.table().lora();
  FOLIO_CHECK(lora.on(), "the model has no adapters");
  std::vector<NamedTensor> tensors;
  std::deque<std::vector<float>> turned;
  ForEachAdapter(weights, [&](const AdapterPlace& place, const Tensor& a, const Tensor& b) {
    const HostCopy copy(b);
    const std::span<const float> here = copy.elements<float>();
    turned.push_back(
        Reordered(place, model.head_layout(), {here.begin(), here.end()}, /*to_file=*/true));
    tensors.push_back({TensorOf(place.module, "lora_A"), a});
    tensors.push_back({TensorOf(place.module, "lora_B"), Tensor(turned.back().data(), b.shape())});
  });
  const GuardedDirectory inside(dir);
  WriteSafetensors(dir / kAdapterWeightsFile, tensors);
  const bool in_out = GivesInOut(model);
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", base},
                     {"r", lora.rank},
                     {"lora_alpha", AlphaAsJson(lora)},
                     {"lora_dropout", lora.dropout},
                     {"target_modules", TargetModules(model, lora)},
                     {"fan_in_fan_out", in_out},  // base weights are (in,out)
                     {"bias", "none"},
                     {"inference_mode", true}};
  WriteFileAtomically(dir / kAdapterConfigFile, json.dump(2) + "\n");
}

LoraConfig LoadAdapterConfig(const fs::path& dir, const GptConfig& model) {
  const StoredAdapter adapter = ReadAdapter(dir);
  const auto file = OpenAdapterWeights(dir);
  std::set<std::string_view> adapted;
  for (const AdapterPlace& place : AdaptedPlaces(dir, adapter, model, *file)) {
    adapted.insert(place.target);
  }
  LoraConfig config = adapter.config;
  config.targets = TargetsFor(adapted, Join(adapter.targets, ","));
  return config;
}

void LoadAdapter(const fs::path& dir, const GptWeights& weights) {
  const LoraConfig found = LoadAdapterConfig(dir, weights.config());
  const LoraConfig& wanted = weights.table().lora();
  if (!Same(found, wanted)) {
    throw InputError(fmt::format("{}: the adapters differ from those of this run", dir.string()),
                     fmt::format("they have rank {}, alpha {:g} and targets {}; the settings have "
                                 "rank {}, alpha {:g} and targets {}",
                                 found.rank, found.alpha, found.targets, wanted.rank,
                                 wanted.scale() * static_cast<double>(wanted.rank), wanted.targets),
                     "continue with the original settings of the run");
  }
  const SafetensorsFile file(dir / kAdapterWeightsFile);
  AdapterTensors tensors;
  ForEachAdapter(weights, [&](const AdapterPlace& place, const Tensor&, const Tensor&) {
    for (auto& tensor : TensorsOf(place, wanted.rank)) tensors.push_back(std::move(tensor));
  });
  RequireJust(file, tensors, fmt::format("{} describes an adapter without it", kAdapterConfigFile));
  ForEachAdapter(weights, [&](const AdapterPlace& place, const Tensor& a, const Tensor& b) {
    const auto read = [&](const char* part) {
      return file.ReadAs<float>(TensorOf(place.module, part));
    };
    const HostEdit first(a, HostEdit::kDiscard), second(b, HostEdit::kDiscard);
    std::ranges::copy(read("lora_A"), first.elements<float>().begin());
    std::ranges::copy(
        Reordered(place, weights.config().head_layout(), read("lora_B"), /*to_file=*/false),
        second.elements<float>().begin());
    first.Send();
    second.Send();
  });
}

namespace {

bool AreFinite(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
}

std::vector<float> FiniteNumbers(const TensorFile& file, const std::string& name) {
  std::vector<float> numbers = file.ReadAs<float>(name);
  if (!AreFinite(numbers)) {
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
  const StoredAdapter adapter = ReadAdapter(dir);
  const auto file = OpenAdapterWeights(dir);
  const std::vector<AdapterPlace> places = AdaptedPlaces(dir, adapter, model.config, *file);
  const int64_t rank = adapter.config.rank;
  AdapterTensors tensors;
  for (const AdapterPlace& place : places) {
    for (auto& tensor : TensorsOf(place, rank)) tensors.push_back(std::move(tensor));
  }
  try {
    RequireJust(*file, tensors,
                fmt::format("{} describes an adapter without it, or the model has no such layer",
                            kAdapterConfigFile));
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), AdapterHelp(dir));
  }
  StoredModel merged = model;
  const auto replaced = std::make_shared<ReplacedTensors>(model.file);
  const ParamTable table(model.config);
  Tensor weight;
  bool finite = true;  // without the adapter: else the model is refused when it is read
  for (size_t i = 0; i < places.size(); ++i) {
    const AdapterPlace& place = places[i];
    StoredParam& param = merged.params[place.param];
    if (i == 0 || places[i - 1].param != place.param) {
      const Shape& shape = table.params()[place.param].shape;
      const StoredParam from = std::exchange(param, {});
      param.from.name = from.from.name;
      const std::span<float> numbers = replaced->Replace(param.from, shape);
      DecodeParam(from, numbers);
      weight = Tensor(numbers.data(), shape);
      finite = AreFinite(numbers);
    }
    const auto [a_tensor, b_tensor] = TensorsOf(place, rank);
    std::vector<float> a = FiniteNumbers(*file, a_tensor.first);
    std::vector<float> b = Reordered(place, model.config.head_layout(),
                                     FiniteNumbers(*file, b_tensor.first), /*to_file=*/false);
    AddAdapter(weight, place.columns.begin, Tensor(a.data(), a_tensor.second),
               Tensor(b.data(), b_tensor.second), adapter.config.scale());
    const std::span sums(weight.host<float>(), static_cast<size_t>(weight.count()));
    if (finite && !AreFinite(sums)) {
      throw InputError(
          fmt::format("{}: the adapter makes weights that are not finite", dir.string()),
          fmt::format("those of {}, with alpha {:g} and rank {}", place.module,
                      adapter.config.alpha, rank),
          "copy or train the adapter again; the base model is valid");
    }
  }
  merged.file = replaced;
  return merged;
}

}  // namespace folio
