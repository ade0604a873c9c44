#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "folio/tensor/tensor.h"

namespace folio {

enum class InitKind {
  kWeight,          // normal(0, initializer_range) or Xavier-uniform
  kQkvWeight,       // the same; q | k | v, which may count as three matrices
  kResidualWeight,  // the same; the deviation may be divided by sqrt(2L): what adds to the residual
  kFanIn,           // uniform up to 1 / sqrt(in), as PyTorch's linear layers
  kZero,
  kOne,
  kResidualFactor,   // for each layer, 1.15 to 1.05
  kEmbeddingFactor,  // for each layer, 0.2 to 0.05
  kBackoutFactor,    // 0.2
  kGate,             // uniform up to 0.02
};

enum class ParamKind {
  kEmbedding,      // (rows,C), looked up
  kTiedEmbedding,  // (V,C), looked up, and the weight of the head
  kLinear,         // (in,out), the weight of a linear operation
  kHead,           // (out,in), the same
  kAdapter,        // (out,in), the same
  kBias,           // of the linear operation whose weight comes before it
  kElementwise,    // weights and biases of norms; factors; weights of gates
};

// The dimension of a parameter that shards divide.
enum class ShardAxis {
  kNone,  // every shard has all of it
  kRows,  // the first
  kQkv,   // the last, in each of q | k | v by heads (config.h)
  kUp,    // the last, in a gated model in each of gate | up
};

// Returns true if LinearBackward overwrites the gradient of such a parameter at first. Other
// gradients are added to, and zeroed before: of tables in a block by its backward.
constexpr bool IsLinearWeight(ParamKind kind) {
  return kind == ParamKind::kTiedEmbedding || kind == ParamKind::kLinear ||
         kind == ParamKind::kHead || kind == ParamKind::kAdapter;
}

// Parameters that an optimizer updates alike lie together in a flat array, in the order of their
// groups. The group follows from the role (ParamKind) here alone.
enum class ParamGroup { kDecayed, kPlain };
inline constexpr std::array kParamGroups = {ParamGroup::kDecayed, ParamGroup::kPlain};
constexpr ParamGroup GroupOf(ParamKind kind) {
  return kind == ParamKind::kBias || kind == ParamKind::kElementwise ? ParamGroup::kPlain
                                                                     : ParamGroup::kDecayed;
}
// Returns whether weight decay applies to a group.
constexpr bool IsDecayed(ParamGroup group) {
  return group != ParamGroup::kPlain;
}

// Hugging Face's names begin with the first, but for the head, which has the second.
inline constexpr std::string_view kNamePrefix = "transformer.", kHeadName = "lm_head";

// One row of the list of parameters.
struct ParamRow {
  int64_t layer;                  // -1 outside of the blocks
  std::string_view module, part;  // "attn.c_attn", "weight"
  Shape shape;
  ParamKind kind;
  InitKind init;
  ShardAxis axis;
  bool trained;              // beside adapters nothing else is
  std::string Name() const;  // Hugging Face's, "transformer.h.0.attn.c_attn.weight"
};

}  // namespace folio
