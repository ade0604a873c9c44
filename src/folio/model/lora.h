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
// Hugging Face's PEFT.
struct LoraConfig {
  int64_t rank = 0;                // 0: no adapters, and everything is trained
  double alpha = 0;                // 0 means the rank
  std::string targets = "c_attn";  // names of layers, between commas
  double dropout = 0;              // of what the adapters read

  bool on() const { return rank > 0; }
  double scale() const { return alpha == 0 ? 1 : alpha / static_cast<double>(rank); }
  // True if this layer has an adapter: its name is a target, or ends with "." and one. Allocates
  // nothing.
  bool Adapts(std::string_view module) const;
  // True if the weights that this layer multiplies with, or its adapter's, are trained.
  bool Trains(std::string_view module) const { return !on() || Adapts(module); }

  std::vector<Field> Fields();
  // Throws a kUsage Error whose `what` begins with `where` for a target that names no layer.
  void Validate(const std::string& where) const;

  bool operator==(const LoraConfig&) const = default;
};

// Everything is trained, and a linear layer is its weight and bias.
const LoraConfig& NoAdapters();

}  // namespace folio
