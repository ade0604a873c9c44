#include <fmt/format.h>

#include <array>
#include <cmath>

#include "folio/base/error.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/model_tokens.h"
#include "folio/lesson/step_ops.h"
#include "folio/model/param_list.h"

namespace folio {
namespace {

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
  walk.Add("mean", "mean = Σ x / C", Plain(RowValues({normalized.mean})),
           "Where the numbers of this token lie: one number for the whole row, whatever the other "
           "tokens are.",
           FigureKind::kNone);
  walk.Add("variance", "variance = Σ (x − mean)² / C", Plain(RowValues({normalized.variance})),
           "How far they are spread: divided by C, not C − 1, for these are all the numbers there "
           "are and no sample of more.",
           FigureKind::kNone);
  walk.Add("centred", "x − mean", Channels(Shifted(backend, x, -normalized.mean).tensor()),
           "What all channels have in common is taken away; how they differ is kept.",
           FigureKind::kNone);
  walk.Add("factor", fmt::format("1 / √(variance + {:g})", eps),
           Plain(RowValues({normalized.rstd})),
           "The small number under the root keeps a row of equal numbers from a division by 0.",
           FigureKind::kNone);
  walk.Add("normalised", "(x − mean) / √(variance + eps)", Channels(normalized.out.tensor()),
           "Now every token comes to the next layer at the same size, however large its stream has "
           "grown.",
           FigureKind::kNone);
  const NormalizedRow again = Normalized(backend, normalized.out.tensor(), {}, {}, eps);
  walk.Add("check", "mean and variance of the normalised row",
           Plain(RowValues({again.mean, again.variance}, {.columns = {"mean", "variance"}})),
           "Mean 0 and, but for the small number under the root, variance 1.", FigureKind::kNone);
  walk.Add("weight", "weight", Channels(scale.weight),
           "The model learns one factor for each channel; they begin at 1.", FigureKind::kNone);
  if (scale.bias) {
    walk.Add("bias", "bias", Channels(scale.bias),
             "And one offset for each channel; they begin at 0.", FigureKind::kNone);
  }
  walk.Add("result", scale.bias ? "normalised · weight + bias" : "normalised · weight",
           Channels(Normalized(backend, x, scale.weight, scale.bias, eps).out.tensor()),
           "So a channel that matters can be made loud again, and one that does not, quiet.",
           FigureOf(x));
}

}  // namespace

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

}  // namespace folio
