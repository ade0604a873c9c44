#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "folio/backend/ops.h"
#include "folio/base/error.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/block.h"
#include "folio/model/layers/norm.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

constexpr char kLayerNormIntro[] =
    "Layer after layer adds to the numbers of a token, and they would grow or drift out of the "
    "range in which the next layer works. LayerNorm takes the numbers of one token, moves them to "
    "mean 0 and stretches them to variance 1, and then lets the model choose a scale and an offset "
    "for each channel.";

struct Scale {
  Tensor weight, bias;  // (C); no bias if empty
};

// The steps from x (1,C) to weight * (x - mean) / sqrt(variance + eps) + bias.
void AddLayerNormSteps(Backend& backend, const Tensor& x, const Scale& scale, double eps,
                       Report& walk) {
  const NormalizedRow normalized = Normalized(backend, x, eps);
  walk.AddNumbers("mean", "mean = Σ x / C", Plain(RowValues({normalized.mean})),
                  "Where the numbers of this token lie: one number for the whole row, whatever the "
                  "other tokens are.");
  walk.AddNumbers("variance", "variance = Σ (x − mean)² / C",
                  Plain(RowValues({normalized.variance})),
                  "How far they are spread: divided by C, not C − 1, for these are all the numbers "
                  "there are and no sample of more.");
  walk.AddNumbers("centred", "x − mean", ChannelValues(Shifted(backend, x, -normalized.mean)),
                  "What all channels have in common is taken away; how they differ is kept.");
  walk.AddNumbers(
      "factor", fmt::format("1 / √(variance + {:g})", eps), Plain(RowValues({normalized.rstd})),
      "The small number under the root keeps a row of equal numbers from a division by 0.");
  walk.AddNumbers("normalised", "(x − mean) / √(variance + eps)", ChannelValues(normalized.out),
                  "Now every token comes to the next layer at the same size, however large its "
                  "stream has grown.");
  const NormalizedRow again = Normalized(backend, normalized.out, eps);
  walk.AddNumbers("check", "mean and variance of the normalised row",
                  Plain(RowValues({again.mean, again.variance}, {.columns = {"mean", "variance"}})),
                  "Mean 0 and, but for the small number under the root, variance 1.");
  walk.AddNumbers("weight", "weight", ChannelValues(scale.weight),
                  "The model learns one factor for each channel; they begin at 1.");
  if (scale.bias) {
    walk.AddNumbers("bias", "bias", ChannelValues(scale.bias),
                    "And one offset for each channel; they begin at 0.");
  }
  walk.Add("result", scale.bias ? "normalised · weight + bias" : "normalised · weight",
           ChannelValues(Normalized(backend, x, eps, scale.weight, scale.bias).out),
           "So a channel that matters can be made loud again, and one that does not, quiet.",
           ChannelFigure(x));
}

constexpr char kRmsNormIntro[] =
    "RMSNorm is LayerNorm without the mean: it only divides the numbers of a token by their root "
    "mean square, and then lets the model choose a scale for each channel. Models since Llama have "
    "it, for it is cheaper and they learn as well: what matters is that every token comes to the "
    "next layer at the same size.";

// RMSNorm of one row (1,C), and its divisor.
struct RmsNormalizedRow {
  StepTensor out;
  double mean_square = 0, rstd = 0;
};
RmsNormalizedRow RmsNormalized(Backend& backend, const Tensor& row, double eps,
                               const Tensor& weight = {}, double offset = 0) {
  const StepTensor rstd({1});
  RmsNormalizedRow result{.out = StepTensor(row.shape())};
  backend.Run(RmsNormForward{.x = row,
                             .weight = weight,
                             .out = result.out,
                             .rstd = rstd,
                             .eps = eps,
                             .weight_offset = offset});
  result.rstd = Doubles(rstd).front();
  result.mean_square = std::max(0.0, 1 / (result.rstd * result.rstd) - eps);
  return result;
}

// The steps from x (1,C) to x / sqrt(mean of x^2 + eps) * (weight + offset). `weight` may be empty.
void AddRmsNormSteps(Backend& backend, const Tensor& x, const Tensor& weight, double offset,
                     double eps, Report& walk) {
  const RmsNormalizedRow normalized = RmsNormalized(backend, x, eps);
  walk.AddNumbers("mean square", "mean square = Σ x² / C",
                  Plain(RowValues({normalized.mean_square})),
                  "How large the numbers of this token are: one number for the whole row. What "
                  "their mean is does not matter.");
  walk.AddNumbers("factor", fmt::format("1 / √(mean square + {:g})", eps),
                  Plain(RowValues({normalized.rstd})),
                  "The small number under the root keeps a row of zeros from a division by 0.");
  walk.AddNumbers("normalised", "x / √(mean square + eps)", ChannelValues(normalized.out),
                  "Every number keeps its sign and its share: only the length of the vector is "
                  "made the same for all tokens.");
  const RmsNormalizedRow again = RmsNormalized(backend, normalized.out, eps);
  const double mean = Normalized(backend, normalized.out, eps).mean;
  walk.AddNumbers(
      "check", "mean and mean square of the normalised row",
      Plain(RowValues({mean, again.mean_square}, {.columns = {"mean", "mean square"}})),
      "The mean square is 1, but for the small number under the root; the mean is what it "
      "happens to be.");
  if (weight) {
    const std::string formula = offset == 1 ? "1 + weight" : "weight";
    walk.AddNumbers("weight", formula,
                    ChannelValues(Shifted(backend, weight.Reshape(x.shape()), offset)),
                    offset == 1 ? "The model learns one factor for each channel, stored as what is "
                                  "added to 1; it begins at 0."
                                : "The model learns one factor for each channel; they begin at 1. "
                                  "There is no offset.");
    walk.Add("result", fmt::format("normalised · {}", offset == 1 ? "(1 + weight)" : "weight"),
             ChannelValues(RmsNormalized(backend, x, eps, weight, offset).out),
             "So a channel that matters can be made loud again, and one that does not, quiet.",
             ChannelFigure(x));
  } else {
    walk.Add("result", "normalised", ChannelValues(normalized.out),
             "This model has no weights here: the matrix behind the norm can learn them.",
             ChannelFigure(x));
  }
  walk.Add("beside LayerNorm", "x / √(mean square + eps),  (x − mean) / √(variance + eps)",
           StackedValues({Doubles(normalized.out), Doubles(Normalized(backend, x, eps).out)},
                         {.rows = {"RMSNorm", "LayerNorm"},
                          .columns = Numbered(x.count()),
                          .column_axis = "channel"}),
           "LayerNorm moves the row to mean 0 first. Where the mean is small beside the numbers, "
           "as it is in most models, both are nearly the same.");
}

// Throws a kInput Error if squares of the numbers overflow float32.
void RequireModerate(double sum_of_squares) {
  if (std::isfinite(sum_of_squares)) return;
  throw InputError("the numbers are too far apart",
                   "their variance is more than a float32 can hold", "give smaller ones");
}

// Weights of an example: the three values, repeated.
StepTensor Cycle(int64_t C, std::array<float, 3> values) {
  StepTensor out({C});
  for (int64_t c = 0; c < C; ++c) out.data()[c] = values[static_cast<size_t>(c % 3)];
  return out;
}

// The input of the first norm in a layer of a model, for a text's last token.
struct FirstNorm {
  StepTensor x;
  NormParams params = {};
  std::string name = {}, formula = {}, text = {};
};

FirstNorm FirstNormOf(Backend& backend, const LessonModel& model, std::string_view text,
                      int64_t layer) {
  const GptConfig& config = model.weights->config();
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(
      backend, *model.weights, tokens.ids,
      {TracePoint::kEmbedded, TracePoint::kHeads, TracePoint::kMiddle, TracePoint::kOutput});
  const BlockParams& block = model.weights->params().h[static_cast<size_t>(layer)];
  const SublayerLayout layout = config.layer(layer).sublayers;
  const bool branch = !layout.pre_norm && layout.branch_norm;
  FirstNorm norm{.x = StepTensor({1, config.n_embd}),
                 .params = branch ? block.ln_attn : block.ln_1,
                 .name = branch ? "ln_attn" : "ln_1"};
  if (branch) {
    norm.formula = "x = what the layer's attention found";
    backend.Run(LinearForward{.x = RowAt(trace.At(TracePoint::kHeads, layer), tokens.last()),
                              .weight = block.attn.c_proj.weight,
                              .bias = block.attn.c_proj.bias,
                              .out = norm.x});
  } else {
    norm.formula = layout.pre_norm ? "x = the stream before the layer"
                                   : "x = the stream after the layer's attention";
    if (layout.pre_norm) {
      norm.x = StreamInto(trace, layer, tokens.last());
    } else {
      std::ranges::copy(Row(trace.At(TracePoint::kMiddle, layer), tokens.last()), norm.x.data());
    }
  }
  norm.text = fmt::format(
      "What the model holds of “{}”, the last of {} tokens, when it comes to {} of layer {}.",
      tokens.labels.back(), tokens.ids.size(), norm.name, layer);
  return norm;
}

// Throws a kUsage Error if the model has the other kind of norms.
void RequireNorms(const LessonModel& model, int64_t layer, bool layer_norm) {
  RequireLayer(model.weights->config(), layer);
  if (model.weights->config().layer_norm() == layer_norm) return;
  throw UsageError(
      fmt::format("the model's norms are {}", layer_norm ? "RMSNorm" : "LayerNorm"), {},
      fmt::format("folio explain {} --model DIR shows them", layer_norm ? "rmsnorm" : "layernorm"));
}

}  // namespace

Report ExplainLayerNorm(Backend& backend, std::span<const float> row) {
  RequireNumbers(row);
  const auto C = static_cast<int64_t>(row.size());
  const StepTensor x({1, C}, row);
  RequireModerate(Normalized(backend, x, 1e-5).variance);
  const StepTensor weight = Cycle(C, {1, 2, 0.5}), bias = Cycle(C, {0, 0, 1});
  Report walk{.topic = "layernorm",
              .title = "LayerNorm: every token at the same size",
              .intro = kLayerNormIntro};
  walk.Add("x", "x", ChannelValues(x), "The numbers of one token, one for each channel.",
           ChannelFigure(x));
  AddLayerNormSteps(backend, x, {weight, bias}, 1e-5, walk);
  return walk;
}

Report ExplainLayerNorm(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer) {
  RequireNorms(model, layer, /*layer_norm=*/true);
  const FirstNorm norm = FirstNormOf(backend, model, text, layer);
  Report walk{.topic = "layernorm",
              .title = fmt::format("LayerNorm: {} of layer {}", norm.name, layer),
              .intro = kLayerNormIntro};
  const Tensor& x = norm.x;
  walk.Add("x", norm.formula, ChannelValues(x), norm.text, ChannelFigure(x));
  AddLayerNormSteps(backend, x, {norm.params.weight, norm.params.bias},
                    model.weights->config().layer_norm_epsilon, walk);
  return walk;
}

Report ExplainRmsNorm(Backend& backend, std::span<const float> row) {
  RequireNumbers(row);
  const auto C = static_cast<int64_t>(row.size());
  const StepTensor x({1, C}, row);
  RequireModerate(RmsNormalized(backend, x, 1e-5).mean_square);
  Report walk{.topic = "rmsnorm",
              .title = "RMSNorm: every token at the same size, without its mean",
              .intro = kRmsNormIntro};
  walk.Add("x", "x", ChannelValues(x), "The numbers of one token, one for each channel.",
           ChannelFigure(x));
  AddRmsNormSteps(backend, x, Cycle(C, {1, 2, 0.5}), 0, 1e-5, walk);
  return walk;
}

Report ExplainRmsNorm(Backend& backend, const LessonModel& model, std::string_view text,
                      int64_t layer) {
  RequireNorms(model, layer, /*layer_norm=*/false);
  const FirstNorm norm = FirstNormOf(backend, model, text, layer);
  const GptConfig& config = model.weights->config();
  Report walk{.topic = "rmsnorm",
              .title = fmt::format("RMSNorm: {} of layer {}", norm.name, layer),
              .intro = kRmsNormIntro};
  const Tensor& x = norm.x;
  walk.Add("x", norm.formula, ChannelValues(x), norm.text, ChannelFigure(x));
  AddRmsNormSteps(backend, x, norm.params.weight, config.norm_offset(), config.layer_norm_epsilon,
                  walk);
  return walk;
}

}  // namespace folio
