#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

// The keys of the object that describes the scaling of rotary positions, by the types of scaling
// that use them: others ignore them.
struct RopeKey {
  std::string_view key, field, types;
  bool required = false;  // transformers requires it
};
constexpr auto kRopeKeys = std::to_array<RopeKey>({
    {"factor", "rope_factor", "linear llama3 yarn", true},
    {"low_freq_factor", "rope_low_freq_factor", "llama3", true},
    {"high_freq_factor", "rope_high_freq_factor", "llama3", true},
    {"original_max_position_embeddings", "rope_original_positions", "llama3 yarn"},
    {"attention_factor", "rope_attention_factor", "yarn"},
    {"beta_fast", "rope_beta_fast", "yarn"},
    {"beta_slow", "rope_beta_slow", "yarn"},
});
constexpr auto kRopeTypes =
    std::to_array<std::string_view>({"default", "linear", "llama3", "yarn"});
constexpr auto kOtherRopeKeys =
    std::to_array<std::string_view>({"rope_type", "type", "rope_theta", "partial_rotary_factor"});

constexpr char kRopeHelp[] =
    "supported types are default, linear, llama3 and yarn, and longrope for Phi-3";

}  // namespace

bool Says(const Json& json, std::string_view key) {
  const Json* found = json.find(key);
  return found != nullptr && !found->is_null() && !(found->is_object() && found->items().empty());
}

// Reads a fraction of D, and sets the rotary width in channels.
void ReadRotaryPart(const Json& value, const Json& json, Json& said, const std::string& where) {
  const auto number = [&](const char* key) {
    const Json* found = json.find(key);
    return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  const int64_t heads = number("num_attention_heads"), given = number("head_dim");
  const int64_t D = given > 0 ? given : heads > 0 ? number("hidden_size") / heads : 0;
  if (!value.is_number() || D < 1) {
    throw InputError(fmt::format("{}: invalid fraction of a head", where),
                     fmt::format("partial_rotary_factor or rotary_pct is {}", value.dump()));
  }
  said["rotary_dim"] = static_cast<int64_t>(static_cast<double>(D) * value.get<double>());
}

// A fraction that is rounded down to the same width again.
std::optional<Json> WriteRotaryPart(const GptConfig& config) {
  const auto D = static_cast<double>(config.head_size()),
             r = static_cast<double>(config.rotary_width());
  double factor = r / D;
  if (D * factor < r) factor = std::nextafter(factor, 1);
  return factor;
}

void ReadPartInRope(const Json& rope, const Json& json, Json& said, const std::string& where) {
  constexpr std::string_view kPart = "partial_rotary_factor";
  if (Says(rope, kPart)) ReadRotaryPart(*rope.find(kPart), json, said, where);
}

void ReadRope(const Json& rope, Json& said, const std::string& where) {
  if (!rope.is_object()) {
    throw InputError(fmt::format("{}: rope_scaling is not an object", where),
                     fmt::format("found {}", rope.dump()));
  }
  const Json* type = rope.find("rope_type");
  if (type == nullptr) type = rope.find("type");
  const std::string name = type == nullptr     ? "default"
                           : type->is_string() ? type->get<std::string>()
                                               : type->dump();
  if (std::ranges::count(kRopeTypes, name) == 0) {
    throw InputError(
        fmt::format("{}: rotary positions of the type {} are not supported", where, name), "",
        kRopeHelp);
  }
  said["rope_scaling"] = name;
  if (Says(rope, "rope_theta")) said["rope_theta"] = *rope.find("rope_theta");
  for (const RopeKey& row : kRopeKeys) {
    if (row.types.find(name) == row.types.npos) continue;
    if (Says(rope, row.key)) {
      said[row.field] = *rope.find(row.key);
    } else if (row.required) {
      throw InputError(
          fmt::format("{}: rotary positions of the type {} need {}", where, name, row.key),
          fmt::format("found {}", rope.dump()), "copy the model's own config.json");
    }
  }
  for (const auto& [key, value] : rope.items()) {
    if (value.is_null() || std::ranges::count(kRopeKeys, key, &RopeKey::key) > 0 ||
        std::ranges::count(kOtherRopeKeys, key) > 0) {
      continue;
    }
    throw InputError(fmt::format("{}: {} of rotary positions is not supported", where, key),
                     fmt::format("it is {}", value.dump()), kRopeHelp);
  }
}

void ReadRopeScaling(const Json& rope, const Json& json, Json& said, const std::string& where) {
  if (Says(json, "rope_scaling")) ReadRope(rope, said, where);
}

void ReadRopeParameters(const Json& rope, const Json& json, Json& said, const std::string& where) {
  if (Says(json, "rope_parameters") && !Says(json, "rope_scaling")) ReadRope(rope, said, where);
}

Json RopeObject(const GptConfig& config) {
  GptConfig copy = WithAllSizes(config), plain;
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  Json rope = Json::object();
  const std::string_view type = NameOf(config.rope_scaling);
  rope["rope_type"] = type;
  for (const auto& [key, name, types, required] : kRopeKeys) {
    const Field& field = FieldOf(fields, name);
    if (types.find(type) == types.npos) continue;
    if (!required && FieldText(field) == FieldText(FieldOf(defaults, name))) continue;
    rope[key] = FieldJson(field);
  }
  return rope;
}

std::optional<Json> WriteRopeScaling(const GptConfig& config) {
  return config.rope_scaling == RopeScaling::kDefault ? Json() : RopeObject(config);
}

void ReadLayerTypes(const Json& types, const Json&, Json& said, const std::string& where) {
  if (types.is_null()) return;
  std::string kinds;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    if (types[i] != Json(kFullAttention) && types[i] != Json(kSlidingAttention)) {
      throw InputError(fmt::format("{}: unsupported kind of layer", where),
                       fmt::format("layer_types has {}", types[i].dump()),
                       fmt::format("folio supports {} and {}", kFullAttention, kSlidingAttention));
    }
    kinds += types[i] == Json(kFullAttention) ? 'f' : 'w';
  }
  if (!kinds.empty()) said["layer_kinds"] = ShortestPattern(kinds);
}

std::optional<Json> WriteLayerTypes(const GptConfig& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    types.push_back(config.layer(layer).window > 0 ? kSlidingAttention : kFullAttention);
  }
  return types;
}

// Qwen's keys: a window is used if the first is true, in layers from the second on.
void ReadUseWindow(const Json& use, const Json& json, Json& said, const std::string&) {
  if (use != Json(true)) {
    said["sliding_window"] = nullptr;
    return;
  }
  const Json* full = json.find("max_window_layers");
  const Json* layers = json.find("num_hidden_layers");
  if (full == nullptr || layers == nullptr || !full->is_number_integer() ||
      !layers->is_number_integer()) {
    return;
  }
  const int64_t L = std::clamp<int64_t>(layers->get<int64_t>(), 1, 1 << 16);
  const int64_t first = std::clamp<int64_t>(full->get<int64_t>(), 0, L);
  said["layer_kinds"] = ShortestPattern(std::string(static_cast<size_t>(first), 'f') +
                                        std::string(static_cast<size_t>(L - first), 'w'));
}

std::optional<Json> WriteUseWindow(const GptConfig& config) {
  return config.sliding_window.has_value();
}

void SetNumber(const Json& value, Json& said, const char* field, double (*convert)(double)) {
  if (value.is_number()) said[field] = convert(value.get<double>());
}

double Rounded(double x) {
  return std::abs(x - std::round(x)) < 1e-9 * std::abs(x) ? std::round(x) : x;
}

}  // namespace folio
