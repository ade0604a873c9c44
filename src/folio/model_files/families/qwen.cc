#include <array>
#include <string_view>

#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr auto kQwen2Names = std::to_array<std::string_view>({"Qwen2ForCausalLM", "Qwen2Model"});
constexpr auto kQwen3Names = std::to_array<std::string_view>({"Qwen3ForCausalLM", "Qwen3Model"});

constexpr auto kQwenDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kUseWindow, kLayerTypes});

constexpr auto kQwen3Own = Joined(
    kPlainOwn, std::to_array<std::string_view>({"head_dim", "attention_bias", "sliding_window"}));

constexpr auto kQwenTensors = LlamaTensors(RowOrder::kAsHere);

constexpr auto kQwen2Fixed = Joined(kLlamaFixed, std::to_array<FieldValue>({{"qkv_bias", "true"}}));
constexpr auto kQwen3Fixed = Joined(kLlamaFixed, std::to_array<FieldValue>({{"qk_norm", "head"}}));

constexpr std::string_view kQwen2Absent = R"({
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})";
constexpr std::string_view kQwen3Absent = R"({
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})";

}  // namespace

Family Qwen2Table() {
  Family family = FamilyLike(LlamaTable(), "qwen2", kQwen2Names);
  family.fixed = kQwen2Fixed;
  family.own = kWindowOwn;
  family.absent = kQwen2Absent;
  family.derived = kQwenDerived;
  family.tensors = kQwenTensors;
  family.limits = kHeadsLimits;
  return family;
}

Family Qwen3Table() {
  Family family = FamilyLike(Qwen2Table(), "qwen3", kQwen3Names);
  family.fixed = kQwen3Fixed;
  family.own = kQwen3Own;
  family.absent = kQwen3Absent;
  family.limits = {};
  return family;
}

}  // namespace folio
