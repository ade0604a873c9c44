#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/family.h"
#include "folio/model_files/stored_model.h"

namespace folio {

// All families. The first is GPT-2, the family of files that name none; the last is "folio", which
// expresses every model and which no other program reads.
std::span<const Family> Families();
const Family& Gpt2Family();
// The values of GptConfig::model_type: none, and the names of all families.
std::vector<std::string> FamilyNames();

// The reason why the family cannot express a model in files of a format, "norm_position = post,
// causal = false"; empty where it can.
std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config);

// The family that the model is said to be of, or else the first, that can express it in files of a
// format; GPT-2 where none can.
const Family& FamilyFor(const GptConfig& config, FileFormat format);

// Sets model_type to the family, unless FamilyFor returns it without that.
void SetFamily(const Family& family, GptConfig& config);

// Returns the model that a GGUF file of the family with none of the optional keys describes.
GptConfig GgufUnsaid(const Family& family);

// Returns true if a window hides positions from a layer. One as long as the context hides none.
bool HasWindow(const GptConfig& config);

// The shortest text that gives the kinds of all layers when it is repeated.
std::string ShortestPattern(const std::string& kinds);

// Throws a kInput Error that begins with `what` and says why, unless files of the format can hold
// the model.
void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what);

// The same model with every bias.
GptConfig WithBiases(GptConfig config);

// The family's config.json of a model, without what it says of the weights beside it.
Json ConfigJsonOf(const Family& family, const GptConfig& config);

// The model that the family's class in transformers makes of an object: keys that are missing have
// the defaults of the class. Throws a kInput Error whose `what` begins with `where` for a value of
// the wrong type or range, and for one that folio does not implement. The fields may contradict
// each other.
GptConfig ConfigOfJson(const Family& family, const Json& given, const std::string& where);

// Returns the same model with every size and scale set, or with those cleared that follow from
// other fields.
GptConfig WithAllSizes(GptConfig config);
GptConfig WithoutRedundantSizes(GptConfig config);

// Returns true if files of the family state all sizes, as those of all families but GPT-2 and folio
// do.
inline bool SaysAllSizes(const Family& family) {
  return !family.derived.empty();
}

// Sets fields; errors begin with `where`.
void SetFields(std::span<const FieldValue> values, GptConfig& config, const std::string& where);

// The field of that key. REQUIRES: there is one.
const Field& FieldOf(std::span<const Field> fields, std::string_view key);

// The tensors of a family's models in files: found and written by the same table.

// The name of a parameter in files of a format: of `part` "weight" or "bias"; of several tensors
// that of the first. Empty where such files have none.
std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part);

// A tensor of a file, and the rows of a parameter, as stored, that it has.
struct RowsInFiles {
  std::string name;
  Shape shape;
  int64_t first_row = 0;
  RowOrder order = RowOrder::kAsHere;
};
// The tensors that files of a format have of a parameter.
std::vector<RowsInFiles> TensorsInFiles(const Family& family, FileFormat format,
                                        const GptConfig& config, const ParamRow& param);

// The tensor of that name in a file, or of the name without the family's optional prefix or with
// that of an enclosing model; null if there is none.
const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name);

// Throws a kInput Error that begins with `where` where so many tensors are too few for the model's
// blocks: called before a table of all parameters is made.
void RequireBlocks(const GptConfig& config, int64_t tensors, const std::string& where);

// Returns whether a file, where names are behind `prefix`, lacks the head's matrix or has the
// embeddings once more in its place.
bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix = "");

// The parameters of a model in a file, where names are behind `prefix`. Calls `other` for each
// tensor behind the prefix that is neither one of them, nor one that the family's readers pass
// over, nor a head that repeats the embeddings to which the model ties it; those of the other parts
// of an enclosing model the note tells. Throws a kInput Error where a parameter is missing or has
// another shape.
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
