#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

// The interval of layers without rotary positions: from the list, which has 1 for each layer with
// them, or else from the key beside it.
void ReadNoRope(const Json& interval, const Json& json, Json& said, const std::string& where) {
  said["no_rope_every"] = interval;
  const Json* layers = json.find("no_rope_layers");
  if (layers == nullptr || !layers->is_array()) return;
  int64_t every = 0;
  for (size_t i = 0; i < layers->size(); ++i) {
    const Json& has = (*layers)[i];
    const auto number = static_cast<int64_t>(i + 1);
    if (has == Json(0) && every == 0) every = number;
    const bool expected = every == 0 || number % every != 0;
    if (has == Json(expected ? 1 : 0)) continue;
    throw InputError(fmt::format("{}: no_rope_layers is not supported", where),
                     fmt::format("layer {} is {}", number, has.dump()),
                     "folio supports models in which every n-th layer has no rotary positions");
  }
  said["no_rope_every"] = every;
}

std::optional<Json> WriteNoRope(const GptConfig& config) {
  Json layers = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    layers.push_back(config.layer(layer).rotary ? 1 : 0);
  }
  return layers;
}

// If no key says which layers have a window, those without rotary positions have it, if any layer
// has.
void ReadWindowsWithoutRope(const Json& use, const Json& json, Json& said, const std::string&) {
  if (Says(json, "layer_types")) return;
  const Json* every = said.find("no_rope_every");
  const bool some = every != nullptr && every->is_number_integer() && every->get<int64_t>() > 0 &&
                    every->get<int64_t>() <= 1 << 16;
  if (use != Json(true) || !some) {
    said["sliding_window"] = nullptr;
  } else {
    said["layer_kinds"] = std::string(static_cast<size_t>(every->get<int64_t>()) - 1, 'f') + 'w';
  }
}

}  // namespace

Family SmolLm3Table() {
  Family family = FamilyLike(LlamaTable(), "smollm3", {"SmolLM3ForCausalLM", "SmolLM3Model"});
  family.own = Rows(kPlainOwn, {"attention_bias", "mlp_bias", "sliding_window"});
  family.absent = R"({
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 4, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "bos_token_id": 128000,
    "eos_token_id": 128001, "rope_theta": 2000000,
    "use_sliding_window": false, "no_rope_layer_interval": 4})";
  // Qwen's key, which published files contain.
  family.passed_over = {"max_window_layers"};
  family.derived = {
      kRopeScaling,
      kRopeParameters,
      {"no_rope_layer_interval", "no_rope_every", &ReadNoRope, nullptr},
      {"no_rope_layers", "no_rope_every", nullptr, &WriteNoRope},
      {"use_sliding_window", "sliding_window", &ReadWindowsWithoutRope, &WriteUseWindow},
      kLayerTypes};
  family.gguf_unsaid = {{"no_rope_every", "4"}};
  family.limits = {kHeadsOfC};
  return family;
}

}  // namespace folio
