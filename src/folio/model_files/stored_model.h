#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/tensor_file.h"
#include "folio/model/params.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The order in which rows of a matrix (out,in), or numbers of its bias, lie in a file.
enum class RowOrder : uint8_t {
  kAsHere,
  kAdjacentPairs,  // in each head of queries and keys, the two of a rotary pair beside each other
  kHeadByHead,     // q, k and v of one head, then those of the next
  kSwappedHalves,  // in each head the second half first: rotary positions turn the other way there
};

// The row that lies at `row` in a file.
int64_t RowAt(RowOrder order, const HeadLayout& heads, int64_t row);

// Some rows of a parameter, which are a tensor of their own in a file.
struct StoredRows {
  TensorInfo from = {};
  RowOrder order = RowOrder::kAsHere;
};

// Where one parameter lies. `from` has the parameter's shape, or with `transposed` that shape's two
// sizes the other way round. A parameter that the file has in another layout has no data in `from`:
// it is made of `rows`, one behind the other, with `add` added to their numbers.
struct StoredParam {
  TensorInfo from = {};
  bool transposed = false;
  std::vector<StoredRows> rows = {};
  HeadLayout heads = {};  // for the order of rows
  float add = 0;
};

// Adds the offset to each number. An offset of 0 changes no bit, where a sum would turn -0 into 0.
void AddOffset(float offset, std::span<float> numbers);

// The same parameter with its data: where the file has it, or made in `memory`.
StoredParam Gathered(const StoredParam& param, std::vector<std::byte>& memory);

// `shape` of a parameter as it is stored.
Shape StoredShape(const Shape& shape, bool transposed);

// Rows of a float32 parameter as it is stored, from `row` on, as many as `out` holds: what decoding
// turns back.
void GatherRows(const Tensor& parameter, bool transposed, int64_t row, std::span<float> out);

// A model as some program saved it, before its numbers are read: what every reader of a format
// makes, and all that loading needs to know.
struct StoredModel {
  // By its constructor: a member that {} initialises is destroyed twice by GCC 12 where the
  // initialiser of a later member throws.
  GptConfig config = GptConfig();
  std::vector<StoredParam> params = {};  // one for each of ParamTable(config), in its order
  std::shared_ptr<const TensorFile> file =
      {};                 // what `params` point into; null if nothing in a file
  std::string note = {};  // which of its tensors are left out, for people; "" for none
};

// Weights in the host's memory, which must live as long, as a model that is stored.
StoredModel AsStored(const GptWeights& weights);

// The numbers of a parameter in the order in which the model has them. REQUIRES: floating-point
// ones, as many as `to` holds.
void DecodeParam(const StoredParam& param, std::span<float> to);

// Reads all parameters into memory of `dtype`, kF32 or kF64, which may be trained. Throws a kInput
// Error if one is not stored as floating-point numbers, or if a number of it is not finite.
std::unique_ptr<GptWeights> ReadWeights(const StoredModel& model, Dtype dtype = Dtype::kF32);

// Reads all parameters into the weights of a model that is trained from it, one at a time, as
// InitWeightsFrom (weight_init.h) would give them to it. Throws as ReadWeights does. REQUIRES:
// float32 weights in memory of their own.
void ReadWeightsInto(const StoredModel& model, const GptWeights& to);

// True if a parameter is one of those that may be stored in another dtype than float32 where a
// model runs: of a linear layer, the embeddings of tokens, the head.
bool IsMatrix(const ParamRow& param);

// The dtype that the matrices of a model have where it runs; the rest is float32.
struct MatrixDtype {
  Dtype dtype = Dtype::kF32;  // or BF16, Q8_0, Q4_0
  // Instead: the dtype in the file if IsStored is true for it, Q8_0 for other blocks, float32 for
  // the rest.
  bool as_stored = false;
};

// Reads all parameters for use without training. Those that lie in the file as they are needed are
// not copied, except into a `memory` that is not the host's, which must outlive the weights. Throws
// a kUsage Error where rows of the model are not whole blocks of that dtype, and a kInput Error
// where it cannot hold a number of the model. `progress`, called with the parameters that are read
// and their number, may throw to stop.
std::unique_ptr<GptWeights> MapWeights(
    const StoredModel& model, MatrixDtype matrices = {},
    const std::function<void(int64_t done, int64_t total)>& progress = {},
    Memory& memory = HostMemory());

}  // namespace folio
