#include <array>
#include <string_view>

#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr auto kOlmo2Names = std::to_array<std::string_view>({"Olmo2ForCausalLM", "Olmo2Model"});

constexpr auto kOlmo2Fixed = Joined(
    kLlamaFixed, std::to_array<FieldValue>({{"norm_position", "branch"}, {"qk_norm", "full"}}));

constexpr std::string_view kOlmo2Absent = R"({
    "vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "eos_token_id": 50279, "tie_word_embeddings": false})";

constexpr auto kOlmo2Tensors = std::to_array<TensorRow>(
    {kEmbedRow, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv), kQNormRow, kKNormRow, kOutRow,
     NamedRow("ln_attn", "model.layers.{}.post_attention_layernorm.weight",
              "blk.{}.post_attention_norm.weight"),
     kGateUpRow, kDownRow,
     NamedRow("ln_mlp", "model.layers.{}.post_feedforward_layernorm.weight",
              "blk.{}.post_ffw_norm.weight"),
     kNormFRow, kHeadRow});

}  // namespace

Family Olmo2Table() {
  Family family = FamilyLike(LlamaTable(), "olmo2", kOlmo2Names);
  family.fixed = kOlmo2Fixed;
  family.own = kBiasOwn;
  family.absent = kOlmo2Absent;
  family.tensors = kOlmo2Tensors;
  family.limits = kHeadsUntiedLimits;
  return family;
}

}  // namespace folio
