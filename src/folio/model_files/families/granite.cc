#include <optional>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr DerivedKey kAttentionMultiplier = {
    "attention_multiplier", "attention_scale",
    [](const Json& value, const Json&, Json& said, const std::string&) {
      said["attention_scale"] = value;
    },
    [](const GptConfig& c) { return std::optional<Json>(c.layer(0).score_scale); }};
constexpr DerivedKey kLogitsScaling = {
    "logits_scaling", "logit_scale",
    [](const Json& value, const Json&, Json& said, const std::string&) {
      SetNumber(value, said, "logit_scale", [](double x) { return 1 / x; });
    },
    [](const GptConfig& c) { return std::optional<Json>(Rounded(1 / c.logit_scale)); }};

}  // namespace

Family GraniteTable() {
  Family family = FamilyLike(LlamaTable(), "granite", {"GraniteForCausalLM", "GraniteModel"});
  SetKeys(
      {{"embedding_scale", {"embedding_multiplier"}}, {"residual_scale", {"residual_multiplier"}}},
      family);
  family.own = Rows(kPlainOwn, {"attention_bias", "mlp_bias"});
  family.absent = R"({
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false,
    "attention_multiplier": 1})";
  family.derived = {kRopeScaling, kRopeParameters, kAttentionMultiplier, kLogitsScaling};
  family.gguf_keys =
      Rows(kRmsGgufKeys, {{"attention.scale", "attention_scale", GgufKey::Use::kOptional},
                          {"embedding_scale", "embedding_scale", GgufKey::Use::kOptional},
                          {"residual_scale", "residual_scale", GgufKey::Use::kOptional},
                          {"logit_scale", "logit_scale", GgufKey::Use::kInverse}});
  family.gguf_by_tensors = {"attention_bias", "mlp_bias"};
  family.gguf_rope = RopeTensors::kDivisors;
  family.limits = {kHeadsOfC};
  return family;
}

}  // namespace folio
