#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/figures.h"
#include "folio/plot/bars.h"
#include "folio/plot/curves.h"
#include "folio/term/signals.h"
#include "folio/term/table.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

std::string PointName(TracePoint point) {
  return std::string(TracePointName(point));
}

bool OutsideBlocks(TracePoint point) {
  return point == TracePoint::kEmbedded || point == TracePoint::kFinal;
}

// Three digits that count.
std::string Short(double value) {
  const double size = std::abs(value);
  if (size >= 1e5 || (size > 0 && size < 5e-4)) return fmt::format("{:.0e}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  return size >= 10  ? fmt::format("{:.1f}", value)
         : size >= 1 ? fmt::format("{:.2f}", value)
                     : fmt::format("{:.3f}", value);
}

// One value of a point over the layers.
Series SeriesOf(const std::vector<ActivationStats>& stats, TracePoint point, const char* label,
                double ActivationStats::*value) {
  Series series;
  series.label = label;
  for (const ActivationStats& one : stats) {
    if (one.point != point) continue;
    series.x.push_back(static_cast<double>(one.layer));
    series.y.push_back(one.*value);
  }
  return series;
}

class InspectActivationsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect activations",
        .summary = "see how large a model's activations are, and which stand out",
        .group = "inspect",
        .details =
            "For each point of each block, over all positions of the text: root mean square,\n"
            "mean, deviation and largest value; the median length of the rows, and the longest\n"
            "with its position; kurtosis (3 for a normal distribution), how many values are\n"
            "more than 6 deviations from the mean, and the units of the feed-forward layer that\n"
            "are off at every position (dead on this text). Below it the farthest values.\n\n"
            "Points, in order: embedded (tokens and positions), ln_1, qkv, heads (before\n"
            "c_proj), attention (what joins the stream), middle (the stream after it), ln_2,\n"
            "up (before the activation), activated, mlp (what joins the stream), output (the\n"
            "stream after the block), final (after the last norm).\n\n"
            "--svg draws the lengths of the rows over the layers; with --layer the root mean\n"
            "squares of that layer's points.",
        .examples = {"folio inspect activations --model runs/demo --text \"the cat sat\"",
                     "folio inspect activations -m runs/demo --file a.txt --tail --layer 2",
                     "folio inspect activations -m runs/demo --file a.txt --svg norms.svg",
                     "folio inspect activations -m runs/demo --text abc --json"}};
  }

  void AddFlags(Flags& flags) override {
    model_.Add(flags);
    text_.Add(flags);
    flags.Value(Field{"layer", &layer_, "only this layer, from 0", 0, 1e6});
    flags.Value(Field{"svg", &svg_, "draw a figure"}, {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    const OpenedModel model = OpenModel(model_);
    const int64_t L = model.weights->config().n_layer;
    if (layer_ && *layer_ >= L) {
      throw UsageError(fmt::format("--layer {}: there is no such layer", *layer_),
                       fmt::format("the model has {} of them, 0 to {}", L, L - 1));
    }
    const ModelText text = ReadOneText(model, text_, "inspect activations");
    const Trace trace(*model.backend, *model.weights, text.ids, Trace::AllPoints());
    ThrowIfStopRequested();
    std::vector<ActivationStats> stats = ActivationStatistics(trace);
    if (layer_) {
      std::erase_if(stats, [&](const ActivationStats& one) {
        return one.layer != *layer_ || OutsideBlocks(one.point);
      });
    }
    const TokenNames names(model, context.console.out());
    // Before stdout: its reader may go away.
    if (!svg_.empty()) WriteFigure(context.console, svg_, layer_ ? Bars(stats) : Curves(stats));
    context.console.Result(context.console.json()
                               ? AsJson(stats, text, names)
                               : AsText(stats, text, names, context.console.out()));
    return 0;
  }

 private:
  static std::string AsText(const std::vector<ActivationStats>& stats, const ModelText& text,
                            const TokenNames& names, const Terminal& terminal) {
    std::vector<std::vector<std::string>> rows;
    for (const ActivationStats& one : stats) {
      const auto count = [&](int64_t n) {
        return n == 0 ? "0" : Styled(terminal, Style::kWarning, fmt::format("{}", n));
      };
      rows.push_back(
          {OutsideBlocks(one.point) ? "" : fmt::format("{}", one.layer), PointName(one.point),
           Short(one.rms), Short(one.mean), Short(one.std), Short(one.max), Short(one.norm_median),
           fmt::format("{}@{}", Short(one.norm_max), one.norm_max_position), Short(one.kurtosis),
           count(one.outlier_count), one.point == TracePoint::kActivated ? count(one.dead) : ""});
    }
    return RenderTable({">layer", "point", ">rms", ">mean", ">std", ">max", ">norm", ">longest",
                        ">kurt", ">>6sd", ">dead"},
                       rows) +
           Farthest(stats, text, names);
  }

  // The values that stand out most, in deviations.
  static std::string Farthest(const std::vector<ActivationStats>& stats, const ModelText& text,
                              const TokenNames& names) {
    constexpr size_t kMost = 8;
    struct Far {
      const ActivationStats* stats;
      const Outlier* outlier;
      double deviations;
    };
    std::vector<Far> all;
    for (const ActivationStats& one : stats) {
      for (const Outlier& outlier : one.outliers) {
        all.push_back({&one, &outlier, std::abs(outlier.value - one.mean) / one.std});
      }
    }
    if (all.empty()) return "";
    std::ranges::stable_sort(all, std::greater<>(), &Far::deviations);
    if (all.size() > kMost) all.resize(kMost);
    std::vector<std::vector<std::string>> rows;
    for (const Far& far : all) {
      const auto position = static_cast<size_t>(far.outlier->position);
      rows.push_back({OutsideBlocks(far.stats->point) ? "" : fmt::format("{}", far.stats->layer),
                      PointName(far.stats->point), fmt::format("{}", position),
                      names.Shown(text.ids[position]), fmt::format("{}", far.outlier->channel),
                      Short(far.outlier->value), fmt::format("{:.1f}", far.deviations)});
    }
    return "\nfarthest from the mean\n" + RenderTable({">layer", "point", ">position", "token",
                                                       ">channel", ">value", ">deviations"},
                                                      rows);
  }

  static std::string AsJson(const std::vector<ActivationStats>& stats, const ModelText& text,
                            const TokenNames& names) {
    Json json = {{"schema", 1},
                 {"left_out", text.left_out},
                 {"tokens", Json::parse(names.Json(text.ids))},
                 {"points", Json::array()}};
    for (const ActivationStats& one : stats) {
      Json outliers = Json::array();
      for (const Outlier& outlier : one.outliers) {
        outliers.push_back({{"position", outlier.position},
                            {"channel", outlier.channel},
                            {"value", outlier.value}});
      }
      Json entry = {{"layer", nullptr},
                    {"point", PointName(one.point)},
                    {"width", one.width},
                    {"rms", one.rms},
                    {"mean", one.mean},
                    {"std", one.std},
                    {"min", one.min},
                    {"max", one.max},
                    {"norm_median", one.norm_median},
                    {"norm_max", one.norm_max},
                    {"norm_max_position", one.norm_max_position},
                    {"kurtosis", one.kurtosis},
                    {"outlier_count", one.outlier_count},
                    {"outliers", std::move(outliers)}};
      if (!OutsideBlocks(one.point)) entry["layer"] = one.layer;
      if (one.point == TracePoint::kActivated) entry["dead"] = one.dead;
      json["points"].push_back(std::move(entry));
    }
    return json.dump() + "\n";
  }

  static std::string Curves(const std::vector<ActivationStats>& stats) {
    double ActivationStats::*const median = &ActivationStats::norm_median;
    std::vector<Series> series = {
        SeriesOf(stats, TracePoint::kOutput, "stream after the block", median),
        SeriesOf(stats, TracePoint::kAttention, "attention's part", median),
        SeriesOf(stats, TracePoint::kMlp, "feed-forward's part", median),
        SeriesOf(stats, TracePoint::kOutput, "stream, longest row", &ActivationStats::norm_max)};
    series.back().dashed = true;
    CurvesOptions options;
    options.title = "Lengths of the rows (median over positions)";
    options.x_label = "layer";
    options.y_label = "L2 norm";
    options.log_y = true;
    return CurvesSvg(series, options);
  }

  std::string Bars(const std::vector<ActivationStats>& stats) const {
    std::vector<Bar> bars;
    for (const ActivationStats& one : stats) {
      bars.push_back({.label = PointName(one.point), .value = one.rms, .note = Short(one.rms)});
    }
    BarsOptions options;
    options.title = fmt::format("Root mean square of the activations of layer {}", *layer_);
    return BarsSvg(bars, options);
  }

  ModelFlags model_;
  TextFlags text_;
  std::optional<int64_t> layer_;
  std::string svg_;
};

}  // namespace

std::unique_ptr<Command> NewInspectActivationsCommand() {
  return std::make_unique<InspectActivationsCommand>();
}

}  // namespace folio
