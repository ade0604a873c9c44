#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/math.h"
#include "folio/inspect/embeddings.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

void RequirePositions(int64_t positions) {
  if (positions >= 1) return;
  throw UsageError(fmt::format("{} positions", positions), "there is at least one",
                   "give a number from 1 on");
}

// Where there are more positions than these, every n-th is looked at.
constexpr int64_t kMaxShown = 128;

std::vector<int64_t> PositionsShown(int64_t positions) {
  const int64_t step = (positions + kMaxShown - 1) / kMaxShown;
  std::vector<int64_t> shown;
  for (int64_t p = 0; p < positions; p += step) shown.push_back(p);
  return shown;
}

std::vector<std::string> Labels(const std::vector<int64_t>& positions) {
  std::vector<std::string> labels;
  for (const int64_t p : positions) labels.push_back(std::to_string(p));
  return labels;
}

// Some of `count` indices, from the first to the last.
std::vector<int64_t> Spread(int64_t count) {
  std::vector<int64_t> picked = {0, count / 8, count / 4, count / 2};
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return picked;
}

// A column of x (positions, C) for each of `channels`.
Matrix Columns(const std::vector<double>& x, const std::vector<int64_t>& positions,
               const std::vector<int64_t>& channels) {
  const auto P = std::ssize(positions), C = std::ssize(x) / P;
  std::vector<std::vector<double>> rows(static_cast<size_t>(P));
  std::vector<std::string> names;
  for (const int64_t channel : channels) {
    names.push_back(fmt::format("channel {}", channel));
    for (int64_t p = 0; p < P; ++p) {
      rows[static_cast<size_t>(p)].push_back(x[static_cast<size_t>(p * C + channel)]);
    }
  }
  return StackedValues(rows, {.rows = Labels(positions), .columns = names, .row_axis = "position"});
}

// Steps that say how like positions are to each other. table is (positions, C).
void AddSimilarity(const Tensor& table, const std::vector<int64_t>& positions,
                   const std::string& why, Report& walk) {
  const int64_t P = table.dim(0);
  const std::vector<float> cosines = CosineSimilarity(table, P);
  const std::vector<std::string> labels = Labels(positions);
  walk.Add("similarity", "cos(p, q) = p · q / (|p| |q|)",
           MatrixValues(StepTensor({P, P}, cosines).tensor(),
                        {.rows = labels, .columns = labels, .row_axis = "p", .column_axis = "q"}),
           why);
  std::vector<std::vector<double>> rows;
  for (int64_t distance = 0; distance < P; ++distance) {
    std::vector<double> row = {1, -1};
    for (int64_t p = 0; p + distance < P; ++p) {
      const double cosine = cosines[static_cast<size_t>(p * P + p + distance)];
      row = {std::min(row[0], cosine), std::max(row[1], cosine)};
    }
    rows.push_back(std::move(row));
  }
  walk.Add("by distance", "smallest and largest cos(p, p + distance)",
           StackedValues(
               rows, {.rows = labels, .columns = {"smallest", "largest"}, .row_axis = "distance"}),
           "Where both are the same, how like two positions are depends on how far apart they are, "
           "and not on where they are: then “three words back” looks the same everywhere.",
           FigureKind::kCurves);
}

// Adds the positions to the same token at each of them.
void AddToToken(Backend& backend, const Tensor& table, const std::vector<int64_t>& positions,
                Report& walk) {
  const int64_t P = table.dim(0), C = table.dim(1);
  StepTensor token({1, C});
  for (int64_t c = 0; c < C; ++c) {
    token.data()[c] = static_cast<float>(c + 1) / static_cast<float>(C);
  }
  std::vector<int32_t> ids(static_cast<size_t>(P));
  const StepTensor out({P, C});
  backend.Run(EmbeddingForward{
      .ids = Tensor(ids.data(), {1, P}), .wte = token.tensor(), .wpe = table, .out = out.tensor()});
  walk.Add(
      "added to a token", "x(p) = wte[id] + out(p),  wte[id] = (1, 2, …, C) / C",
      MatrixValues(out.tensor(),
                   {.rows = Labels(positions), .row_axis = "position", .column_axis = "channel"}),
      "Attention by itself sees a bag of tokens: only because the position is added, the same "
      "token is another vector at each place.");
}

double MedianLength(Backend& backend, const Tensor& table) {
  std::vector<double> lengths;
  for (int64_t row = 0; row < table.dim(0); ++row) {
    lengths.push_back(Length(backend, RowAt(table, row)));
  }
  return Median(std::move(lengths));
}

// The channels whose numbers lie farthest apart, at most four.
std::vector<int64_t> Widest(const std::vector<double>& x, int64_t C) {
  std::vector<std::pair<double, int64_t>> spans;
  for (int64_t c = 0; c < C; ++c) {
    double low = x[static_cast<size_t>(c)], high = low;
    for (size_t i = static_cast<size_t>(c); i < x.size(); i += static_cast<size_t>(C)) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    spans.emplace_back(low - high, c);
  }
  std::ranges::sort(spans);
  std::vector<int64_t> channels;
  for (size_t i = 0; i < std::min<size_t>(4, spans.size()); ++i) {
    channels.push_back(spans[i].second);
  }
  return channels;
}

// Returns the vectors that a model adds at these positions: (positions, C).
StepTensor ModelTable(const GptWeights& weights, const std::vector<int64_t>& positions) {
  const int64_t C = weights.config().n_embd;
  const std::vector<float> all = PositionTable(weights);
  StepTensor table({std::ssize(positions), C});
  for (size_t i = 0; i < positions.size(); ++i) {
    std::copy_n(all.data() + positions[i] * C, C, table.data() + static_cast<int64_t>(i) * C);
  }
  return table;
}

void AddModelTable(Backend& backend, const GptWeights& weights, const Tensor& table,
                   const std::vector<int64_t>& positions, Report& walk) {
  const std::string name = weights.config().learned_positions() ? "wpe" : "sinusoids";
  const std::vector<std::string> labels = Labels(positions);
  const std::vector<double> numbers = Doubles(table);
  walk.Add(name, fmt::format("{}[p], positions 0 to {}", name, positions.back()),
           MatrixValues(table, {.rows = labels, .row_axis = "position", .column_axis = "channel"}),
           "One row for each position, as long as a token's vector.");
  walk.Add("a few channels", fmt::format("{}[p, c] of the channels that vary most", name),
           Columns(numbers, positions, Widest(numbers, table.dim(1))),
           "Smooth curves mean that neighbours are alike; where training has seen no order there "
           "is only noise.",
           FigureKind::kCurves);
  const double tokens = MedianLength(backend, weights.params().wte);
  std::vector<std::vector<double>> lengths;
  for (int64_t row = 0; row < table.dim(0); ++row) {
    lengths.push_back({Length(backend, RowAt(table, row)), tokens});
  }
  walk.Add(
      "lengths", "√Σ x²",
      StackedValues(lengths,
                    {.rows = labels, .columns = {name, "wte (median)"}, .row_axis = "position"}),
      "Position and token share the same channels: how long their vectors are says how loud each "
      "is in the sum.",
      FigureKind::kCurves);
}

}  // namespace

Report ExplainPositions(Backend& backend, int64_t positions, int64_t channels) {
  RequirePositions(positions);
  if (channels < 2 || channels % 2 != 0) {
    throw UsageError(fmt::format("{} channels", channels),
                     "sines and cosines come in pairs, so that their number is even",
                     "give an even number from 2 on");
  }
  const std::vector<int64_t> shown = PositionsShown(positions);
  const std::vector<std::string> labels = Labels(shown), pairs = Numbered(channels / 2, "pair ");
  const int64_t computed = std::max<int64_t>(positions, 2);
  std::vector<double> table(static_cast<size_t>(computed * channels)), rows;
  FillSinusoids(Tensor(table.data(), {computed, channels}));
  for (const int64_t p : shown) {
    rows.insert(rows.end(), table.begin() + p * channels, table.begin() + (p + 1) * channels);
  }
  // How far the hand of each pair turns with each position: its sine and cosine at position 1 are a
  // point on a circle.
  std::vector<double> steps, turns;
  std::vector<std::string> columns;
  for (int64_t pair = 0; pair < channels / 2; ++pair) {
    const double* point = table.data() + channels + 2 * pair;
    steps.push_back(std::atan2(point[0], point[1]));
    turns.push_back(2 * std::numbers::pi / steps.back());
    columns.push_back(fmt::format("sin {}", pair));
    columns.push_back(fmt::format("cos {}", pair));
  }
  std::vector<std::vector<double>> angles;
  for (const int64_t p : shown) {
    std::vector<double>& row = angles.emplace_back();
    for (const double step : steps) row.push_back(static_cast<double>(p) * step);
  }
  std::vector<int64_t> few = Spread(channels / 2);
  for (int64_t& channel : few) channel *= 2;
  const StepTensor floats({std::ssize(shown), channels},
                          std::vector<float>(rows.begin(), rows.end()));

  Report walk{.topic = "positions",
              .title = fmt::format("Positions: sinusoids for {} channels", channels),
              .intro =
                  "Attention compares tokens whatever their order. To know the order, a model adds "
                  "to each token's vector one that stands for its position. The first transformer "
                  "took sines and cosines of many wavelengths for it."};
  walk.AddNumbers(
      "frequencies", "ω(i) = 1 / 10000^(2i/C),  2π / ω(i)",
      Plain(StackedValues({steps, turns},
                          {.rows = {"angle per step", "steps per turn"}, .columns = pairs})),
      "Each pair of channels is the hand of a clock; the first turns by one radian with every "
      "position and each next one more slowly, as seconds, minutes and hours do.");
  walk.AddNumbers("angles", "angle(p, i) = p ω(i)",
                  StackedValues(angles, {.rows = labels, .columns = pairs, .row_axis = "position"}),
                  "Where the hand of each clock points at each position.");
  walk.Add("sinusoids", "out(p, 2i) = sin angle(p, i),  out(p, 2i+1) = cos angle(p, i)",
           MakeMatrix({std::ssize(shown), channels}, rows,
                      {.rows = labels, .columns = columns, .row_axis = "position"}),
           "Sine and cosine say where the hand points without a jump where it has come round, and "
           "are never larger than 1.");
  walk.Add("a few channels", "out(p, 2i) for some i", Columns(rows, shown, few),
           "The first channels tell neighbours apart, the last ones beginning from end.",
           FigureKind::kCurves);
  AddSimilarity(floats.tensor(), shown,
                "Neighbours are like each other, and the band along the diagonal is the same "
                "everywhere: the product of two positions adds up cos(ω distance) of all clocks.",
                walk);
  AddToToken(backend, floats.tensor(), shown, walk);
  return walk;
}

Report ExplainPositions(Backend& backend, const LessonModel& model, int64_t positions) {
  RequirePositions(positions);
  const bool learned = model.weights->config().learned_positions();
  const std::vector<int64_t> shown =
      PositionsShown(std::min(positions, model.weights->config().n_positions));
  const StepTensor table = ModelTable(*model.weights, shown);
  Report walk{
      .topic = "positions",
      .title = learned ? "Positions: what the model has learnt" : "Positions: fixed sinusoids",
      .intro = learned ? "This model has a vector for each position, wpe, that was learnt like any "
                         "other weight. Nobody told it that 3 comes after 2."
                       : "This model adds fixed sines and cosines to its tokens."};
  AddModelTable(backend, *model.weights, table.tensor(), shown, walk);
  AddSimilarity(
      table.tensor(), shown,
      learned ? "A bright band along the diagonal means that neighbouring positions are alike, "
                "which no part of the model asks for: it is useful, and so it is learnt."
              : "Neighbours are like each other, everywhere in the same way.",
      walk);
  return walk;
}

}  // namespace folio
