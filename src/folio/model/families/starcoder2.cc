#include <array>
#include <string_view>

#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

constexpr auto kStarcoder2Names =
    std::to_array<std::string_view>({"Starcoder2ForCausalLM", "Starcoder2Model"});

constexpr auto kStarcoder2Keys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"layer_norm_epsilon", {"norm_epsilon"}},
    {"bias", {"use_bias"}},
    {"resid_pdrop", {"residual_dropout"}},
    {"embd_pdrop", {"embedding_dropout"}},
}));

constexpr auto kStarcoder2Fixed = std::to_array<FieldValue>({{"position_embedding", "rotary"}});

constexpr auto kStarcoder2Absent =
    std::to_array<FieldValue>({{"activation_function", "gelu_new"}, {"layer_kinds", "w"}});

constexpr auto kStarcoder2Tensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv), kOutRow, kNorm2Row,
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.c_fc.weight"}, {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.c_proj.weight"}, {"blk.{}.ffn_down.weight"}),
     kNormFRow, kHeadRow});

constexpr auto kStarcoder2GgufKeys = Joined(kLayerNormGgufKeys, kWindowKeyRead);

constexpr auto kStarcoder2Limits = std::to_array<Limit>({kHeadsOfC, kWindowEverywhere});

}  // namespace

Family Starcoder2Table() {
  Family family = FamilyLike(LlamaTable(), "starcoder2", kStarcoder2Names);
  family.keys = kStarcoder2Keys;
  family.fixed = kStarcoder2Fixed;
  family.own = kWindowOwn;
  family.absent = kStarcoder2Absent;
  family.derived = kWindowDerived;
  family.tensors = kStarcoder2Tensors;
  family.gguf_keys = kStarcoder2GgufKeys;
  family.gguf_unsaid = kAllWindows;
  family.limits = kStarcoder2Limits;
  return family;
}

}  // namespace folio
