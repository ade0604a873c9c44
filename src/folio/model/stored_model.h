#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/tensor_file.h"
#include "folio/model/params.h"

namespace folio {

// Where one parameter lies. `from` has the parameter's shape, or with `transposed` that shape's two
// sizes the other way round.
struct StoredParam {
  TensorInfo from = {};
  bool transposed = false;
};

// `shape` of a parameter as it is stored.
Shape StoredShape(const Shape& shape, bool transposed);

// Rows of a float32 parameter as it is stored, from `row` on, as many as `out` holds: what decoding
// turns back.
void GatherRows(const Tensor& parameter, bool transposed, int64_t row, std::span<float> out);

// A model as some program saved it, before its numbers are read: what every reader of a format
// makes, and all that loading needs to know.
struct StoredModel {
  GptConfig config = {};
  std::vector<StoredParam> params = {};  // one for each of ParamTable(config), in its order
  std::shared_ptr<const TensorFile> file =
      {};  // what `params` point into; null if nothing in a file
};

// The tensors of a model by the names of their parameters; valid as long as it.
std::map<std::string_view, const Tensor*> TensorsByName(const GptWeights& weights);

// Weights in memory, which must live as long, as a model that is stored.
StoredModel AsStored(const GptWeights& weights);

// The numbers of a parameter in the order in which the model has them. REQUIRES: floating-point
// ones, as many as `to` holds.
void DecodeParam(const StoredParam& param, std::span<float> to);

// Reads all parameters into memory of `dtype`, kF32 or kF64, which may be trained. Throws a kInput
// Error if one is not stored as floating-point numbers, or if a number of it is not finite.
std::unique_ptr<GptWeights> ReadWeights(const StoredModel& model, Dtype dtype = Dtype::kF32);

// True if a parameter is one of those that may be stored in another dtype than float32 where a
// model runs: of a linear layer, the embeddings of tokens, the head.
bool IsMatrix(const ParamRow& param);

// The dtype that the matrices of a model have where it runs; the rest is float32.
struct MatrixDtype {
  Dtype dtype = Dtype::kF32;  // or BF16, Q8_0, Q4_0
  bool as_stored = false;     // instead: what each is in the file, if that is one of these
};

// The same for those who only look: parameters that lie in the file just as they are needed are not
// copied. Throws a kUsage Error where rows of the model are not whole blocks of that dtype, and a
// kInput Error where it cannot hold a number of the model.
std::unique_ptr<GptWeights> MapWeights(const StoredModel& model, MatrixDtype matrices = {});

}  // namespace folio
