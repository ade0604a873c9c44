#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/model/lora.h"
#include "folio/model/params.h"

namespace folio {

// Everything that may have an adapter: layers of a block, and parts of them.
std::vector<std::string_view> AdapterTargets();

// Throws a kUsage Error whose `what` begins with `where` for a target that names no layer and no
// part of one.
void ValidateTargets(const LoraConfig& lora, const std::string& where);

// Columns of weight (in,out), from `column` on, += scale (b a)^T, summed in double: a (rank,in), b
// (columns,rank). All are float32 or all float64.
void AddAdapter(const Tensor& weight, int64_t column, const Tensor& a, const Tensor& b,
                double scale);

// The model without adapters that gives what `weights` with theirs give: what they add to a layer's
// result is added to its weight. Other parameters are views of those of `weights`.
std::unique_ptr<GptWeights> MergeAdapter(const GptWeights& weights);
// The bytes of float32 weights that this takes; 0 without adapters.
uint64_t MergedBytes(const GptConfig& model, const LoraConfig& lora);

}  // namespace folio
