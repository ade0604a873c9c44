#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

constexpr auto kSmolLm3Names =
    std::to_array<std::string_view>({"SmolLM3ForCausalLM", "SmolLM3Model"});

// 1 for each layer that has rotary positions.
void ReadNoRope(const Json& layers, Json& flat, const std::string& where) {
  if (!layers.is_array()) return;
  int64_t every = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i + 1);
    if (layers[i] == Json(0) && every == 0) every = number;
    const bool expected = every == 0 || number % every != 0;
    if (layers[i] == Json(expected ? 1 : 0)) continue;
    throw InputError(fmt::format("{}: no_rope_layers is not supported", where),
                     fmt::format("layer {} is {}", number, layers[i].dump()),
                     "folio has models in which every n-th layer is without rotary positions");
  }
  flat["no_rope_every"] = every;
}

Json WriteNoRope(const GptConfig& config) {
  Json layers = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    layers.push_back(config.layer_kind(layer).rotary ? 1 : 0);
  }
  return layers;
}

constexpr DerivedKey kNoRopeLayers = {"no_rope_layers", "no_rope_every", &ReadNoRope, &WriteNoRope};
constexpr auto kSmolLm3Derived = std::to_array<DerivedKey>(
    {kRopeScaling, kRopeParameters, kUseWindow, kLayerTypes, kNoRopeLayers});

constexpr auto kSmolLm3Own = Joined(
    kPlainOwn, std::to_array<std::string_view>({"attention_bias", "mlp_bias", "sliding_window"}));

constexpr auto kSmolLm3Absent =
    Joined(kSilu, std::to_array<FieldValue>({{"rope_theta", "2000000"}, {"no_rope_every", "4"}}));

constexpr auto kEveryFourth = std::to_array<FieldValue>({{"no_rope_every", "4"}});

}  // namespace

Family SmolLm3Table() {
  Family family = FamilyLike(LlamaTable(), "smollm3", kSmolLm3Names);
  family.own = kSmolLm3Own;
  family.absent = kSmolLm3Absent;
  family.derived = kSmolLm3Derived;
  family.gguf_unsaid = kEveryFourth;
  family.limits = kHeadsLimits;
  return family;
}

}  // namespace folio
