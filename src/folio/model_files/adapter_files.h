#pragma once

#include <filesystem>
#include <string>

#include "folio/model/lora.h"
#include "folio/model/params.h"
#include "folio/model_files/stored_model.h"

namespace folio {

// Adapters (lora.h) in files, as Hugging Face's PEFT lays them out: adapter_config.json and
// adapter_model.safetensors (adapter_model.bin before PEFT 0.5), whose names are those of the model
// behind "base_model.model.".

// Writes both files into the existing directory; `base` says where the model without adapters is.
// REQUIRES: float32 weights with adapters.
void SaveAdapter(const std::filesystem::path& dir, const GptWeights& weights,
                 const std::string& base);

// Reads the configuration of an adapter for such a model, as ResolveTargets would have it;
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

// Makes targets names of layers and parts that have adapters of their own in this model: of "q",
// "q_proj", "self_attn.q_proj" or, with k and v, "c_attn", whatever the family calls it, and of
// "all-linear". Throws a kUsage Error whose `what` begins with `where` for one that names none.
void ResolveTargets(LoraConfig& lora, const GptConfig& model, const std::string& where);

}  // namespace folio
