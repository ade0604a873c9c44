#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr char kOriginal[] = "original_max_position_embeddings";

// A list of positive numbers as the text of a field.
std::string NumbersAt(const Json& rope, std::string_view key, const std::string& where) {
  const Json* found = rope.find(key);
  const Json numbers = found == nullptr ? Json() : *found;
  std::vector<double> list;
  for (size_t i = 0; numbers.is_array() && i < numbers.size(); ++i) {
    if (numbers[i].is_number()) list.push_back(numbers[i].get<double>());
  }
  if (list.empty() || list.size() != numbers.size()) {
    throw InputError(fmt::format("{}: {} is not a list of numbers", where, key),
                     fmt::format("found {}", numbers.dump()));
  }
  return NumbersText(list);
}

// Phi-3's files have this name for LongRoPE, and transformers accepts all of these.
bool IsLongRope(const Json& rope) {
  constexpr auto kNames = std::to_array<std::string_view>({"longrope", "su", "yarn"});
  const Json* type = rope.find("rope_type");
  if (type == nullptr) type = rope.find("type");
  return type != nullptr &&
         std::ranges::any_of(kNames, [&](std::string_view name) { return *type == Json(name); });
}

// The context before scaling is beside the object; transformers prefers that even if the object has
// it too.
void ReadPhi3Rope(const Json& rope, const Json& json, Json& said, const std::string& where) {
  if (!rope.is_object() || !IsLongRope(rope)) return ReadRope(rope, said, where);
  constexpr auto kOwn = std::to_array<std::string_view>(
      {"type", "rope_type", "short_factor", "long_factor", "factor", "attention_factor"});
  Json others = Json::object();
  for (const auto& [key, value] : rope.items()) {
    if (std::ranges::count(kOwn, key) == 0) others[key] = value;
  }
  ReadRope(others, said, where);
  said["rope_scaling"] = "longrope";
  said["rope_short_factors"] = NumbersAt(rope, "short_factor", where);
  said["rope_long_factors"] = NumbersAt(rope, "long_factor", where);
  if (Says(rope, "attention_factor")) {
    said["rope_attention_factor"] = *rope.find("attention_factor");
  }
  const Json &original = *json.find(kOriginal), &positions = *json.find("max_position_embeddings");
  if (Says(rope, kOriginal) && *rope.find(kOriginal) != original) {
    throw InputError(fmt::format("{}: conflicting values of {}", where, kOriginal),
                     fmt::format("rope_scaling has {}, the file or its default {}",
                                 rope.find(kOriginal)->dump(), original.dump()),
                     "make them equal");
  }
  said["rope_original_positions"] = original;
  if (Says(rope, "factor")) {
    said["rope_factor"] = *rope.find("factor");
  } else if (positions.is_number() && original.is_number()) {
    said["rope_factor"] = std::max(1.0, positions.get<double>() / original.get<double>());
  }
}

void ReadPhi3Scaling(const Json& rope, const Json& json, Json& said, const std::string& where) {
  if (Says(json, "rope_scaling")) ReadPhi3Rope(rope, json, said, where);
}

void ReadPhi3Parameters(const Json& rope, const Json& json, Json& said, const std::string& where) {
  if (Says(json, "rope_parameters") && !Says(json, "rope_scaling")) {
    ReadPhi3Rope(rope, json, said, where);
  }
}

// The three keys that older programs require, unless more must be expressed.
std::optional<Json> WritePhi3Scaling(const GptConfig& config) {
  if (config.rope_scaling != RopeScaling::kLongRope) return WriteRopeScaling(config);
  const auto numbers = [](const std::vector<double>& list) {
    return ParseJson("[" + NumbersText(list) + "]", "divisors of rotary frequencies");
  };
  Json rope = {{"type", NameOf(config.rope_scaling)},
               {"short_factor", numbers(config.rope_short_factors)},
               {"long_factor", numbers(config.rope_long_factors)}};
  const double P = static_cast<double>(config.n_positions),
               original = static_cast<double>(config.rope_positions());
  if (config.rope_factor != std::max(1.0, P / original)) rope["factor"] = config.rope_factor;
  if (config.rope_attention_factor > 0) rope["attention_factor"] = config.rope_attention_factor;
  return rope;
}

}  // namespace

Family PhiTable() {
  Family family = FamilyLike(LlamaTable(), "phi", {"PhiForCausalLM", "PhiModel"});
  SetKeys({{"layer_norm_epsilon", {"layer_norm_eps"}}}, family);
  family.fixed = {{"position_embedding", "rotary"},
                  {"block", "parallel_one_norm"},
                  {"bias", "true"},
                  {"lm_head_bias", "true"}};
  family.own = Rows(kPlainOwn);
  family.absent = R"({
    "vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
    "num_attention_heads": 32, "hidden_act": "gelu_new", "max_position_embeddings": 2048,
    "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false,
    "partial_rotary_factor": 0.5})";
  family.derived = {kRopeScaling, kRopeParameters, kPartialRotary, kPartInParameters,
                    kPartInScaling};
  family.tensors = {
      kEmbedRow,
      kNorm1Row,
      TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
      TurnedRow("attn.c_proj", {"model.layers.{}.self_attn.dense.weight"},
                {"blk.{}.attn_output.weight"}),
      TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.fc1.weight"}, {"blk.{}.ffn_up.weight"}),
      TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.fc2.weight"}, {"blk.{}.ffn_down.weight"}),
      NamedRow("ln_f", "model.final_layernorm.weight", "output_norm.weight"),
      kHeadRow};
  family.gguf_architecture = "phi2";
  family.gguf_keys = Rows(kLayerNormGgufKeys);
  family.limits = {kHeadsOfC, kHasHead};
  return family;
}

Family Phi3Table() {
  Family family = FamilyLike(LlamaTable(), "phi3", {"Phi3ForCausalLM", "Phi3Model"});
  family.own = Rows(kPlainOwn, {"sliding_window"});
  family.absent = R"({
    "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "bos_token_id": 1,
    "eos_token_id": 32000, "tie_word_embeddings": false,
    "layer_kinds": "w"})";
  family.derived = {{"rope_scaling", "rope_scaling", &ReadPhi3Scaling, &WritePhi3Scaling},
                    {"rope_parameters", "rope_scaling", &ReadPhi3Parameters, nullptr},
                    {"rope_scaling", "rope_short_factors", nullptr, nullptr},
                    {kOriginal, "rope_original_positions", nullptr,
                     [](const GptConfig& c) { return std::optional<Json>(c.rope_positions()); }},
                    kPartialRotary,
                    kWindowOfAll,
                    kPartInParameters,
                    kPartInScaling};
  // Files store q | k | v as one tensor, and gate | up as one.
  family.tensors = {
      kEmbedRow,
      kNorm1Row,
      TurnedRow("attn.c_attn", {"model.layers.{}.self_attn.qkv_proj.weight"},
                {"blk.{}.attn_qkv.weight"}),
      kOutRow,
      kNorm2Row,
      TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.gate_up_proj.weight"}, {"blk.{}.ffn_up.weight"}),
      kDownRow,
      kNormFRow,
      kHeadRow};
  // Older programs interpret a missing window as that of the first models.
  family.gguf_keys = Rows(
      kRmsGgufKeys, {{"attention.sliding_window", "sliding_window", GgufKey::Use::kZeroForNone}});
  family.gguf_unsaid = {{"layer_kinds", "w"}};
  family.gguf_rope = RopeTensors::kShortAndLong;
  // transformers has no other scaling for Phi-3.
  family.limits = {kHeadsOfC,
                   kWindowEverywhere,
                   {"rope_scaling", Formats(FileFormat::kHuggingFace), [](const GptConfig& c) {
                      return c.rope_scaling == RopeScaling::kDefault ||
                             c.rope_scaling == RopeScaling::kLongRope;
                    }}};
  return family;
}

}  // namespace folio
