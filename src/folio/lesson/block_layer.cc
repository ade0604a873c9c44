#include "folio/lesson/block_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "folio/lesson/step_ops.h"

namespace folio {
namespace {

constexpr size_t kUnitsShown = 12;
constexpr size_t kHeadsNamed = 6;

// Columns as rows.
std::vector<std::vector<double>> Across(const std::vector<std::vector<double>>& columns) {
  std::vector<std::vector<double>> rows(columns.front().size());
  for (const std::vector<double>& column : columns) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(column[i]);
  }
  return rows;
}

class LayerSteps {
 public:
  LayerSteps(const TokenPath& path, int64_t layer, bool brief)
      : path_(path), layer_(layer), brief_(brief), section_(fmt::format("Layer {}", layer)) {}

  void Add() {
    const bool pre = path_.trace.config().pre_norm();
    if (pre && !brief_) Norm("ln_1", Stream(), path_.Row(TracePoint::kNorm1, layer_));
    Heads();
    Attention();
    if (!pre && !brief_) {
      Norm("ln_1", path_.Row(TracePoint::kMiddle, layer_), path_.Row(TracePoint::kNorm1, layer_));
    }
    if (pre && !brief_) {
      Norm("ln_2", path_.Row(TracePoint::kMiddle, layer_), path_.Row(TracePoint::kNorm2, layer_));
    }
    Units();
    const StepTensor sum = FeedForward();
    if (!pre && !brief_) Norm("ln_2", sum.tensor(), path_.Row(TracePoint::kOutput, layer_));
  }

 private:
  Tensor Stream() const { return RowAt(path_.trace.Stream(layer_), path_.t()); }

  void AddStep(const std::string& name, std::string formula, StepValues values, std::string why,
               FigureKind figure) {
    path_.walk.steps.push_back({.name = fmt::format("layer {}: {}", layer_, name),
                                .formula = std::move(formula),
                                .values = std::move(values),
                                .why = std::move(why),
                                .figure = figure,
                                .section = std::exchange(section_, "")});
  }

  void Norm(const std::string& name, const Tensor& before, const Tensor& after) {
    AddStep(name, fmt::format("{} = LayerNorm(stream)", name),
            ChannelRows({before, after}, {"stream", name}),
            "Mean 0, variance 1, times learnt weights: so every sublayer finds numbers of the same "
            "size, however large the stream has grown.",
            FigureKind::kNone);
  }

  void Heads() {
    const int64_t H = path_.trace.config().n_head, T = path_.trace.T();
    std::vector<std::vector<double>> heads;
    std::vector<float> weights(static_cast<size_t>(T * T));
    std::vector<std::string> looks;
    for (int64_t head = 0; head < H; ++head) {
      path_.trace.HeadWeights(layer_, head, weights);
      heads.emplace_back(weights.end() - T, weights.end());
      const auto strongest = std::ranges::max_element(heads.back());
      if (looks.size() == kHeadsNamed) continue;
      looks.push_back(fmt::format(
          "head {} at “{}” ({:.2f})", head,
          path_.tokens.labels[static_cast<size_t>(strongest - heads.back().begin())], *strongest));
    }
    StepValues values = StackedValues(
        Across(heads),
        {.rows = path_.tokens.labels, .columns = Numbered(H, "head "), .row_axis = "key"});
    values.digits = 3;
    AddStep("heads",
            fmt::format("weights = softmax(q kᵀ / √{}), the row of this token in each head",
                        path_.trace.config().head_size()),
            std::move(values),
            fmt::format("Where this token looks for what it needs: {}{}.", fmt::join(looks, ", "),
                        looks.size() < heads.size() ? ", …" : ""),
            FigureKind::kHeatmap);
  }

  void Attention() {
    AddStep("attention joins the stream", "stream + c_proj(contexts of all heads)",
            ChannelRows({Stream(), path_.Row(TracePoint::kAttention, layer_),
                         path_.Row(TracePoint::kMiddle, layer_)},
                        {"stream", "attention", "sum"}),
            "What the heads brought is added: nothing is overwritten, and later layers still find "
            "what was there before.",
            FigureKind::kNone);
  }

  void Units() {
    const GptConfig& config = path_.trace.config();
    const std::vector<double> up = Doubles(path_.Row(TracePoint::kUp, layer_));
    const std::vector<double> active = Doubles(path_.Row(TracePoint::kActivated, layer_));
    std::vector<size_t> order(up.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t shown = std::min(kUnitsShown, order.size());
    std::ranges::partial_sort(
        order, order.begin() + static_cast<ptrdiff_t>(shown), [&](size_t a, size_t b) {
          return std::pair(-std::abs(active[a]), a) < std::pair(-std::abs(active[b]), b);
        });
    order.resize(shown);
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    for (const size_t unit : order) {
      rows.push_back({up[unit], active[unit]});
      labels.push_back(fmt::format("unit {}", unit));
    }
    const auto on = std::ranges::count_if(up, [](double x) { return x > 0; });
    AddStep("units",
            fmt::format("{}(c_fc({})), the strongest", config.activation_function,
                        config.pre_norm() ? "ln_2" : "ln_1"),
            StackedValues(rows, {.rows = labels, .columns = {"c_fc", config.activation_function}}),
            fmt::format("Each unit of the feed-forward part looks for one pattern in the stream: "
                        "{} of {} are on for this token (their input is above 0).",
                        on, up.size()),
            FigureKind::kNone);
  }

  StepTensor FeedForward() {
    const Tensor before = path_.BeforeMlp(layer_), added = path_.Row(TracePoint::kMlp, layer_);
    StepTensor sum = Sum(path_.trace.backend(), before, added);
    AddStep("feed-forward joins the stream", "stream + c_proj(units)",
            ChannelRows({before, added, sum.tensor()}, {"stream", "feed-forward", "sum"}),
            "What the units know about such a token is added: this part looks at no other token.",
            FigureKind::kNone);
    return sum;
  }

  const TokenPath& path_;
  const int64_t layer_;
  const bool brief_;
  std::string section_;
};

}  // namespace

Tensor TokenPath::Row(TracePoint point, int64_t layer) const {
  return RowAt(trace.At(point, layer), t());
}

Tensor TokenPath::BeforeMlp(int64_t layer) const {
  return Row(trace.config().pre_norm() ? TracePoint::kMiddle : TracePoint::kNorm1, layer);
}

StepValues ChannelRows(std::initializer_list<Tensor> rows, std::vector<std::string> labels) {
  std::vector<std::vector<double>> numbers;
  for (const Tensor& row : rows) numbers.push_back(Doubles(row));
  return StackedValues(numbers, {.rows = std::move(labels), .column_axis = "channel"});
}

void AddLayerSteps(const TokenPath& path, int64_t layer, bool brief) {
  LayerSteps(path, layer, brief).Add();
}

}  // namespace folio
