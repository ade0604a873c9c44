#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/model_text.h"
#include "folio/lesson/step_ops.h"

namespace folio {
namespace {

constexpr std::string_view kIntro =
    "Layer after layer adds to the numbers of a token, and they would grow or drift out of the "
    "range in which the next layer works. LayerNorm takes the numbers of one token, moves them to "
    "mean 0 and stretches them to variance 1, and then lets the model choose a scale and an offset "
    "for each channel.";

constexpr int64_t kMaxBars = 32;

StepValues Channels(const Tensor& row) {
  return RowValues(Doubles(row), {.columns = Numbered(row.count()), .column_axis = "channel"});
}

FigureKind FigureOf(const Tensor& row) {
  return row.count() <= kMaxBars ? FigureKind::kBars : FigureKind::kHeatmap;
}

StepValues One(double value) {
  StepValues values = RowValues(std::vector{value});
  values.heat = false;
  return values;
}

Step NumberStep(std::string name, std::string formula, double value, std::string why) {
  return {.name = std::move(name),
          .formula = std::move(formula),
          .values = One(value),
          .why = std::move(why),
          .figure = FigureKind::kNone};
}

struct Scale {
  Tensor weight, bias;  // (C); no bias if empty
};

// The steps from x (1,C) to weight * (x - mean) / sqrt(variance + eps) + bias.
void AddSteps(Backend& backend, const Tensor& x, const Scale& scale, double eps, Walk& walk) {
  const NormalizedRow normalized = Normalized(backend, x, {}, {}, eps);
  const auto add_row = [&](std::string name, std::string formula, const Tensor& row,
                           std::string why, FigureKind figure = FigureKind::kNone) {
    walk.steps.push_back({.name = std::move(name),
                          .formula = std::move(formula),
                          .values = Channels(row),
                          .why = std::move(why),
                          .figure = figure});
  };
  walk.steps.push_back(NumberStep("mean", "mean = Σ x / C", normalized.mean,
                                  "Where the numbers of this token lie: one number for the whole "
                                  "row, whatever the other tokens are."));
  walk.steps.push_back(
      NumberStep("variance", "variance = Σ (x − mean)² / C", normalized.variance,
                 "How far they are spread: divided by C, not C − 1, for these are all the numbers "
                 "there are and no sample of more."));
  add_row("centred", "x − mean", Shifted(backend, x, -normalized.mean).tensor(),
          "What all channels have in common is taken away; how they differ is kept.");
  walk.steps.push_back(NumberStep(
      "factor", fmt::format("1 / √(variance + {:g})", eps), normalized.rstd,
      "The small number under the root keeps a row of equal numbers from a division by 0."));
  add_row("normalised", "(x − mean) / √(variance + eps)", normalized.out.tensor(),
          "Now every token comes to the next layer at the same size, however large its stream has "
          "grown.");
  const NormalizedRow again = Normalized(backend, normalized.out.tensor(), {}, {}, eps);
  StepValues check =
      RowValues(std::vector{again.mean, again.variance}, {.columns = {"mean", "variance"}});
  check.heat = false;
  walk.steps.push_back({.name = "check",
                        .formula = "mean and variance of the normalised row",
                        .values = std::move(check),
                        .why = "Mean 0 and, but for the small number under the root, variance 1.",
                        .figure = FigureKind::kNone});
  add_row("weight", "weight", scale.weight.Reshape(x.shape()),
          "The model learns one factor for each channel; they begin at 1.");
  if (scale.bias) {
    add_row("bias", "bias", scale.bias.Reshape(x.shape()),
            "And one offset for each channel; they begin at 0.");
  }
  add_row("result", scale.bias ? "normalised · weight + bias" : "normalised · weight",
          Normalized(backend, x, scale.weight, scale.bias, eps).out.tensor(),
          "So a channel that matters can be made loud again, and one that does not, quiet.",
          FigureOf(x));
}

}  // namespace

Walk ExplainLayerNorm(Backend& backend, std::span<const float> row) {
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
  Walk walk{.topic = "layernorm",
            .title = "LayerNorm: every token at the same size",
            .intro = std::string(kIntro),
            .steps = {}};
  walk.steps.push_back({.name = "x",
                        .formula = "x",
                        .values = Channels(x.tensor()),
                        .why = "The numbers of one token, one for each channel.",
                        .figure = FigureOf(x.tensor())});
  AddSteps(backend, x.tensor(), {weight.tensor(), bias.tensor()}, 1e-5, walk);
  return walk;
}

Walk ExplainLayerNorm(Backend& backend, const ExplainModel& model, std::string_view text,
                      int64_t layer) {
  const GptConfig& config = model.weights->config();
  RequireLayer(config, layer);
  const ModelTokens tokens = TokensOf(model, text);
  const TracePoint points[] = {TracePoint::kEmbedded, TracePoint::kMiddle, TracePoint::kOutput};
  const Trace trace(backend, *model.weights, tokens.ids, points);
  const Tensor stream =
      config.pre_norm() ? trace.Stream(layer) : trace.At(TracePoint::kMiddle, layer);
  const Tensor x = RowAt(stream, tokens.last());
  const NormParams& params = model.weights->params().h[static_cast<size_t>(layer)].ln_1;
  Walk walk{.topic = "layernorm",
            .title = fmt::format("LayerNorm: ln_1 of layer {}", layer),
            .intro = std::string(kIntro),
            .steps = {}};
  walk.steps.push_back(
      {.name = "x",
       .formula = config.pre_norm() ? "x = the stream before the layer"
                                    : "x = the stream after the layer's attention",
       .values = Channels(x),
       .why = fmt::format("What the model holds of “{}”, the last of {} tokens, when it comes to "
                          "ln_1 of layer {}.",
                          tokens.labels.back(), tokens.ids.size(), layer),
       .figure = FigureOf(x)});
  AddSteps(backend, x, {params.weight, params.bias}, config.layer_norm_epsilon, walk);
  return walk;
}

}  // namespace folio
