#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

class GptWeights;
struct GptConfig;
struct StoredModel;

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
  // True if this layer, or part of one (Linear::parts), has an adapter: its name is a target, or
  // ends with "." and one. Allocates nothing.
  bool Adapts(std::string_view module) const;
  // True if the weights that this layer multiplies with, or those of its adapters, are trained.
  bool Trains(std::string_view module) const;

  std::vector<Field> Fields();
  // Makes targets names of layers and parts that have adapters of their own in this model: of "q",
  // "q_proj", "self_attn.q_proj" or, with k and v, "c_attn", whatever the family calls it, and of
  // "all-linear". Throws a kUsage Error whose `what` begins with `where` for one that names none.
  void Resolve(const GptConfig& model, const std::string& where);
  // Throws such an Error for a target that Resolve does not give.
  void Validate(const std::string& where) const;

  bool operator==(const LoraConfig&) const = default;
};

// Everything is trained, and a linear layer is its weight and bias.
const LoraConfig& NoAdapters();

// Adapters (lora.h) in files, as Hugging Face's PEFT lays them out: adapter_config.json and
// adapter_model.safetensors (adapter_model.bin before PEFT 0.5), whose names are those of the model
// behind "base_model.model.".

inline constexpr char kAdapterDir[] = "adapter";  // in a checkpoint of a model with adapters
inline constexpr char kAdapterConfigFile[] = "adapter_config.json";
inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";
inline constexpr char kAdapterTorchFile[] = "adapter_model.bin";

// Writes both files into the existing directory; `base` says where the model without adapters is.
// REQUIRES: float32 weights with adapters.
void SaveAdapter(const std::filesystem::path& dir, const GptWeights& weights,
                 const std::string& base);

// Reads the configuration of an adapter for such a model, as LoraConfig::Resolve would have it;
// use_rslora becomes the factor that it stands for. Throws a kInput Error if it is missing or
// broken and for adapters of a kind that folio does not have, naming it.
LoraConfig LoadAdapterConfig(const std::filesystem::path& dir, const GptConfig& model);

// Reads the adapters of `dir` into weights that have such. Throws a kInput Error unless the files
// hold just these: of the same rank, factor, layers and shapes.
void LoadAdapter(const std::filesystem::path& dir, const GptWeights& weights);

// The model with the adapters of `dir`, folio's or PEFT's, in its weights: those that have one are
// float32 then, in memory. Throws a kInput Error, before any memory is taken, unless the files hold
// an adapter for each layer that they say, of the model's shapes, and nothing else.
StoredModel WithAdapter(const StoredModel& model, const std::filesystem::path& dir);

// The model without adapters that gives what `weights` with theirs give: what they add to a layer's
// result is added to its weight. Other parameters are views of those of `weights`.
std::unique_ptr<GptWeights> MergeAdapter(const GptWeights& weights);
// The bytes of float32 weights that this takes; 0 without adapters.
uint64_t MergedBytes(const GptConfig& model, const LoraConfig& lora);

}  // namespace folio
