#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

constexpr auto kPhiNames = std::to_array<std::string_view>({"PhiForCausalLM", "PhiModel"});
constexpr auto kPhi3Names = std::to_array<std::string_view>({"Phi3ForCausalLM", "Phi3Model"});

constexpr auto kPhiKeys =
    LlamaKeysAnd(std::to_array<ConfigKey>({{"layer_norm_epsilon", {"layer_norm_eps"}}}));

constexpr auto kPhiDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kPartialRotary});

constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr int64_t kOriginalUnsaid = 4096;

// Positive numbers as the text of a field.
std::string NumbersText(const Json& numbers, std::string_view key, const std::string& where) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < numbers.size() && numbers.is_array(); ++i) {
    if (numbers[i].is_number()) texts.push_back(fmt::format("{}", numbers[i].get<double>()));
  }
  if (texts.empty() || texts.size() != numbers.size()) {
    throw InputError(fmt::format("{}: {} is no list of numbers", where, key),
                     fmt::format("found {}", numbers.dump()));
  }
  return Join(texts, ",");
}

bool IsLongRope(const Json& rope) {
  const auto is = [&](const char* key) {
    const Json* type = rope.find(key);
    return type != nullptr && (*type == Json("longrope") || *type == Json("su"));
  };
  return is("rope_type") || is("type");
}

// The context before the scaling stands beside the object, for transformers also where the object
// says it too.
void ReadPhi3Rope(const Json& rope, Json& flat, const std::string& where) {
  if (!IsLongRope(rope)) return ReadRope(rope, flat, where);
  Json others = Json::object();
  for (const auto& [key, value] : rope.items()) {
    const bool is_short = key == "short_factor";
    if (is_short || key == "long_factor") {
      flat[is_short ? "rope_short_factors" : "rope_long_factors"] = NumbersText(value, key, where);
    } else if (key != "type" && key != "rope_type") {
      others[key] = value;
    }
  }
  const Json* beside = flat.find(kOriginal);
  const Json original = beside == nullptr ? Json(kOriginalUnsaid) : *beside;
  const Json* inside = others.find(kOriginal);
  if (inside != nullptr && !inside->is_null() && *inside != original) {
    throw InputError(
        fmt::format("{}: two values of {}", where, kOriginal),
        fmt::format("rope_scaling has {}, and beside it is {}", inside->dump(),
                    beside == nullptr ? fmt::format("none, which means {}", kOriginalUnsaid)
                                      : original.dump()),
        "make them equal");
  }
  ReadRope(others, flat, where);
  flat["rope_scaling"] = "longrope";
  flat["rope_original_positions"] = original;
  const Json* positions = flat.find("max_position_embeddings");
  if (flat.contains("rope_factor") || positions == nullptr || !positions->is_number() ||
      !original.is_number()) {
    return;
  }
  flat["rope_factor"] = std::max(1.0, positions->get<double>() / original.get<double>());
}

// Three keys, as older programs ask for, unless more is to be said.
Json WritePhi3Rope(const GptConfig& config) {
  if (config.rope_scaling != "longrope") return WriteRope(config);
  const auto numbers = [](const std::string& text) {
    return ParseJson("[" + text + "]", "divisors of rotary frequencies");
  };
  Json rope = {{"type", config.rope_scaling},
               {"short_factor", numbers(config.rope_short_factors)},
               {"long_factor", numbers(config.rope_long_factors)}};
  const double P = static_cast<double>(config.n_positions),
               original = static_cast<double>(config.rope_positions());
  if (config.rope_factor != std::max(1.0, P / original)) rope["factor"] = config.rope_factor;
  if (config.rope_attention_factor > 0) rope["attention_factor"] = config.rope_attention_factor;
  return rope;
}

constexpr auto kPhi3Derived = std::to_array<DerivedKey>({
    {"rope_scaling", "rope_scaling", &ReadPhi3Rope, &WritePhi3Rope},
    {"rope_parameters", "rope_scaling", &ReadPhi3Rope, nullptr},
    {"rope_scaling", "rope_short_factors", nullptr, nullptr},
    {kOriginal, "rope_original_positions", nullptr,
     [](const GptConfig& c) { return Json(c.rope_positions()); }},
    kPartialRotary,
    kWindowOfAll,
});

// transformers has no other scaling of Phi-3.
constexpr auto kPhi3Limits = std::to_array<Limit>({
    kHeadsOfC,
    kWindowEverywhere,
    {"rope_scaling", Formats(FileFormat::kHuggingFace),
     [](const GptConfig& c) {
       return c.rope_scaling == "default" || c.rope_scaling == "longrope";
     }},
});

constexpr auto kPhiFixed = std::to_array<FieldValue>({{"position_embedding", "rotary"},
                                                      {"block", "parallel_one_norm"},
                                                      {"bias", "true"},
                                                      {"lm_head_bias", "true"}});

constexpr auto kPhiAbsent =
    Joined(std::to_array<FieldValue>({{"activation_function", "gelu_new"}}), kUntied);

constexpr auto kPhiTensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
     TurnedRow("attn.c_proj", {"model.layers.{}.self_attn.dense.weight"},
               {"blk.{}.attn_output.weight"}),
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.fc1.weight"}, {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.fc2.weight"}, {"blk.{}.ffn_down.weight"}),
     NamedRow("ln_f", "model.final_layernorm.weight", "output_norm.weight"), kHeadRow});

// Both have q | k | v and gate | up as one.
constexpr auto kPhi3Tensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row,
     TurnedRow("attn.c_attn", {"model.layers.{}.self_attn.qkv_proj.weight"},
               {"blk.{}.attn_qkv.weight"}),
     kOutRow, kNorm2Row,
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.gate_up_proj.weight"}, {"blk.{}.ffn_up.weight"}),
     kDownRow, kNormFRow, kHeadRow});

// Programs of before took a missing window for that of the first models.
constexpr auto kPhi3GgufKeys =
    Joined(kRmsGgufKeys, std::to_array<GgufKey>({{"attention.sliding_window", "sliding_window",
                                                  GgufKey::Use::kZeroForNone}}));

}  // namespace

Family PhiTable() {
  Family family = FamilyLike(LlamaTable(), "phi", kPhiNames);
  family.keys = kPhiKeys;
  family.fixed = kPhiFixed;
  family.own = kPlainOwn;
  family.absent = kPhiAbsent;
  family.derived = kPhiDerived;
  family.tensors = kPhiTensors;
  family.gguf_architecture = "phi2";
  family.gguf_keys = kLayerNormGgufKeys;
  family.limits = kHeadsUntiedLimits;
  return family;
}

Family Phi3Table() {
  Family family = FamilyLike(LlamaTable(), "phi3", kPhi3Names);
  family.own = kWindowOwn;
  family.absent = kWindowAbsent;
  family.derived = kPhi3Derived;
  family.tensors = kPhi3Tensors;
  family.gguf_keys = kPhi3GgufKeys;
  family.gguf_unsaid = kAllWindows;
  family.gguf_rope = RopeTensors::kShortAndLong;
  family.limits = kPhi3Limits;
  return family;
}

}  // namespace folio
