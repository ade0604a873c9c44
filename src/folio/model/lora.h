#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

// Adapters of low rank, E. J. Hu et al., arXiv:2106.09685: a linear layer that is a target gives
//   y = x W + b + scale * (dropout(x) A^T) B^T
// with A (rank,in) and B (out,rank) of its own, which alone are trained. Conventions are those of
// Hugging Face's PEFT: where files of the model's family have q, k and v, or gate and up, as
// matrices of their own, these are the layers that have adapters.
struct LoraConfig {
  int64_t rank = 0;                // 0: no adapters, and everything is trained
  double alpha = 0;                // 0 means the rank
  std::string targets = "c_attn";  // names of layers or parts of them, between commas
  double dropout = 0;              // of what the adapters read

  bool on() const { return rank > 0; }
  double scale() const { return alpha == 0 ? 1 : alpha / static_cast<double>(rank); }
  // Returns true if this layer, or part of one (Linear::parts), has an adapter: its name is a
  // target, or ends with "." and one. Allocates nothing.
  bool Adapts(std::string_view module) const;

  std::vector<Field> Fields();

  bool operator==(const LoraConfig&) const = default;
};

// Returns true if a target is the name of a layer, or ends it after a dot.
bool TargetNames(std::string_view target, std::string_view module);

// Calls visit(target) for each name of a list between commas until one returns true; returns
// whether one did.
template <class Visit>
bool AnyTarget(std::string_view targets, const Visit& visit) {
  for (;;) {
    const size_t comma = targets.find(',');
    if (visit(targets.substr(0, comma))) return true;
    if (comma == std::string_view::npos) return false;
    targets.remove_prefix(comma + 1);
  }
}

// Everything is trained, and a linear layer is its weight and bias.
const LoraConfig& NoAdapters();

}  // namespace folio
