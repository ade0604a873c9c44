#include "folio/lesson/walk_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/visible_text.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

void RequireOneOf(const std::string& what, int64_t value, int64_t count) {
  if (0 <= value && value < count) return;
  throw UsageError(fmt::format("the model has no {} {}", what, value),
                   fmt::format("it has {}, counted from 0", count),
                   fmt::format("give one from 0 to {}", count - 1));
}

}  // namespace

StepTensor::StepTensor(const Shape& shape, std::span<const float> values) : StepTensor(shape) {
  FOLIO_CHECK(std::ssize(values) == shape.count(), "a value for each element");
  std::ranges::copy(values, data());
}

Matrix MatrixValues(const Tensor& x, MatrixLabels labels) {
  const int64_t columns = x.shape().back();
  return MakeMatrix({columns == 0 ? 0 : x.count() / columns, columns}, Doubles(x),
                    std::move(labels));
}

Matrix ChannelValues(const Tensor& row) {
  return RowValues(Doubles(row), {.columns = Numbered(row.count()), .column_axis = "channel"});
}

FigureKind ChannelFigure(const Tensor& row) {
  constexpr int64_t kMaxBars = 32;
  return row.count() <= kMaxBars ? FigureKind::kBars : FigureKind::kHeatmap;
}

std::vector<double> Doubles(const Tensor& x) {
  const auto count = static_cast<size_t>(x.count());
  if (x.dtype() == Dtype::kF64) {
    const double* data = x.host<double>();
    return {data, data + count};
  }
  const float* data = x.host<float>();
  return {data, data + count};
}

std::vector<size_t> Strongest(std::span<const double> numbers, size_t most) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return -std::abs(numbers[i]); });
  order.resize(std::min(most, order.size()));
  return order;
}

StepTensor Sum(Backend& backend, const Tensor& a, const Tensor& b) {
  StepTensor out(a.shape());
  backend.Run(ResidualForward{.residual = a, .x = b, .out = out});
  return out;
}

StepTensor Shifted(Backend& backend, const Tensor& x, double value) {
  const StepTensor shift(x.shape());
  backend.Run(Fill{.out = shift, .value = value});
  return Sum(backend, x, shift);
}

StepTensor Scaled(const Tensor& x, double factor) {
  StepTensor out(x.shape());
  std::transform(x.host<float>(), x.host<float>() + x.count(), out.data(),
                 [factor](float value) { return static_cast<float>(factor) * value; });
  return out;
}

StepTensor StreamInto(const Trace& trace, int64_t layer, int64_t t) {
  const GptParams& params = trace.weights().params();
  const Tensor row = RowAt(trace.Stream(layer), t);
  if (!trace.config().residual_lambdas) return Scaled(row, 1);
  StepTensor mixed(row.shape());
  trace.backend().Run(MixForward{.x = row,
                                 .y = RowAt(trace.At(TracePoint::kEmbedded), t),
                                 .x_factor = params.resid_lambdas.Slice(layer, layer + 1),
                                 .y_factor = params.x0_lambdas.Slice(layer, layer + 1),
                                 .out = mixed});
  return mixed;
}

double Total(const Tensor& row) {
  double total = 0;
  for (const double x : Doubles(row)) total += x;
  return static_cast<float>(total);
}

double Length(Backend& backend, const Tensor& row) {
  double sum = 0;
  backend.Run(SumOfSquares{.x = row.Reshape({row.count()}), .out = Tensor(&sum, {1})});
  return std::sqrt(sum);
}

NormalizedRow Normalized(Backend& backend, const Tensor& row, double eps, const Tensor& weight,
                         const Tensor& bias) {
  const int64_t C = row.count();
  StepTensor ones({C});
  std::fill_n(ones.data(), C, 1.0f);
  const StepTensor mean({1}), rstd({1});
  NormalizedRow result{.out = StepTensor(row.shape())};
  backend.Run(LayerNormForward{.x = row,
                               .weight = weight ? weight : ones,
                               .bias = bias,
                               .out = result.out,
                               .mean = mean,
                               .rstd = rstd,
                               .eps = eps});
  result.mean = Doubles(mean).front();
  result.rstd = Doubles(rstd).front();
  result.variance = std::max(0.0, 1 / (result.rstd * result.rstd) - eps);
  return result;
}

void RequireNumbers(std::span<const float> numbers) {
  if (numbers.empty()) throw UsageError("no numbers", {}, "give at least one");
  for (const float number : numbers) {
    if (std::isfinite(number)) continue;
    throw UsageError(fmt::format("{} is not finite", number), {}, "give finite numbers");
  }
}

ModelTokens TokensOf(const LessonModel& model, std::string_view text) {
  const GptConfig& config = model.weights->config();
  ModelTokens tokens;
  tokens.ids = model.tokenizer->Encode(text, "text", SpecialRule::Allow());
  if (!tokens.ids.empty()) tokens.ids = model.tokenizer->WithBeginning(std::move(tokens.ids));
  const auto T = static_cast<int64_t>(tokens.ids.size());
  if (T == 0) throw InputError("text: no tokens", {}, "give a text");
  if (T > config.n_positions) {
    throw InputError(
        fmt::format("text: {} tokens are too many", T),
        fmt::format("the context of the model is {} tokens (n_positions)", config.n_positions),
        "shorten the text");
  }
  for (const int32_t id : tokens.ids) {
    if (id >= config.vocab_size) {
      throw InputError(fmt::format("text: the model has no token {}", id),
                       fmt::format("the token ids are 0 to {}", config.vocab_size - 1),
                       "use the tokenizer of the model");
    }
    tokens.labels.push_back(IdLabel(*model.tokenizer, id));
  }
  return tokens;
}

Matrix IdValues(const ModelTokens& tokens) {
  return Plain(RowValues({tokens.ids.begin(), tokens.ids.end()}, {.columns = tokens.labels}), 0);
}

std::string IdLabel(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocab_size() || tokenizer.TokenBytes(id).empty()) {
    return fmt::format("#{}", id);
  }
  return VisibleToken(tokenizer.TokenBytes(id));
}

std::string ScoreFormula(const GptConfig& config, int64_t layer) {
  const double scale = config.layer(layer).score_scale;
  const bool root = scale == 1 / std::sqrt(static_cast<double>(config.head_size()));
  std::string formula = root         ? fmt::format("q kᵀ / √{}", config.head_size())
                        : scale == 1 ? "q kᵀ"
                                     : fmt::format("q kᵀ · {:.4g}", scale);
  if (config.attention_cap == 0) return formula;
  return fmt::format("{} tanh({} / {})", config.attention_cap, formula, config.attention_cap);
}

void RequireLayer(const GptConfig& config, int64_t layer) {
  RequireOneOf("layer", layer, config.n_layer);
}

void RequireHead(const GptConfig& config, int64_t head) {
  RequireOneOf("head", head, config.n_head);
}

}  // namespace folio
