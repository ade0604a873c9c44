#pragma once

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
  std::vector<StoredParam> params = {};         // one for each of ParamTable(config), in its order
  std::shared_ptr<const TensorFile> file = {};  // what `params` point into
};

// Whether a tensor of that name is a buffer of the causal mask, as old files hold them:
// "h.0.attn.bias", "h.0.attn.masked_bias".
bool IsMaskBuffer(std::string_view name);

// Reads all parameters into memory of `dtype`, kF32 or kF64, which may be trained. Throws a kInput
// Error if one is not stored as floating-point numbers, or if a number of it is not finite.
std::unique_ptr<GptWeights> ReadWeights(const StoredModel& model, Dtype dtype = Dtype::kF32);

// The same in float32 for those who only look: parameters that lie in the file just as they are
// needed are not copied.
std::unique_ptr<GptWeights> MapWeights(const StoredModel& model);

}  // namespace folio
