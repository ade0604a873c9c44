#include <array>
#include <string_view>

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
constexpr auto kPhi3Derived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kPartialRotary, kWindowOfAll});

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

constexpr auto kPhi3GgufKeys = Joined(kRmsGgufKeys, kWindowKey);

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
  family.limits = kHeadsWindowLimits;
  return family;
}

}  // namespace folio
