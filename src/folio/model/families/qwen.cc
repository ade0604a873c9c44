#include <array>
#include <string_view>

#include "folio/model/checkpoint.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

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

constexpr auto kQwen3Absent =
    Joined(kLlamaAbsent, std::to_array<FieldValue>({{"head_dim", "128"}}));

}  // namespace

Family Qwen2Table() {
  Family family = FamilyLike(LlamaTable(), "qwen2", kQwen2Names);
  family.fixed = kQwen2Fixed;
  family.own = kWindowOwn;
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
