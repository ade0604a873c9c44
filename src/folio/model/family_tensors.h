#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/model/families.h"
#include "folio/model/stored_model.h"

namespace folio {

// The tensors of a family's models in files: found and written by the same table.

// The name of a parameter in files of a format: of `part` "weight" or "bias". Empty where such
// files have none.
std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part);
std::string NameInFiles(const Family& family, FileFormat format, const ParamRow& param);

// The shape of a parameter in files of a format.
Shape ShapeInFiles(const Family& family, FileFormat format, const ParamRow& param);

// The tensor of that name in a file, or of the name without the family's optional prefix; null if
// there is none.
const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name);

// Throws a kInput Error that begins with `where` where so many tensors are too few for the model's
// blocks: called before a table of all parameters is made.
void RequireBlocks(const GptConfig& config, const Family& family, int64_t tensors,
                   const std::string& where);

// Returns whether a file, where names are behind `prefix`, lacks the head's matrix or has the
// embeddings once more in its place.
bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix = "");

// The parameters of a model in a file, where names are behind `prefix`. Calls `other` for each
// tensor behind the prefix that is neither one of them, nor one that the family's readers pass
// over, nor a head that repeats the embeddings to which the model ties it. Throws a kInput Error
// where a parameter is missing or has another shape.
StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix = "");

// The tensors to write for a model that files describe by `described`: in the order of its
// ParamTable, zeros for parameters that `weights` lack. `matrices` is the dtype of those that
// IsMatrix, the others are float32. `weights` must outlive them.
std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices);

}  // namespace folio
