#include <array>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

constexpr auto kGraniteNames =
    std::to_array<std::string_view>({"GraniteForCausalLM", "GraniteModel"});

constexpr auto kGraniteKeys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"embedding_scale", {"embedding_multiplier"}},
    {"residual_scale", {"residual_multiplier"}},
    {"attention_scale", {"attention_multiplier"}},
}));

constexpr DerivedKey kLogitsScaling = {
    "logits_scaling", "logit_scale",
    [](const Json& value, Json& flat, const std::string&) {
      SetNumber(value, flat, "logit_scale", [](double x) { return 1 / x; });
    },
    [](const GptConfig& c) { return Json(Rounded(1 / c.logit_scale)); }};
constexpr auto kGraniteDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kLogitsScaling});

constexpr auto kGraniteOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"attention_bias", "mlp_bias"}));

constexpr auto kGraniteGgufKeys =
    Joined(kRmsGgufKeys, std::to_array<GgufKey>({
                             {"attention.scale", "attention_scale", GgufKey::Use::kOptional},
                             {"embedding_scale", "embedding_scale", GgufKey::Use::kOptional},
                             {"residual_scale", "residual_scale", GgufKey::Use::kOptional},
                             {"logit_scale", "logit_scale", GgufKey::Use::kInverse},
                         }));

}  // namespace

Family GraniteTable() {
  Family family = FamilyLike(LlamaTable(), "granite", kGraniteNames);
  family.keys = kGraniteKeys;
  family.own = kGraniteOwn;
  family.derived = kGraniteDerived;
  family.gguf_keys = kGraniteGgufKeys;
  family.gguf_by_tensors = kBiasesByTensors;
  family.gguf_rope = RopeTensors::kDivisors;
  family.limits = kHeadsLimits;
  return family;
}

}  // namespace folio
