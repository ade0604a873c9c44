#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "folio/lesson/step_ops.h"
#include "folio/lesson/topics.h"

namespace folio {
namespace {

constexpr std::array<NamedActivation, 3> kCompared = {
    {{Activation::kRelu, "relu"}, {Activation::kGelu, "gelu"}, {Activation::kGeluNew, "gelu_new"}}};

std::vector<float> Evenly(float from, float to, int count) {
  std::vector<float> points;
  for (int i = 0; i < count; ++i) {
    points.push_back(from + (to - from) * static_cast<float>(i) / static_cast<float>(count - 1));
  }
  return points;
}

std::vector<std::string> Labels(std::span<const float> numbers) {
  std::vector<std::string> labels;
  for (const float number : numbers) labels.push_back(fmt::format("{:g}", number));
  return labels;
}

StepTensor Apply(Backend& backend, Activation kind, const StepTensor& x) {
  StepTensor out(x.tensor().shape());
  backend.Run(ActivationForward{.kind = kind, .x = x.tensor(), .out = out.tensor()});
  return out;
}

StepTensor Slope(Backend& backend, Activation kind, const StepTensor& x) {
  StepTensor ones(x.tensor().shape()), out(x.tensor().shape());
  backend.Run(Fill{.out = ones.tensor(), .value = 1});
  backend.Run(ActivationBackward{
      .kind = kind, .x = x.tensor(), .d_out = ones.tensor(), .d_x = out.tensor()});
  return out;
}

// A row for each input, a column for each activation.
template <class F>
Matrix Table(const StepTensor& x, const std::vector<std::string>& inputs, const F& compute) {
  std::vector<std::vector<double>> rows(inputs.size());
  std::vector<std::string> names;
  for (const NamedActivation& activation : kCompared) {
    names.emplace_back(activation.name);
    const std::vector<double> out = Doubles(compute(activation.kind, x).tensor());
    for (size_t i = 0; i < out.size(); ++i) rows[i].push_back(out[i]);
  }
  return StackedValues(rows, {.rows = inputs, .columns = names, .row_axis = "x"});
}

// gelu_new - gelu of each input.
std::vector<double> Differences(Backend& backend, const StepTensor& x) {
  std::vector<double> result = Doubles(Apply(backend, Activation::kGeluNew, x).tensor());
  const std::vector<double> exact = Doubles(Apply(backend, Activation::kGelu, x).tensor());
  for (size_t i = 0; i < result.size(); ++i) result[i] -= exact[i];
  return result;
}

constexpr int kCurvePoints = 161;

// The input at which the two formulas differ most, and by how much.
std::vector<double> LargestOf(const std::vector<float>& points,
                              const std::vector<double>& differences) {
  const auto worst =
      std::ranges::max_element(differences, {}, [](double x) { return std::abs(x); });
  return {points[static_cast<size_t>(worst - differences.begin())], *worst};
}

}  // namespace

Report ExplainGelu(Backend& backend, std::span<const float> inputs) {
  RequireNumbers(inputs);
  const StepTensor x({1, std::ssize(inputs)}, inputs);
  Report walk{
      .topic = "gelu",
      .title = "GELU: the bend between two matrices",
      .intro =
          "The feed-forward part of a block is a matrix, a bend, and a matrix again. Without "
          "the bend both matrices would be one. GPT-2 bends with GELU, which lets through "
          "large numbers and holds back negative ones, without ReLU's corner."};
  const auto apply = [&](Activation kind, const auto& at) { return Apply(backend, kind, at); };
  const auto slope = [&](Activation kind, const auto& at) { return Slope(backend, kind, at); };
  walk.Add("activations",
           "relu = max(x, 0);  gelu = x Φ(x);  gelu_new = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
           Table(x, Labels(inputs), apply),
           "GELU multiplies x by Φ(x), the share of a normal distribution that lies below x: far "
           "to the right it is x itself, far to the left 0, and in between it bends smoothly, a "
           "little below 0.",
           FigureKind::kNone);
  walk.Add("slopes", "d activation / d x", Table(x, Labels(inputs), slope),
           "A unit learns by its slope: ReLU's is 0 for every negative input, so that a unit that "
           "is never on cannot come back; GELU's is small there, but not 0.",
           FigureKind::kNone);

  const std::vector<float> points = Evenly(-4, 4, kCurvePoints);
  const StepTensor curve({1, kCurvePoints}, points);
  walk.Add("curves", "from -4 to 4 in steps of 0.05", Table(curve, Labels(points), apply),
           "All three agree where x is large; they differ in how they treat what is near 0.",
           FigureKind::kCurves);
  walk.Add("curves of the slopes", "d activation / d x", Table(curve, Labels(points), slope),
           "ReLU's slope jumps at 0; GELU's rises smoothly, even beyond 1.", FigureKind::kCurves);
  std::vector<double> differences = Differences(backend, curve);
  walk.Add("two formulas", "gelu_new(x) − gelu(x)",
           Scientific(
               MatrixValues(Tensor(differences.data(), {kCurvePoints, 1}),
                            {.rows = Labels(points), .columns = {"difference"}, .row_axis = "x"})),
           "GPT-2's formula replaces Φ, which needs the error function, by a tanh: that is what is "
           "left between the two.",
           FigureKind::kCurves);
  walk.Add("largest difference", "where |gelu_new(x) − gelu(x)| is largest",
           Plain(RowValues(LargestOf(points, differences), {.columns = {"x", "difference"}}), 6),
           "No reader of a plot could tell the two apart; but a model computes with the one that "
           "it was trained with, and differences of this size add up over its layers.",
           FigureKind::kNone);
  return walk;
}

}  // namespace folio
