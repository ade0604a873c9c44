#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

// The fields that say how rotary positions are scaled, and their keys in the object that
// config.json has for them.
constexpr auto kRopeKeys = std::to_array<ConfigKey>({
    {"rope_theta", {"rope_theta"}},
    {"rope_scaling", {"rope_type", "type"}},
    {"rope_factor", {"factor"}},
    {"rope_low_freq_factor", {"low_freq_factor"}},
    {"rope_high_freq_factor", {"high_freq_factor"}},
    {"rope_beta_fast", {"beta_fast"}},
    {"rope_beta_slow", {"beta_slow"}},
    {"rope_attention_factor", {"attention_factor"}},
    {"rope_original_positions", {"original_max_position_embeddings"}},
});

constexpr std::string_view kFull = "full_attention", kWindow = "sliding_attention";

}  // namespace

// The factor of a part of D that rotary positions turn, as the size of that part.
void ReadRotaryPart(const Json& value, Json& flat, const std::string& where) {
  const auto number = [&](const char* key) {
    const Json* found = flat.find(key);
    return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  const int64_t heads = number("num_attention_heads"), given = number("head_dim");
  const int64_t D = given > 0 ? given : heads > 0 ? number("hidden_size") / heads : 0;
  if (!value.is_number() || D < 1) {
    throw InputError(fmt::format("{}: a part of the heads that is none", where),
                     fmt::format("partial_rotary_factor or rotary_pct is {}", value.dump()));
  }
  flat["rotary_dim"] = static_cast<int64_t>(static_cast<double>(D) * value.get<double>());
}

Json WriteRotaryPart(const GptConfig& config) {
  return static_cast<double>(config.rotary_width()) / static_cast<double>(config.head_size());
}

// transformers has the settings of rotary positions in "rope_parameters", for layers of a window
// apart from those of full attention where they differ, and had them in "rope_scaling" with
// "rope_theta" beside it.
void ReadRope(const Json& rope, Json& flat, const std::string& where) {
  if (rope.is_null()) {
    flat["rope_scaling"] = "default";
    return;
  }
  if (!rope.is_object()) {
    throw InputError(fmt::format("{}: rope_scaling is no object", where),
                     fmt::format("found {}", rope.dump()));
  }
  flat["rope_scaling"] = "default";
  for (const auto& [key, value] : rope.items()) {
    if (value.is_null()) continue;
    const auto* const row = std::ranges::find_if(kRopeKeys, [&name = key](const ConfigKey& one) {
      return std::ranges::count(one.keys, name) > 0;
    });
    if (row != kRopeKeys.end()) {
      flat[row->field] = value;
    } else if (key == "partial_rotary_factor") {
      ReadRotaryPart(value, flat, where);
    } else if (key == "full_attention") {
      ReadRope(value, flat, where);
    } else if (key == "sliding_attention" && value.is_object() && value.contains("rope_theta")) {
      flat["rope_local_base_freq"] = value["rope_theta"];  // as it was called before
    } else {
      throw InputError(
          fmt::format("{}: {} of rotary positions is not supported", where, key),
          fmt::format("it is {}", value.dump()),
          "folio has the types default, linear, llama3 and yarn, and longrope in Phi-3");
    }
  }
}

Json WriteRope(const GptConfig& config) {
  GptConfig copy = config, plain;
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  Json rope = Json::object();
  for (const auto& [name, keys] : kRopeKeys) {
    const Field& field = FieldOf(fields, name);
    if (name == "rope_theta" || FieldText(field) == FieldText(FieldOf(defaults, name))) continue;
    rope[keys.front()] = std::visit([](const auto* value) { return Json(*value); }, field.value);
  }
  return rope.empty() ? Json() : rope;
}

void ReadLayerTypes(const Json& types, Json& flat, const std::string& where) {
  if (types.is_null()) return;
  std::string kinds;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    if (types[i] != Json(kFull) && types[i] != Json(kWindow)) {
      throw InputError(fmt::format("{}: a layer of a kind that is not supported", where),
                       fmt::format("layer_types has {}", types[i].dump()),
                       fmt::format("folio has {} and {}", kFull, kWindow));
    }
    kinds += types[i] == Json(kFull) ? 'f' : 'w';
  }
  if (!kinds.empty()) flat["layer_kinds"] = ShortestPattern(kinds);
}

Json WriteLayerTypes(const GptConfig& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    types.push_back(config.layer_kind(layer).window > 0 ? kWindow : kFull);
  }
  return types;
}

// Qwen's: a window is used where the first is true, in layers from the second on.
void ReadUseWindow(const Json& use, Json& flat, const std::string&) {
  if (use != Json(true)) {
    flat["sliding_window"] = nullptr;
    return;
  }
  const Json* full = flat.find("max_window_layers");
  const Json* layers = flat.find("num_hidden_layers");
  if (full == nullptr || layers == nullptr || !full->is_number_integer() ||
      !layers->is_number_integer()) {
    return;
  }
  const int64_t L = std::clamp<int64_t>(layers->get<int64_t>(), 1, 1 << 16);
  const int64_t first = std::clamp<int64_t>(full->get<int64_t>(), 0, L);
  flat["layer_kinds"] = ShortestPattern(std::string(static_cast<size_t>(first), 'f') +
                                        std::string(static_cast<size_t>(L - first), 'w'));
}

Json WriteUseWindow(const GptConfig& config) {
  return config.sliding_window.has_value();
}

void SetNumber(const Json& value, Json& flat, const char* field, double (*of)(double)) {
  if (value.is_number()) flat[field] = of(value.get<double>());
}

double Rounded(double x) {
  return std::abs(x - std::round(x)) < 1e-9 * std::abs(x) ? std::round(x) : x;
}

}  // namespace folio
