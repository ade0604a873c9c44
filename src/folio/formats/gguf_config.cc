#include "folio/formats/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/model/layers/rotary.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

constexpr FileFormat kGguf = FileFormat::kGguf;
constexpr std::string_view kDivisors = "rope_freqs.weight";
constexpr std::string_view kShortDivisors = "rope_factors_short.weight",
                           kLongDivisors = "rope_factors_long.weight";
constexpr std::string_view kAttentionFactor = "rope.scaling.attn_factor",
                           kOriginalContext = "rope.scaling.original_context_length";
constexpr std::string_view kWindowField = "sliding_window", kKindsField = "layer_kinds";
constexpr auto kByLayer = std::to_array<std::string_view>({"n_head", "n_kv_head", "n_inner"});
constexpr char kConvertAgain[] = "convert the model again with a current version of the converter";

std::string KeyOf(const Family& family, std::string_view name) {
  return fmt::format("{}.{}", family.gguf_architecture, name);
}

// --- reading

int64_t SizeAt(const GgufFile& file, const std::string& key, int64_t most) {
  const std::optional<int64_t> size = file.Integer(key);
  if (size && *size >= 1 && *size <= most) return *size;
  RefuseGguf(file, fmt::format("\"{}\" is {}", key, size ? "out of range" : "missing"),
             fmt::format("{}expected 1 to {}", size ? fmt::format("found {}, ", *size) : "", most),
             kConvertAgain);
}

// The size of every layer, which may be said as one number or layer by layer.
int64_t SizeOfLayers(const GgufFile& file, const std::string& key, int64_t L, int64_t most) {
  if (!file.IsArray(key)) return SizeAt(file, key, most);
  std::vector<int64_t> sizes;
  file.Integers(key, [&](size_t, int64_t size) { sizes.push_back(size); });
  if (std::ssize(sizes) != L || sizes[0] < 1 || sizes[0] > most) {
    RefuseGguf(file, fmt::format("\"{}\" does not match the model", key),
               fmt::format("found {} layer sizes, expected {} from 1 to {}", sizes.size(), L, most),
               kConvertAgain);
  }
  const auto other = std::ranges::find_if(sizes, [&](int64_t size) { return size != sizes[0]; });
  if (other == sizes.end()) return sizes[0];
  RefuseGguf(file, fmt::format("\"{}\" differs between layers", key),
             fmt::format("it is {} in layer 0 and {} in layer {}", sizes[0], *other,
                         other - sizes.begin()),
             "folio supports only models whose layers have the same sizes");
}

// Throws unless the sizes of heads are the expected ones: with others the same tensors would be
// another model.
void CheckHeads(const GgufFile& file, const Family& family, const GptConfig& config) {
  const int64_t D = config.head_size();
  for (const auto& [name, expected] :
       {std::pair{"attention.head_count_kv", config.n_head}, std::pair{"attention.key_length", D},
        std::pair{"attention.value_length", D}}) {
    const bool kv = std::string_view(name).ends_with("_kv");
    if (kv && std::ranges::count(family.gguf_keys, name, &GgufKey::key) > 0) continue;
    const std::string key = KeyOf(family, name);
    const int64_t found = file.Integer(key).value_or(expected);
    if (found == expected) continue;
    RefuseGguf(file, fmt::format("\"{}\" is not supported", key),
               fmt::format("found {}, expected {}", found, expected), "");
  }
}

void ReadBiases(const GgufFile& file, const Family& family, GptConfig& config) {
  const auto has = [&](int64_t layer, std::string_view module) {
    return file.Find(NameInFiles(family, kGguf, layer, module, "bias")) != nullptr;
  };
  if (SaysAllSizes(family)) {
    // If no key of config.json says so, the family decides.
    const auto says = [&](std::string_view key) { return std::ranges::count(family.own, key) > 0; };
    if (says("attention_bias")) config.attention_bias = has(0, "attn.c_attn");
    if (says("mlp_bias")) config.mlp_bias = has(0, "mlp.c_fc");
    return;
  }
  const bool attention = has(0, "attn.c_attn"), mlp = has(0, "mlp.c_fc"), norm = has(-1, "ln_f");
  config.bias = attention;
  if (mlp != attention) config.mlp_bias = mlp;
  if (norm != attention) config.layer_norm_bias = norm;
}

// Reads the kinds of layers: an array that says which have a window, or n, where each n-th has
// none.
std::string ReadKinds(const GgufFile& file, const std::string& key, int64_t L) {
  constexpr int64_t kMost = 1 << 16;
  if (!file.IsArray(key)) {
    const int64_t every = *file.Integer(key);
    if (every >= 0 && every <= kMost) {
      return every == 0 ? "w" : std::string(static_cast<size_t>(every) - 1, 'w') + 'f';
    }
    RefuseGguf(file, fmt::format("\"{}\" is out of range", key),
               fmt::format("found {}, expected 0 to {}", every, kMost), kConvertAgain);
  }
  if (file.Count(key) != static_cast<uint64_t>(L)) {
    RefuseGguf(file, fmt::format("\"{}\" does not match the model", key),
               fmt::format("found {} layer kinds, expected {}", file.Count(key), L), kConvertAgain);
  }
  std::string kinds;
  file.Bools(key, [&](size_t, bool window) { kinds += window ? 'w' : 'f'; });
  return ShortestPattern(kinds);
}

void ReadKeys(const GgufFile& file, const Family& family, GptConfig& config) {
  using enum GgufKey::Use;
  const std::vector<Field> fields = config.Fields();
  const std::string where = file.path().string();
  for (const auto& [name, field_key, use] : family.gguf_keys) {
    const std::string key = KeyOf(family, name);
    const bool there = file.Count(key) > 0;
    if (use == kOnlyWritten || use == kTrue || (!there && use != kRequired)) continue;
    const Field& field = FieldOf(fields, field_key);
    if (field_key == kKindsField) {
      config.layer_kinds = LayerKindsOf(ReadKinds(file, key, config.n_layer));
    } else if (field_key == kWindowField && file.Integer(key) == 0) {
      config.sliding_window.reset();
    } else if (std::holds_alternative<double*>(field.value)) {
      const auto number = file.Number(key);
      if (!number) RefuseGguf(file, fmt::format("\"{}\" is missing", key), "", kConvertAgain);
      SetField(field, fmt::format("{}", use == kInverse ? 1 / *number : *number), where);
    } else {
      // Each block has its matrices, so that no more are counted than the file holds.
      const int64_t most = field_key == "n_layer" ? std::ssize(file.tensors()) : 1 << 30;
      const bool by_layer = std::ranges::count(kByLayer, field_key) > 0;
      const int64_t size =
          by_layer ? SizeOfLayers(file, key, config.n_layer, most) : SizeAt(file, key, most);
      SetField(field, fmt::format("{}", size), where);
    }
  }
}

// A key that some files have, with or without the architecture before it, and the only value that
// may be ignored; without one all may.
struct NeutralKey {
  std::string_view key;
  std::optional<double> value = {};
};
constexpr auto kNeutral = std::to_array<NeutralKey>({
    {"vocab_size"},
    {"tensor_data_layout"},
    {"pooling_type"},
    {"mm.tokens_per_image"},
    {"granite.rope.scaling.finetuned", 1},  // else there are no rotary positions
    {"rope.scaling.finetuned"},
    {kOriginalContext},
    {"attention.layer_norm_epsilon"},
    {"attention.layer_norm_rms_epsilon"},
    {"rope.scale_linear", 1},
    {kAttentionFactor, 1},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"rope.scaling.alpha", 0},
    {"attention.causal", 1},
    {"use_parallel_residual", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.sliding_window", 0},
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"leading_dense_block_count", 0},
    {"nextn_predict_layers", 0},
});

// Keys that ReadRopeScaling reads, and those of heads that CheckHeads does.
constexpr auto kReadApart = std::to_array<std::string_view>(
    {"rope.scaling.type", "rope.scaling.factor", "rope.scaling.yarn_attn_factor",
     "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "attention.head_count_kv",
     "attention.key_length", "attention.value_length"});

// Returns whether the file has LongRoPE's divisors.
bool HasLongRope(const GgufFile& file, const Family& family) {
  return family.gguf_rope == RopeTensors::kShortAndLong &&
         (file.Find(kShortDivisors) != nullptr || file.Find(kLongDivisors) != nullptr);
}

// Refuses what may change what the model computes: a key that folio does not know, or one whose
// value it does not.
void RefuseUnknownKeys(const GgufFile& file, const Family& family) {
  const std::string prefix = KeyOf(family, "");
  for (const std::string_view key : file.Keys(prefix)) {
    const std::string_view name = key.substr(prefix.size());
    const auto is_read = [&](const GgufKey& one) {
      return one.key == name && one.use != GgufKey::Use::kTrue;
    };
    if (std::ranges::count_if(family.gguf_keys, is_read) > 0 ||
        std::ranges::count(kReadApart, name) > 0 ||
        (name == kAttentionFactor && HasLongRope(file, family))) {
      continue;
    }
    const auto* const known = std::ranges::find_if(
        kNeutral, [&](const NeutralKey& one) { return one.key == name || one.key == key; });
    std::string found = "not understood";
    if (known != kNeutral.end()) {
      const double value = known->value ? file.NumberOrTruth(key).value_or(0) : 0;
      if (!known->value || value == *known->value) continue;
      found = fmt::format("{}", value);
    }
    RefuseGguf(file, fmt::format("\"{}\" is {}", key, found),
               fmt::format("its effect in the architecture {} is unknown to folio",
                           family.gguf_architecture),
               "use the model's Hugging Face directory, or a newer version of folio");
  }
}

// The keys that say how rotary positions are scaled.
void ReadRopeScaling(const GgufFile& file, const Family& family, GptConfig& config) {
  const auto key = [&](std::string_view name) {
    return KeyOf(family, fmt::format("rope.scaling.{}", name));
  };
  // A factor alone is one of all frequencies.
  const double factor = file.Number(key("factor")).value_or(1);
  const std::string_view type = file.Text(key("type")).value_or(factor > 1 ? "linear" : "none");
  if (type == "none" || (type == "linear" && (factor == 1 || factor == 0))) return;
  if (type == "longrope" && HasLongRope(file, family)) return;
  if (type != "linear" && type != "yarn") {
    RefuseGguf(file, fmt::format("rotary positions scaled by \"{}\"", type), "",
               "folio supports none, linear and yarn");
  }
  const std::vector<Field> fields = config.Fields();
  const auto set = [&](std::string_view name, std::string_view field) {
    const auto number = file.Number(key(name));
    if (number) SetField(FieldOf(fields, field), fmt::format("{}", *number), file.path().string());
  };
  config.rope_scaling = type == "yarn" ? RopeScaling::kYarn : RopeScaling::kLinear;
  set("factor", "rope_factor");
  if (type == "linear") return;
  config.rope_original_positions = file.Integer(key("original_context_length"));
  set("yarn_attn_factor", "rope_attention_factor");
  set("yarn_beta_fast", "rope_beta_fast");
  set("yarn_beta_slow", "rope_beta_slow");
}

// --- divisors of the rotary frequencies

bool AreDivisors(std::span<const float> divisors, const GptConfig& config) {
  constexpr float kRounding = 1e-5f;
  const std::vector<float> expected = Llama3Divisors(config);
  return std::ranges::equal(divisors, expected,
                            [](float a, float b) { return std::abs(a - b) <= kRounding * b; });
}

// The scaling of Llama 3.1 that has these divisors, where waves are long from the original context
// on and short up to a quarter of it, as in all models of that kind. Sets nothing and returns false
// where none has.
bool SetLlama3(std::span<const float> divisors, GptConfig& config) {
  const std::vector<float> plain = RotaryFrequenciesOf(config, 0).inverse;
  if (divisors.size() != plain.size()) return false;
  GptConfig scaled = config;
  const std::vector<Field> fields = scaled.Fields();
  const double factor = static_cast<double>(std::ranges::max(divisors));
  if (!(factor >= 1 && factor <= 1e6)) return false;
  scaled.rope_scaling = RopeScaling::kLlama3;
  SetField(FieldOf(fields, "rope_factor"), fmt::format("{}", std::ranges::max(divisors)), "");
  const double low = scaled.rope_low_freq_factor, high = scaled.rope_high_freq_factor;
  // Each divisor says which contexts it would be of: one between 1 and the factor a single one.
  double least = 1, most = 1 << 30;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wave = 2 * std::numbers::pi / static_cast<double>(plain[i]);
    const auto divisor = static_cast<double>(divisors[i]);
    const double kept = (1 / divisor - 1 / factor) / (1 - 1 / factor);
    const double turns = kept * (high - low) + low;
    if (divisor <= 1) {
      least = std::max(least, high * wave);
    } else if (divisor >= factor) {
      most = std::min(most, low * wave);
    } else {
      least = most = std::round(turns * wave);
      break;
    }
  }
  for (const double positions : {std::ceil(least), std::floor(most)}) {
    if (!(positions >= 1 && positions <= 1 << 30)) continue;
    scaled.rope_original_positions = static_cast<int64_t>(positions);
    if (!AreDivisors(divisors, scaled)) continue;
    config = scaled;
    return true;
  }
  return false;
}

void ReadDivisors(const GgufFile& file, const Family& family, GptConfig& config) {
  const TensorInfo* const tensor =
      family.gguf_rope == RopeTensors::kDivisors ? file.Find(kDivisors) : nullptr;
  if (tensor == nullptr) return;
  const bool scaled = config.rope_scaling != RopeScaling::kDefault;
  const bool sound = tensor->shape.rank() == 1 && tensor->shape[0] == config.rotary_width() / 2;
  if (!scaled && sound) {
    const std::vector<float> divisors = file.ReadAs<float>(kDivisors);
    if (std::ranges::count(divisors, 1) == std::ssize(divisors)) return;
    if (SetLlama3(divisors, config)) return;
  }
  RefuseGguf(file, fmt::format("tensor \"{}\" is not supported", kDivisors),
             scaled  ? "rotary positions are scaled twice: by metadata and by this tensor"
             : sound ? "its rotary frequency factors are not those of Llama 3.1"
                     : fmt::format("its shape is {}, expected ({})", tensor->shape.ToString(),
                                   config.rotary_width() / 2),
             "use the model's Hugging Face directory");
}

// One of LongRoPE's lists: the shortest numbers that are these in float32.
std::vector<double> Divisors(const GgufFile& file, std::string_view name, const GptConfig& config) {
  file.Require(name, {config.rotary_width() / 2});
  std::vector<double> divisors;
  for (const float number : file.ReadAs<float>(name)) {
    divisors.push_back(std::stod(fmt::format("{}", number)));
  }
  return divisors;
}

// The factor of rotated heads is left to LongRoPE where it is that of LongRoPE for these contexts.
void ReadLongRope(const GgufFile& file, const Family& family, GptConfig& config) {
  if (!HasLongRope(file, family)) return;
  if (config.rope_scaling != RopeScaling::kDefault) {
    RefuseGguf(file, "rotary positions are scaled twice",
               fmt::format("by metadata and by the tensor \"{}\"", kLongDivisors),
               "use the model's Hugging Face directory");
  }
  config.rope_scaling = RopeScaling::kLongRope;
  config.rope_short_factors = Divisors(file, kShortDivisors, config);
  config.rope_long_factors = Divisors(file, kLongDivisors, config);
  config.rope_original_positions = SizeAt(file, KeyOf(family, kOriginalContext), 1 << 30);
  config.rope_factor = std::max(1.0, static_cast<double>(config.n_positions) /
                                         static_cast<double>(*config.rope_original_positions));
  const double factor = file.Number(KeyOf(family, kAttentionFactor)).value_or(1);
  const float usual = RotaryFrequenciesOf(config, 0).attention_factor;
  if (static_cast<float>(factor) != usual) config.rope_attention_factor = factor;
}

// --- writing

void AddRopeScaling(const Family& family, const GptConfig& config, GgufHeader& header) {
  const auto key = [&](std::string_view name) {
    return KeyOf(family, fmt::format("rope.scaling.{}", name));
  };
  if (config.rope_scaling == RopeScaling::kLongRope) {
    header.AddU32(KeyOf(family, kOriginalContext), static_cast<uint32_t>(config.rope_positions()));
    header.AddF32(KeyOf(family, kAttentionFactor), RotaryFrequenciesOf(config, 0).attention_factor);
  }
  if (config.rope_scaling != RopeScaling::kLinear && config.rope_scaling != RopeScaling::kYarn)
    return;
  header.AddText(key("type"), NameOf(config.rope_scaling));
  header.AddF32(key("factor"), static_cast<float>(config.rope_factor));
  if (config.rope_scaling == RopeScaling::kLinear) return;
  header.AddU32(key("original_context_length"), static_cast<uint32_t>(config.rope_positions()));
}

// The window, where there is one; 0, or one that is too long for any layer to have it, where the
// absence of the key would mean another.
void AddWindow(const std::string& key, GgufKey::Use use, const Family& family,
               const GptConfig& config, GgufHeader& header) {
  const bool window = HasWindow(config), zero = use == GgufKey::Use::kZeroForNone;
  if (!window && !zero && !GgufUnsaid(family).sliding_window) return;
  const int64_t none = zero ? 0 : config.n_positions;
  header.AddU32(key, static_cast<uint32_t>(window ? *config.sliding_window : none));
}

void AddKinds(const std::string& key, const Family& family, const GptConfig& config,
              GgufHeader& header) {
  const LayerKinds unsaid = GgufUnsaid(family).layer_kinds;
  bool same = true;
  std::vector<bool> windows;
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    windows.push_back(config.layer(layer).window > 0);
    same = same && windows.back() == (unsaid[static_cast<size_t>(layer) % unsaid.size()] ==
                                      AttentionKind::kWindow);
  }
  if (HasWindow(config) && !same) header.AddBools(key, windows);
}

}  // namespace

void RefuseGguf(const GgufFile& file, const std::string& what, std::string cause,
                std::string help) {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   std::move(help));
}

const Family& GgufFamily(const GgufFile& file) {
  const std::string_view architecture = file.Text("general.architecture").value_or("");
  const auto families = Families();
  const auto family = std::ranges::find_if(families, [&](const Family& one) {
    return (one.formats & Formats(kGguf)) != 0 && one.gguf_architecture == architecture;
  });
  if (family != families.end()) return *family;
  std::vector<std::string> known;
  for (const Family& one : families) {
    const std::string name(one.gguf_architecture);
    if ((one.formats & Formats(kGguf)) != 0 && std::ranges::count(known, name) == 0) {
      known.push_back(name);
    }
  }
  RefuseGguf(
      file, fmt::format("unsupported architecture \"{}\"", architecture),
      fmt::format("folio supports {}", Join(known, ", ")),
      "use one of these, or the model's Hugging Face directory if folio supports its family");
}

GptConfig ReadGgufConfig(const GgufFile& file, const Family& family) {
  GptConfig config = GgufUnsaid(family);
  try {
    RefuseUnknownKeys(file, family);
    ReadKeys(file, family, config);
    if (config.rotary()) {
      ReadRopeScaling(file, family, config);
      ReadDivisors(file, family, config);
      ReadLongRope(file, family, config);
    }
    if (family.gguf_by_sizes != nullptr) family.gguf_by_sizes(config);
    const TensorInfo& embeddings = file.Require(NameInFiles(family, kGguf, -1, "wte", "weight"));
    if (embeddings.shape.rank() != 2) {
      RefuseGguf(file, fmt::format("tensor \"{}\" is not a matrix", embeddings.name),
                 fmt::format("its shape is {}", embeddings.shape.ToString()), "");
    }
    config.vocab_size = embeddings.shape[0];
    config.tie_word_embeddings = HeadIsTied(file, family, kGguf);
    ReadBiases(file, family, config);
    for (const Field& field : config.Fields()) {
      SetField(field, FieldText(field), file.path().string());
    }
    config = WithoutRedundantSizes(config);
    config.Validate(file.path().string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) throw;
    throw InputError(error.what(), error.cause());
  }
  CheckHeads(file, family, config);
  SetFamily(family, config);
  return config;
}

void AddGgufConfig(const Family& family, const GptConfig& model, GgufHeader& header) {
  GptConfig config = WithAllSizes(model);
  const std::vector<Field> fields = config.Fields();
  for (const auto& [name, field_key, use] : family.gguf_keys) {
    const std::string key = KeyOf(family, name);
    if (use == GgufKey::Use::kTrue) header.AddBool(key, true);
    if (use == GgufKey::Use::kTrue || use == GgufKey::Use::kOnlyRead) continue;
    const Field& field = FieldOf(fields, field_key);
    if (field_key == kWindowField) {
      AddWindow(key, use, family, config, header);
    } else if (field_key == kKindsField) {
      AddKinds(key, family, config, header);
    } else if (const auto* number = std::get_if<double*>(&field.value)) {
      const bool inverse = use == GgufKey::Use::kInverse;
      header.AddF32(key, static_cast<float>(inverse ? 1 / **number : **number));
    } else {
      header.AddU32(key, static_cast<uint32_t>(std::stoul(FieldText(field))));
    }
  }
  AddRopeScaling(family, config, header);
}

bool IsGgufDivisors(const Family& family, const TensorInfo& tensor) {
  switch (family.gguf_rope) {
    case RopeTensors::kNone:
      return false;
    case RopeTensors::kDivisors:
      return tensor.name == kDivisors;
    case RopeTensors::kShortAndLong:
      return tensor.name == kShortDivisors || tensor.name == kLongDivisors;
  }
  return false;
}

void AddGgufDivisors(const Family& family, const GptConfig& config,
                     std::vector<TensorToWrite>& tensors) {
  const auto add = [&](std::string_view name, const std::vector<float>& divisors) {
    tensors.push_back({.name = std::string(name),
                       .dtype = Dtype::kF32,
                       .shape = {std::ssize(divisors)},
                       .read = [divisors](int64_t row, std::span<float> out) {
                         std::ranges::copy(
                             std::span(divisors).subspan(static_cast<size_t>(row), out.size()),
                             out.begin());
                       }});
  };
  if (family.gguf_rope == RopeTensors::kShortAndLong &&
      config.rope_scaling == RopeScaling::kLongRope) {
    add(kLongDivisors, config.rope_divisors(/*beyond=*/true));
    add(kShortDivisors, config.rope_divisors(/*beyond=*/false));
  }
  if (family.gguf_rope != RopeTensors::kDivisors || config.rope_scaling != RopeScaling::kLlama3)
    return;
  GptConfig again = config;
  again.rope_scaling = RopeScaling::kDefault;
  const std::vector<float> divisors = Llama3Divisors(config);
  if (!SetLlama3(divisors, again) ||
      RotaryFrequenciesOf(again, 0).inverse != RotaryFrequenciesOf(config, 0).inverse) {
    throw InputError("GGUF cannot store this model",
                     fmt::format("its rotary frequency factors cannot express "
                                 "rope_original_positions = {} and rope_factor = {}",
                                 config.rope_positions(), config.rope_factor),
                     "convert to hf instead");
  }
  add(kDivisors, divisors);
}

}  // namespace folio
