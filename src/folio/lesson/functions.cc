#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

std::vector<std::string> Labels(std::span<const float> numbers) {
  std::vector<std::string> labels;
  for (const float number : numbers) labels.push_back(fmt::format("{:g}", number));
  return labels;
}

// Returns for each share how much it changes with its own logit.
std::vector<double> OwnSlopes(const StepTensor& shares) {
  std::vector<double> slopes = Doubles(shares.tensor());
  for (double& p : slopes) p = static_cast<float>(p * (1 - p));
  return slopes;
}

// The variance of q · k for queries and keys of independent normal entries, and that of the same
// divided by the root of the width.
std::vector<double> VariancesOfProducts(Backend& backend, int64_t width) {
  constexpr int64_t kRows = 64;
  StepTensor q({kRows, width}), k({kRows, width});
  const CounterRng numbers(123, 0);
  for (int64_t i = 0; i < kRows * width; ++i) {
    q.data()[i] = static_cast<float>(numbers.Normal(static_cast<uint64_t>(2 * i)));
    k.data()[i] = static_cast<float>(numbers.Normal(static_cast<uint64_t>(2 * i + 1)));
  }
  std::vector<double> variances;
  for (const double scale : {1.0, 1 / std::sqrt(static_cast<double>(width))}) {
    const StepTensor products = AttentionScores(q.tensor(), k.tensor(), 1, scale);
    const Tensor row = products.tensor().Reshape({1, kRows * kRows});
    variances.push_back(Normalized(backend, row, {}, {}, 0).variance);
  }
  return variances;
}

constexpr char kIntro[] =
    "Layer after layer adds to the numbers of a token, and they would grow or drift out of the "
    "range in which the next layer works. LayerNorm takes the numbers of one token, moves them to "
    "mean 0 and stretches them to variance 1, and then lets the model choose a scale and an offset "
    "for each channel.";

constexpr int64_t kMaxBars = 32;

Matrix Channels(const Tensor& row) {
  return RowValues(Doubles(row), {.columns = Numbered(row.count()), .column_axis = "channel"});
}

FigureKind FigureOf(const Tensor& row) {
  return row.count() <= kMaxBars ? FigureKind::kBars : FigureKind::kHeatmap;
}

struct Scale {
  Tensor weight, bias;  // (C); no bias if empty
};

// The steps from x (1,C) to weight * (x - mean) / sqrt(variance + eps) + bias.
void AddSteps(Backend& backend, const Tensor& x, const Scale& scale, double eps, Report& walk) {
  const NormalizedRow normalized = Normalized(backend, x, {}, {}, eps);
  walk.AddNumbers("mean", "mean = Σ x / C", Plain(RowValues({normalized.mean})),
                  "Where the numbers of this token lie: one number for the whole row, whatever the "
                  "other tokens are.");
  walk.AddNumbers("variance", "variance = Σ (x − mean)² / C",
                  Plain(RowValues({normalized.variance})),
                  "How far they are spread: divided by C, not C − 1, for these are all the numbers "
                  "there are and no sample of more.");
  walk.AddNumbers("centred", "x − mean", Channels(Shifted(backend, x, -normalized.mean).tensor()),
                  "What all channels have in common is taken away; how they differ is kept.");
  walk.AddNumbers(
      "factor", fmt::format("1 / √(variance + {:g})", eps), Plain(RowValues({normalized.rstd})),
      "The small number under the root keeps a row of equal numbers from a division by 0.");
  walk.AddNumbers("normalised", "(x − mean) / √(variance + eps)", Channels(normalized.out.tensor()),
                  "Now every token comes to the next layer at the same size, however large its "
                  "stream has grown.");
  const NormalizedRow again = Normalized(backend, normalized.out.tensor(), {}, {}, eps);
  walk.AddNumbers("check", "mean and variance of the normalised row",
                  Plain(RowValues({again.mean, again.variance}, {.columns = {"mean", "variance"}})),
                  "Mean 0 and, but for the small number under the root, variance 1.");
  walk.AddNumbers("weight", "weight", Channels(scale.weight),
                  "The model learns one factor for each channel; they begin at 1.");
  if (scale.bias) {
    walk.AddNumbers("bias", "bias", Channels(scale.bias),
                    "And one offset for each channel; they begin at 0.");
  }
  walk.Add("result", scale.bias ? "normalised · weight + bias" : "normalised · weight",
           Channels(Normalized(backend, x, scale.weight, scale.bias, eps).out.tensor()),
           "So a channel that matters can be made loud again, and one that does not, quiet.",
           FigureOf(x));
}

constexpr std::array<NamedActivation, 3> kCompared = {
    {{Activation::kRelu, "relu"}, {Activation::kGelu, "gelu"}, {Activation::kGeluNew, "gelu_new"}}};

std::vector<float> Evenly(float from, float to, int count) {
  std::vector<float> points;
  for (int i = 0; i < count; ++i) {
    points.push_back(from + (to - from) * static_cast<float>(i) / static_cast<float>(count - 1));
  }
  return points;
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

Report ExplainSoftmax(Backend& backend, std::span<const float> logits) {
  RequireNumbers(logits);
  constexpr int64_t kWidth = 512;  // of the queries and keys whose products are looked at
  const StepTensor memory({1, std::ssize(logits)}, logits);
  const Tensor& x = memory.tensor();
  const double largest = *std::ranges::max_element(logits);
  const std::vector<std::string> labels = Labels(logits);
  const auto row = [&](const StepTensor& of) {
    return RowValues(Doubles(of.tensor()), {.columns = labels, .column_axis = "x"});
  };
  const auto unmasked = [](Matrix values) {
    values.masks = false;  // a NaN is what the naive formula gives
    return Scientific(std::move(values));
  };
  Report walk{
      .topic = "softmax",
      .title = "Softmax: from any numbers to shares",
      .intro =
          "Softmax turns a row of numbers into shares that are positive and add up to 1; the "
          "larger a number, the larger its share. Attention uses it to decide how much of each "
          "token to take, and the end of the model to make probabilities of its logits."};
  walk.AddNumbers("logits", "x", row(memory),
                  "Any numbers will do: only how far they are apart counts.");
  walk.AddNumbers("naive softmax", "exp(x) / Σ exp(x)", unmasked(row(NaiveSoftmax(x))),
                  "The exponential makes every number positive and a lead of 10 a ratio of 22026; "
                  "dividing by the sum makes shares of them.");

  const double shift = 100 - largest;  // makes the largest 100
  const StepTensor moved = Shifted(backend, x, shift);
  walk.AddNumbers("overflow",
                  fmt::format("softmax(x {} {:g})", shift < 0 ? "−" : "+", std::abs(shift)),
                  unmasked(StackedValues({Doubles(NaiveSoftmax(moved.tensor()).tensor()),
                                          Doubles(Softmax(moved.tensor()).tensor())},
                                         {.rows = {"naive", "safe"}, .columns = labels})),
                  "Adding the same number to all must change nothing, but exp(89) is more than a "
                  "float32 can hold: the naive formula divides infinity by infinity, and one such "
                  "row ruins a whole model.");
  walk.AddNumbers("shifted", "x − max(x)", row(Shifted(backend, x, -largest)),
                  "So the largest is taken off first: it becomes 0 and its exponential 1, and the "
                  "others can only be smaller.");
  const StepTensor safe = Softmax(x);
  walk.Add("softmax", "exp(x − max(x)) / Σ exp(x − max(x))", Scientific(row(safe)),
           "The same shares as by the naive formula, for numbers of any size.", FigureKind::kBars);
  walk.AddNumbers("sum", "Σ softmax(x)", Plain(RowValues({Total(safe.tensor())})),
                  "Shares of a whole add up to 1.");

  const StepTensor scaled = Scaled(x, 1 / std::sqrt(double{kWidth}));
  const StepTensor mixture = Softmax(scaled.tensor());
  walk.AddNumbers("scaled", "x / √512", row(scaled),
                  "Attention divides its scores by the root of the width of the queries and keys, "
                  "here 512, before it takes their softmax.");
  walk.Add("softmax of the scaled", "softmax(x / √512)", row(mixture),
           "What was nearly all for one becomes a mixture: every token is heard, and the largest "
           "still counts most.",
           FigureKind::kBars);
  std::vector<std::vector<double>> rows;
  constexpr std::array<float, 6> kTemperatures = {0.5, 1, 2, 5, 10, 100};
  for (const double temperature : kTemperatures) {
    rows.push_back(Doubles(Softmax(Scaled(x, 1 / temperature).tensor()).tensor()));
  }
  walk.Add("temperatures", "softmax(x / temperature)",
           StackedValues(
               rows, {.rows = Labels(kTemperatures), .columns = labels, .row_axis = "temperature"}),
           "The same division under another name: a low temperature gives all to the largest, a "
           "high one makes all equal.");
  walk.AddNumbers("slopes", "d softmax(x)_i / d x_i",
                  StackedValues({OwnSlopes(safe), OwnSlopes(mixture)},
                                {.rows = {"softmax(x)", "softmax(x/√512)"}, .columns = labels}),
                  "Where one share is nearly 1 all slopes are nearly 0 and nothing can be learnt; "
                  "scaled scores keep slopes that learning can use.");
  walk.AddNumbers("why the root of the width",
                  "variance over 64 × 64 products of vectors of 512 standard normal numbers",
                  Plain(RowValues(VariancesOfProducts(backend, kWidth),
                                  {.columns = {"q · k", "q · k / √512"}})),
                  "A sum of 512 products of variance 1 has variance 512: dividing by √512 brings "
                  "it back to 1, whatever the width, and softmax does not begin as a hard choice.");
  return walk;
}

Report ExplainLayerNorm(Backend& backend, std::span<const float> row) {
  RequireNumbers(row);
  const auto C = static_cast<int64_t>(row.size());
  const StepTensor x({1, C}, row);
  if (!std::isfinite(Normalized(backend, x.tensor(), {}, {}, 1e-5).variance)) {
    throw InputError("the numbers are too far apart",
                     "their variance is more than a float32 can hold", "give smaller ones");
  }
  StepTensor weight({C}), bias({C});
  for (int64_t c = 0; c < C; ++c) {
    constexpr std::array<float, 3> kWeights = {1, 2, 0.5}, kBiases = {0, 0, 1};
    weight.data()[c] = kWeights[static_cast<size_t>(c) % 3];
    bias.data()[c] = kBiases[static_cast<size_t>(c) % 3];
  }
  Report walk{
      .topic = "layernorm", .title = "LayerNorm: every token at the same size", .intro = kIntro};
  walk.Add("x", "x", Channels(x.tensor()), "The numbers of one token, one for each channel.",
           FigureOf(x.tensor()));
  AddSteps(backend, x.tensor(), {weight.tensor(), bias.tensor()}, 1e-5, walk);
  return walk;
}

Report ExplainLayerNorm(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer) {
  const GptConfig& config = model.weights->config();
  RequireLayer(config, layer);
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids,
                    {TracePoint::kEmbedded, TracePoint::kMiddle, TracePoint::kOutput});
  const Tensor stream =
      config.pre_norm() ? trace.Stream(layer) : trace.At(TracePoint::kMiddle, layer);
  const Tensor x = RowAt(stream, tokens.last());
  const NormParams& params = model.weights->params().h[static_cast<size_t>(layer)].ln_1;
  Report walk{.topic = "layernorm",
              .title = fmt::format("LayerNorm: ln_1 of layer {}", layer),
              .intro = kIntro};
  walk.Add(
      "x",
      config.pre_norm() ? "x = the stream before the layer"
                        : "x = the stream after the layer's attention",
      Channels(x),
      fmt::format(
          "What the model holds of “{}”, the last of {} tokens, when it comes to ln_1 of layer {}.",
          tokens.labels.back(), tokens.ids.size(), layer),
      FigureOf(x));
  AddSteps(backend, x, {params.weight, params.bias}, config.layer_norm_epsilon, walk);
  return walk;
}

Report ExplainGelu(Backend& backend, std::span<const float> inputs) {
  RequireNumbers(inputs);
  const StepTensor x({1, std::ssize(inputs)}, inputs);
  Report walk{.topic = "gelu",
              .title = "GELU: the bend between two matrices",
              .intro =
                  "The feed-forward part of a block is a matrix, a bend, and a matrix again. "
                  "Without the bend both matrices would be one. GPT-2 bends with GELU, which lets "
                  "through large numbers and holds back negative ones, without ReLU's corner."};
  const auto apply = [&](Activation kind, const auto& at) { return Apply(backend, kind, at); };
  const auto slope = [&](Activation kind, const auto& at) { return Slope(backend, kind, at); };
  walk.AddNumbers(
      "activations",
      "relu = max(x, 0);  gelu = x Φ(x);  gelu_new = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
      Table(x, Labels(inputs), apply),
      "GELU multiplies x by Φ(x), the share of a normal distribution that lies below x: far to the "
      "right it is x itself, far to the left 0, and in between it bends smoothly, a little below "
      "0.");
  walk.AddNumbers("slopes", "d activation / d x", Table(x, Labels(inputs), slope),
                  "A unit learns by its slope: ReLU's is 0 for every negative input, so that a "
                  "unit that is never on cannot come back; GELU's is small there, but not 0.");

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
  walk.AddNumbers(
      "largest difference", "where |gelu_new(x) − gelu(x)| is largest",
      Plain(RowValues(LargestOf(points, differences), {.columns = {"x", "difference"}}), 6),
      "No reader of a plot could tell the two apart; but a model computes with the one that it was "
      "trained with, and differences of this size add up over its layers.");
  return walk;
}

}  // namespace folio
