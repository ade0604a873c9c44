#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
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

// Returns the derivative of each share with respect to its own logit.
std::vector<double> OwnSlopes(const StepTensor& shares) {
  std::vector<double> slopes = Doubles(shares);
  for (double& p : slopes) p = static_cast<float>(p * (1 - p));
  return slopes;
}

// The variance of q · k for queries and keys with independent normal entries, and the variance of
// that divided by the root of the width.
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
    const StepTensor products = AttentionScores(q, k, 1, scale);
    const Tensor row = products.tensor().Reshape({1, kRows * kRows});
    variances.push_back(Normalized(backend, row, 0).variance);
  }
  return variances;
}

// Activations of numbers, or their slopes: a row for each number, a column for each of `kinds`.
Matrix Activations(Backend& backend, std::span<const float> numbers,
                   std::span<const Activation> kinds, bool slopes) {
  const StepTensor x({1, std::ssize(numbers)}, numbers);
  StepTensor ones(x.tensor().shape());
  std::ranges::fill_n(ones.data(), std::ssize(numbers), 1.0F);
  std::vector<std::vector<double>> rows(numbers.size());
  std::vector<std::string> names;
  for (const Activation kind : kinds) {
    names.emplace_back(std::ranges::find(kActivations, kind, &NamedActivation::kind)->name);
    const StepTensor out(x.tensor().shape());
    if (slopes) {
      backend.Run(ActivationBackward{.kind = kind, .x = x, .d_out = ones, .d_x = out});
    } else {
      backend.Run(ActivationForward{.kind = kind, .x = x, .out = out});
    }
    const std::vector<double> column = Doubles(out);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(column[i]);
  }
  return StackedValues(rows,
                       {.rows = Labels(numbers), .columns = std::move(names), .row_axis = "x"});
}

// From -4 to 4 in steps of 0.05.
std::vector<float> CurvePoints() {
  std::vector<float> points;
  for (int i = 0; i <= 160; ++i) points.push_back(-4 + 8 * static_cast<float>(i) / 160);
  return points;
}

constexpr char kGatedIntro[] =
    "A gated feed-forward part has two matrices side by side where GPT-2's has one. What the first "
    "gives goes through a bend and becomes a gate; what the second gives is multiplied with it, "
    "unit by unit, and a third matrix leads back into the stream. Llama, Qwen and Gemma are built "
    "so: with SiLU it is called SwiGLU, with GELU GeGLU.";

// silu(gate) * up for each pair: a row for each gate, a column for each up.
Matrix GateTimesUp(Backend& backend, std::span<const float> gates) {
  constexpr std::array<float, 5> kUps = {-2, -1, 0, 1, 2};
  std::vector<std::vector<double>> rows;
  for (const float gate : gates) {
    StepTensor x({5, 2});
    for (size_t i = 0; i < kUps.size(); ++i) {
      x.data()[2 * i] = gate;
      x.data()[2 * i + 1] = kUps[i];
    }
    const StepTensor out({5, 1});
    backend.Run(GatedForward{.x = x, .out = out});
    rows.push_back(Doubles(out));
  }
  return StackedValues(
      rows,
      {.rows = Labels(gates), .columns = Labels(kUps), .row_axis = "gate", .column_axis = "up"});
}

// The gradients of gate and up for up = 1 and a gradient of 1 of the result: a row for each gate.
Matrix GateGradients(Backend& backend, std::span<const float> gates) {
  const int64_t N = std::ssize(gates);
  StepTensor x({N, 2}), d_out({N, 1});
  for (int64_t i = 0; i < N; ++i) {
    x.data()[2 * i] = gates[static_cast<size_t>(i)];
    x.data()[2 * i + 1] = d_out.data()[i] = 1;
  }
  const StepTensor d_x({N, 2});
  backend.Run(GatedBackward{.x = x, .d_out = d_out, .d_x = d_x});
  return MatrixValues(d_x, {.rows = Labels(gates), .columns = {"gate", "up"}, .row_axis = "gate"});
}

// The units of a token with the largest results: gate, its activation, up, product.
void AddStrongestUnits(Backend& backend, const GptConfig& config, const Tensor& fc,
                       const Tensor& act, std::span<const size_t> units, Report& walk) {
  const auto F = static_cast<size_t>(config.inner());
  const StepTensor gates({1, config.inner()}, std::span(fc.host<float>(), F));
  const StepTensor opened({1, config.inner()});
  backend.Run(ActivationForward{.kind = config.activation_function, .x = gates, .out = opened});
  std::vector<std::vector<double>> rows;
  std::vector<std::string> labels;
  for (const size_t unit : units) {
    rows.push_back({fc.host<float>()[unit], opened.tensor().host<float>()[unit],
                    fc.host<float>()[F + unit], act.host<float>()[unit]});
    labels.push_back(fmt::format("unit {}", unit));
  }
  const std::string opens = fmt::format("{}(gate)", NameOf(config.activation_function));
  walk.Add(
      "strongest units", fmt::format("{} · up", opens),
      StackedValues(rows, {.rows = std::move(labels), .columns = {"gate", opens, "up", "product"}}),
      "The units whose product is largest for this token. The gate says how much of up comes "
      "through, and up what that is, and with which sign: one of them alone makes nothing.");
}

}  // namespace

Report ExplainSoftmax(Backend& backend, std::span<const float> logits) {
  RequireNumbers(logits);
  constexpr int64_t kWidth = 512;  // width of the queries and keys whose products are shown
  const StepTensor memory({1, std::ssize(logits)}, logits);
  const Tensor& x = memory;
  const double largest = *std::ranges::max_element(logits);
  const std::vector<std::string> labels = Labels(logits);
  const auto row = [&](const StepTensor& values) {
    return RowValues(Doubles(values), {.columns = labels, .column_axis = "x"});
  };
  const auto unmasked = [](Matrix values) {
    values.masks = false;  // a NaN is a result of the naive formula
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
                  unmasked(StackedValues({Doubles(NaiveSoftmax(moved)), Doubles(Softmax(moved))},
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
  walk.AddNumbers("sum", "Σ softmax(x)", Plain(RowValues({Total(safe)})),
                  "Shares of a whole add up to 1.");

  const StepTensor scaled = Scaled(x, 1 / std::sqrt(double{kWidth}));
  const StepTensor mixture = Softmax(scaled);
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
    rows.push_back(Doubles(Softmax(Scaled(x, 1 / temperature))));
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

Report ExplainGelu(Backend& backend, std::span<const float> inputs) {
  RequireNumbers(inputs);
  constexpr std::array kKinds = {Activation::kRelu, Activation::kGelu, Activation::kGeluNew};
  Report walk{.topic = "gelu",
              .title = "GELU: the bend between two matrices",
              .intro =
                  "The feed-forward part of a block is a matrix, a bend, and a matrix again. "
                  "Without the bend both matrices would be one. GPT-2 bends with GELU, which lets "
                  "through large numbers and holds back negative ones, without ReLU's corner."};
  walk.AddNumbers(
      "activations",
      "relu = max(x, 0);  gelu = x Φ(x);  gelu_new = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
      Activations(backend, inputs, kKinds, false),
      "GELU multiplies x by Φ(x), the share of a normal distribution that lies below x: far to the "
      "right it is x itself, far to the left 0, and in between it bends smoothly, a little below "
      "0.");
  walk.AddNumbers("slopes", "d activation / d x", Activations(backend, inputs, kKinds, true),
                  "A unit learns by its slope: ReLU's is 0 for every negative input, so that a "
                  "unit that is never on cannot come back; GELU's is small there, but not 0.");

  const std::vector<float> points = CurvePoints();
  const Matrix curves = Activations(backend, points, kKinds, false);
  walk.Add("curves", "from -4 to 4 in steps of 0.05", curves,
           "All three agree where x is large; they differ in how they treat what is near 0.",
           FigureKind::kCurves);
  walk.Add("curves of the slopes", "d activation / d x", Activations(backend, points, kKinds, true),
           "ReLU's slope jumps at 0; GELU's rises smoothly, even beyond 1.", FigureKind::kCurves);
  std::vector<double> differences;
  for (int64_t i = 0; i < curves.rows(); ++i) {
    differences.push_back(curves.At(i, 2) - curves.At(i, 1));
  }
  const auto worst =
      std::ranges::max_element(differences, {}, [](double x) { return std::abs(x); });
  const double at = points[static_cast<size_t>(worst - differences.begin())];
  walk.Add(
      "two formulas", "gelu_new(x) − gelu(x)",
      Scientific(MakeMatrix({curves.rows(), 1}, differences,
                            {.rows = Labels(points), .columns = {"difference"}, .row_axis = "x"})),
      "GPT-2's formula replaces Φ, which needs the error function, by a tanh: that is what is "
      "left between the two.",
      FigureKind::kCurves);
  walk.AddNumbers(
      "largest difference", "where |gelu_new(x) − gelu(x)| is largest",
      Plain(RowValues({at, *worst}, {.columns = {"x", "difference"}}), 6),
      "No reader of a plot could tell the two apart; but a model computes with the one that it was "
      "trained with, and differences of this size add up over its layers.");
  return walk;
}

Report ExplainGatedMlp(Backend& backend, std::span<const float> gates) {
  RequireNumbers(gates);
  constexpr std::array kKinds = {Activation::kRelu, Activation::kGeluNew, Activation::kSilu};
  Report walk{.topic = "gated-mlp",
              .title = "The gated feed-forward part: how much of what comes through",
              .intro = kGatedIntro};
  walk.AddNumbers("activations",
                  "relu = max(x, 0);  gelu_new = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)));  "
                  "silu = x / (1 + exp(−x))",
                  Activations(backend, gates, kKinds, false),
                  "SiLU, which is also called Swish, multiplies x by its sigmoid: far to the right "
                  "it is x itself, far to the left 0, and in between it goes a little below 0, "
                  "farther than GELU.");
  const std::vector<float> points = CurvePoints();
  walk.Add("curves", "from -4 to 4 in steps of 0.05", Activations(backend, points, kKinds, false),
           "SiLU and GELU are nearly the same bend; SiLU is the smoother and the cheaper one.",
           FigureKind::kCurves);
  walk.Add("curves of the slopes", "d activation / d x", Activations(backend, points, kKinds, true),
           "Both rise smoothly beyond 1, and nowhere is a whole side without a slope.",
           FigureKind::kCurves);
  walk.Add("gate times up", "silu(gate) · up", GateTimesUp(backend, gates),
           "A closed gate, far below 0, lets nothing through, whatever up is; an open one lets "
           "through up times what it is itself. So a unit is a product of two readings of the "
           "stream, and not a bend of one.");
  walk.AddNumbers("gradients", "d (silu(gate) · up) / d gate and / d up, at up = 1",
                  GateGradients(backend, gates),
                  "Each of both learns by as much as the other lets through: the gate by up times "
                  "the slope of SiLU, up by what the gate is open.");
  constexpr double kC = 576;
  walk.AddNumbers(
      "as many weights", "plain 2 · C · F with F = 4 C;  gated 3 · C · F with F = 8/3 C",
      Plain(StackedValues({{2, 4 * kC, 2 * kC * 4 * kC}, {3, 8 * kC / 3, 3 * kC * 8 * kC / 3}},
                          {.rows = {"plain", "gated"}, .columns = {"matrices", "F", "weights"}}),
            0),
      "With three matrices instead of two, of two thirds of the width each, a block has as many "
      "weights as before: here with C = 576.");
  return walk;
}

Report ExplainGatedMlp(Backend& backend, const LessonModel& model, std::string_view text,
                       int64_t layer) {
  constexpr size_t kShown = 12;
  const GptConfig& config = model.weights->config();
  RequireLayer(config, layer);
  if (config.layer(layer).mlp != MlpKind::kGated) {
    throw UsageError("the model's feed-forward parts have no gate",
                     fmt::format("they are plain, with {}", NameOf(config.activation_function)),
                     "folio explain block --model DIR shows them");
  }
  const ModelTokens tokens = TokensOf(model, text);
  const TracePoint read =
      config.layer(layer).sublayers.post_norm ? TracePoint::kNorm1 : TracePoint::kNorm2;
  const Trace trace(backend, *model.weights, tokens.ids,
                    {read, TracePoint::kUp, TracePoint::kActivated, TracePoint::kMlp});
  const int64_t t = tokens.last(), F = config.inner();
  const Tensor fc = RowAt(trace.At(TracePoint::kUp, layer), t);
  const Tensor all = trace.At(TracePoint::kActivated, layer), act = RowAt(all, t);
  const Tensor input = RowAt(trace.At(read, layer), t),
               result = RowAt(trace.At(TracePoint::kMlp, layer), t);
  Report walk{.topic = "gated-mlp",
              .title = fmt::format("The gated feed-forward part of layer {}", layer),
              .intro = kGatedIntro};
  walk.Add("x", "x, what the feed-forward part reads", ChannelValues(input),
           fmt::format("The vector of “{}”, the last of {} tokens, as layer {} reads it.",
                       tokens.labels.back(), tokens.ids.size(), layer),
           ChannelFigure(input));
  const auto open =
      std::count_if(fc.host<float>(), fc.host<float>() + F, [](float gate) { return gate > 0; });
  walk.AddNumbers(
      "gates", "gate | up = c_fc(x)",
      Plain(RowValues({static_cast<double>(open), static_cast<double>(F - open)},
                      {.columns = {"open", "closed"}}),
            0),
      fmt::format(
          "One matrix of {} × {} gives both halves at once: {} gates, and as many ups. Open "
          "are those above 0.",
          config.n_embd, 2 * F, F));
  const std::vector<size_t> order = Strongest(Doubles(act), kShown);
  AddStrongestUnits(backend, config, fc, act, order, walk);
  std::vector<double> along;
  for (int64_t row = 0; row < trace.T(); ++row) {
    along.push_back(Row(all, row)[order.front()]);
  }
  walk.Add("the strongest along the text", fmt::format("unit {} at each token", order.front()),
           RowValues(std::move(along), {.columns = tokens.labels, .column_axis = "token"}),
           "One unit, and where in the text it has something to say.", FigureKind::kTokens);
  walk.Add("result", "c_proj(products)", ChannelValues(result),
           "The third matrix adds up what all units say, and that joins the stream.",
           ChannelFigure(result));
  return walk;
}

}  // namespace folio
