#include "folio/lesson/step_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/error.h"
#include "folio/lesson/attention_steps.h"

namespace folio {

StepTensor Sum(Backend& backend, const Tensor& a, const Tensor& b) {
  StepTensor out(a.shape());
  backend.Run(ResidualForward{.residual = a, .x = b, .out = out.tensor()});
  return out;
}

StepTensor Shifted(Backend& backend, const Tensor& x, double value) {
  const StepTensor shift(x.shape());
  backend.Run(Fill{.out = shift.tensor(), .value = value});
  return Sum(backend, x, shift.tensor());
}

StepTensor Scaled(const Tensor& x, double factor) {
  StepTensor out(x.shape());
  std::transform(x.data<float>(), x.data<float>() + x.count(), out.data(),
                 [factor](float value) { return static_cast<float>(factor) * value; });
  return out;
}

StepTensor Softmax(const Tensor& x) {
  StepTensor out(x.shape());
  Softmax(x, out.tensor());
  return out;
}

StepTensor NaiveSoftmax(const Tensor& x) {
  StepTensor out(x.shape());
  NaiveSoftmax(x, out.tensor());
  return out;
}

double Total(const Tensor& row) {
  const StepTensor out(row.shape()), sums({1});
  Normalize(row, out.tensor(), sums.tensor());
  return Doubles(sums.tensor()).front();
}

double Length(Backend& backend, const Tensor& row) {
  double sum = 0;
  backend.Run(SumOfSquares{.x = row.Reshape({row.count()}), .out = Tensor(&sum, {1})});
  return std::sqrt(sum);
}

NormalizedRow Normalized(Backend& backend, const Tensor& row, const Tensor& weight,
                         const Tensor& bias, double eps) {
  const int64_t C = row.count();
  StepTensor ones({C});
  std::fill_n(ones.data(), C, 1.0f);
  const StepTensor mean({1}), rstd({1});
  NormalizedRow result{.out = StepTensor(row.shape())};
  backend.Run(LayerNormForward{.x = row,
                               .weight = weight ? weight : ones.tensor(),
                               .bias = bias,
                               .out = result.out.tensor(),
                               .mean = mean.tensor(),
                               .rstd = rstd.tensor(),
                               .eps = eps});
  result.mean = Doubles(mean.tensor()).front();
  result.rstd = Doubles(rstd.tensor()).front();
  result.variance = std::max(0.0, 1 / (result.rstd * result.rstd) - eps);
  return result;
}

void RequireNumbers(std::span<const float> numbers) {
  if (numbers.empty()) throw UsageError("no numbers", {}, "give at least one");
  for (const float number : numbers) {
    if (std::isfinite(number)) continue;
    throw UsageError(fmt::format("{} is no number to compute with", number), {},
                     "give finite numbers");
  }
}

}  // namespace folio
