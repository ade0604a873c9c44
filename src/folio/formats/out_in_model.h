#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/io/json.h"
#include "folio/model/stored_model.h"

namespace folio {

// The configuration that `fields` of config.json say, with the bounds of GptConfig, checked against
// the number of tensors in a file before anything is made for each block. Throws a kInput Error
// that begins with `where`.
GptConfig ConfigOfFields(const Json& fields, const std::string& where, int64_t tensors);

// A GPT-2 from a file whose tensors have GPT-2's names behind `prefix`, but where the weights of
// the Linear layers are (out,in), as in PyTorch. Masks and a head that repeats a tied wte are
// passed over. Throws a kInput Error where a tensor is missing, has another shape, or begins with
// the prefix and is none of the model's.
StoredModel OutInModel(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const std::string& prefix);

// The tensors of such a file, in the order of ParamTable: with `biases` all that GPT-2 has, zeros
// for those of the model that are left out. `matrices` is the dtype of those that IsMatrix, the
// others are float32. `weights` must outlive them.
std::vector<TensorToWrite> OutInTensors(const GptWeights& weights, bool biases, Dtype matrices);

// What of a model the programs that know GPT-2 in several sizes, and no other settings of it, would
// compute otherwise; empty for what they have. The activation is up to them.
std::string WhyNotOnlySizes(const GptConfig& config);

}  // namespace folio
