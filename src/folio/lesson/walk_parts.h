#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/lessons.h"
#include "folio/report/report.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Common parts of the walks: operands, operations, and the tokens of a model.

// Float32 numbers with a shape, zero or given: an operand of a walk's operations.
class StepTensor {
 public:
  explicit StepTensor(const Shape& shape)
      : memory_(static_cast<size_t>(shape.count())), tensor_(memory_.data(), shape) {}
  // REQUIRES: as many values as the shape has.
  StepTensor(const Shape& shape, std::span<const float> values);
  StepTensor(const Shape& shape, std::initializer_list<float> values)
      : StepTensor(shape, std::span(values.begin(), values.size())) {}
  StepTensor(StepTensor&&) = default;  // tensors returned by tensor() stay valid
  StepTensor& operator=(StepTensor&&) = default;

  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }
  float* data() { return memory_.data(); }

 private:
  std::vector<float> memory_;
  Tensor tensor_;
};

// A float32 or float64 tensor as a matrix: its last dimension across, all others down.
Matrix MatrixValues(const Tensor& x, MatrixLabels labels = {});
// A row of channels (1,C), and its picture: bars, or a heatmap if there are too many.
Matrix ChannelValues(const Tensor& row);
FigureKind ChannelFigure(const Tensor& row);
// A tensor's numbers as double.
std::vector<double> Doubles(const Tensor& x);
// The indices of the `most` numbers of the largest magnitude, largest first; the lower of equals.
std::vector<size_t> Strongest(std::span<const double> numbers, size_t most);

// Operations on float32 rows: a backend's, and those that only lessons need. Operands are (N,C)
// unless stated.

// a + b.
StepTensor Sum(Backend& backend, const Tensor& a, const Tensor& b);
// x + value.
StepTensor Shifted(Backend& backend, const Tensor& x, double value);
// x * factor, as for scaling scores.
StepTensor Scaled(const Tensor& x, double factor);
// The sum of all elements of a row (1,C), rounded in float32.
double Total(const Tensor& row);
// The length of a row: the root of the sum of its squares.
double Length(Backend& backend, const Tensor& row);

// LayerNorm of one row (1,C).
struct NormalizedRow {
  StepTensor out;
  double mean = 0, variance = 0, rstd = 0;
};
// An empty weight means ones. The variance is computed back from rstd = 1 / sqrt(variance + eps).
NormalizedRow Normalized(Backend& backend, const Tensor& row, double eps = 1e-5,
                         const Tensor& weight = {}, const Tensor& bias = {});

// Throws a kUsage Error unless there is at least one number, and all are finite.
void RequireNumbers(std::span<const float> numbers);

// Row `row` of x (N,C), as (1,C).
inline Tensor RowAt(const Tensor& x, int64_t row) {
  return x.Slice(row, row + 1);
}

// Token t's row of a block's input: with residual_lambdas a mix of the stream and of the token's
// embedding. REQUIRES: the trace has kEmbedded and kOutput.
StepTensor StreamInto(const Trace& trace, int64_t layer, int64_t t);

// A text as tokens of a model.
struct ModelTokens {
  std::vector<int32_t> ids;
  std::vector<std::string> labels;  // one for each token

  int64_t last() const { return static_cast<int64_t>(ids.size()) - 1; }
};

// Special tokens in the text become their tokens. Throws a kInput Error for a text without tokens,
// one that is longer than the model's context, or one with tokens that the model lacks.
ModelTokens TokensOf(const LessonModel& model, std::string_view text);

// The ids, each below its label.
Matrix IdValues(const ModelTokens& tokens);

// Returns the label of a token: "#50300" if the tokenizer has no such token.
std::string IdLabel(const Tokenizer& tokenizer, int32_t id);

// The input of attention's softmax in a layer of a model: "q kᵀ / √64", with a cap "50 tanh(q kᵀ /
// √64 / 50)".
std::string ScoreFormula(const GptConfig& config, int64_t layer);

// Throw a kUsage Error if the model has no such layer or head.
void RequireLayer(const GptConfig& config, int64_t layer);
void RequireHead(const GptConfig& config, int64_t head);

}  // namespace folio
