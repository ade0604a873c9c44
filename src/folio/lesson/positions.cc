#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/math.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/layers/rotary.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

void RequirePositions(int64_t positions) {
  if (positions >= 1) return;
  throw UsageError(fmt::format("{} positions", positions), "there is at least one",
                   "give a number of at least 1");
}

// Above this many positions every n-th is shown.
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
  std::vector<int64_t> picked = {0};
  for (const int64_t part : {8, 4, 2}) {
    if (count / part > picked.back()) picked.push_back(count / part);
  }
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

// Steps that show the similarity of positions. table is (positions, C).
void AddSimilarity(const Tensor& table, const std::vector<int64_t>& positions,
                   const std::string& why, Report& walk) {
  const int64_t P = table.dim(0);
  const std::vector<float> cosines = CosineSimilarity(table, P);
  const std::vector<std::string> labels = Labels(positions);
  walk.Add("similarity", "cos(p, q) = p · q / (|p| |q|)",
           MatrixValues(StepTensor({P, P}, cosines),
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
  backend.Run(
      EmbeddingForward{.ids = Tensor(ids.data(), {1, P}), .wte = token, .wpe = table, .out = out});
  walk.Add("added to a token", "x(p) = wte[id] + out(p),  wte[id] = (1, 2, …, C) / C",
           MatrixValues(
               out, {.rows = Labels(positions), .row_axis = "position", .column_axis = "channel"}),
           "Attention by itself sees a bag of tokens: only because the position is added, the same "
           "token is another vector at each place.");
}

// The length of each row.
std::vector<double> Lengths(Backend& backend, const Tensor& x) {
  std::vector<double> lengths;
  for (int64_t row = 0; row < x.dim(0); ++row) {
    lengths.push_back(Length(backend, RowAt(x, row)));
  }
  return lengths;
}

// The channels with the widest range of values, at most four.
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
  const double tokens = Median(Lengths(backend, weights.params().wte));
  std::vector<std::vector<double>> lengths;
  for (const double length : Lengths(backend, table)) lengths.push_back({length, tokens});
  walk.Add(
      "lengths", "√Σ x²",
      StackedValues(lengths,
                    {.rows = labels, .columns = {name, "wte (median)"}, .row_axis = "position"}),
      "Position and token share the same channels: how long their vectors are says how loud each "
      "is in the sum.",
      FigureKind::kCurves);
}

void RequirePairs(int64_t channels) {
  if (channels >= 2 && channels % 2 == 0) return;
  throw UsageError(fmt::format("{} channels", channels),
                   "sines and cosines come in pairs, so that their number is even",
                   "give an even number of at least 2");
}

// The angle of each pair per position, and the positions per turn.
Matrix Frequencies(const std::vector<double>& steps) {
  std::vector<double> turns;
  for (const double step : steps) turns.push_back(2 * std::numbers::pi / step);
  return Plain(StackedValues({steps, turns}, {.rows = {"angle per step", "steps per turn"},
                                              .columns = Numbered(std::ssize(steps), "pair ")}));
}

// Adds the step with the angle of each pair at each of `positions`.
void AddAngles(const std::vector<double>& steps, const std::vector<int64_t>& positions,
               Report& walk) {
  std::vector<std::vector<double>> angles;
  for (const int64_t p : positions) {
    std::vector<double>& row = angles.emplace_back();
    for (const double step : steps) row.push_back(static_cast<double>(p) * step);
  }
  walk.AddNumbers("angles", "angle(p, i) = p ω(i)",
                  StackedValues(angles, {.rows = Labels(positions),
                                         .columns = Numbered(std::ssize(steps), "pair "),
                                         .row_axis = "position"}),
                  "Where the hand of each clock points at each position.");
}

// Vectors of one head (N,D) rotated to their positions, or back.
StepTensor Turned(Backend& backend, const Tensor& x, const RotaryFrequencies& frequencies,
                  const std::vector<int64_t>& positions, bool back = false) {
  const int64_t N = x.dim(0), D = x.dim(1);
  std::vector<int32_t> places(positions.begin(), positions.end());
  const auto factor = static_cast<double>(frequencies.attention_factor);
  const StepTensor table({N, 2 * std::ssize(frequencies.inverse)});
  backend.Run(RotaryAngles{.inv_freq = frequencies.inverse,
                           .positions = Tensor(places.data(), {N}),
                           .out = table,
                           .attention_factor = back ? 1 / factor : factor});
  StepTensor out(x.shape(), std::span(x.host<float>(), static_cast<size_t>(x.count())));
  backend.Run(Rotary{.x = View(out, 1, N, {0, D}), .table = table, .D = D, .inverse = back});
  return out;
}

// The products of one vector (1,D) with the rows of k (N,D).
std::vector<double> Products(Backend& backend, const Tensor& q, const Tensor& k) {
  const StepTensor out({1, k.dim(0)});
  backend.Run(LinearForward{.x = q, .weight = k, .out = out, .transposed = true});
  return Doubles(out);
}

constexpr char kRotaryIntro[] =
    "Models since Llama add nothing to a token's vector for its place. They turn its queries and "
    "keys: two numbers of a head are taken as a hand, which turns by an angle for every position. "
    "What a query and a key have in common then depends on how far apart they are, and on nothing "
    "else of where they are.";

// The frequencies of a layer of a model. Throws a kUsage Error if the layer has no rotary
// positions.
RotaryFrequencies FrequenciesOf(const GptConfig& config, int64_t layer) {
  if (!config.rotary()) {
    throw UsageError(fmt::format("the model's positions are not rotary but {}",
                                 NameOf(config.position_embedding)),
                     {}, "folio explain positions --model DIR shows them");
  }
  const LayerLayout kind = config.layer(layer);
  if (!kind.rotary) {
    throw UsageError(fmt::format("layer {} has no rotary positions", layer),
                     fmt::format("every layer whose number from 1 divides by {} is without",
                                 config.no_rope_every),
                     "give another with --layer");
  }
  return RotaryFrequenciesOf(config, *kind.rotary);
}

// "θ = 10000, scaled as llama3 by 8"
std::string FrequencyFormula(const GptConfig& config, int64_t layer) {
  const bool window = *config.layer(layer).rotary == 1;
  std::string formula = fmt::format("ω(i) = 1 / θ^(2i/{}), θ = {}", config.rotary_width(),
                                    window ? config.rope_window_theta : config.rope_theta);
  if (!window && config.rope_scaling != RopeScaling::kDefault) {
    formula +=
        fmt::format(", then scaled ({}, by {})", NameOf(config.rope_scaling), config.rope_factor);
  }
  return formula + ";  2π / ω(i)";
}

}  // namespace

Report ExplainPositions(Backend& backend, int64_t positions, int64_t channels) {
  RequirePositions(positions);
  RequirePairs(channels);
  const std::vector<int64_t> shown = PositionsShown(positions);
  const std::vector<std::string> labels = Labels(shown);
  const int64_t computed = std::max<int64_t>(positions, 2);
  std::vector<double> table(static_cast<size_t>(computed * channels)), rows;
  FillSinusoids(Tensor(table.data(), {computed, channels}));
  for (const int64_t p : shown) {
    rows.insert(rows.end(), table.begin() + p * channels, table.begin() + (p + 1) * channels);
  }
  // The rotation of each pair per position: its sine and cosine at position 1 are a point on the
  // unit circle.
  std::vector<double> steps;
  std::vector<std::string> columns;
  for (int64_t pair = 0; pair < channels / 2; ++pair) {
    const double* point = table.data() + channels + 2 * pair;
    steps.push_back(std::atan2(point[0], point[1]));
    columns.push_back(fmt::format("sin {}", pair));
    columns.push_back(fmt::format("cos {}", pair));
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
      "frequencies", "ω(i) = 1 / 10000^(2i/C),  2π / ω(i)", Frequencies(steps),
      "Each pair of channels is the hand of a clock; the first turns by one radian with every "
      "position and each next one more slowly, as seconds, minutes and hours do.");
  AddAngles(steps, shown, walk);
  walk.Add("sinusoids", "out(p, 2i) = sin angle(p, i),  out(p, 2i+1) = cos angle(p, i)",
           MakeMatrix({std::ssize(shown), channels}, rows,
                      {.rows = labels, .columns = columns, .row_axis = "position"}),
           "Sine and cosine say where the hand points without a jump where it has come round, and "
           "are never larger than 1.");
  walk.Add("a few channels", "out(p, 2i) for some i", Columns(rows, shown, few),
           "The first channels tell neighbours apart, the last ones beginning from end.",
           FigureKind::kCurves);
  AddSimilarity(floats, shown,
                "Neighbours are like each other, and the band along the diagonal is the same "
                "everywhere: the product of two positions adds up cos(ω distance) of all clocks.",
                walk);
  AddToToken(backend, floats, shown, walk);
  return walk;
}

Report ExplainPositions(Backend& backend, const LessonModel& model, int64_t positions) {
  RequirePositions(positions);
  const GptConfig& config = model.weights->config();
  const bool learned = config.learned_positions();
  if (!AddsPositions(config)) {
    throw UsageError("the model adds no positions to its tokens",
                     fmt::format("they are {}", config.rotary() ? "rotary" : "nowhere in it"),
                     config.rotary() ? "folio explain rotary --model DIR shows them" : "");
  }
  const std::vector<int64_t> shown = PositionsShown(std::min(positions, config.n_positions));
  const StepTensor table = ModelTable(*model.weights, shown);
  Report walk{
      .topic = "positions",
      .title = learned ? "Positions: what the model has learnt" : "Positions: fixed sinusoids",
      .intro = learned ? "This model has a vector for each position, wpe, that was learnt like any "
                         "other weight. Nobody told it that 3 comes after 2."
                       : "This model adds fixed sines and cosines to its tokens."};
  AddModelTable(backend, *model.weights, table, shown, walk);
  AddSimilarity(
      table, shown,
      learned ? "A bright band along the diagonal means that neighbouring positions are alike, "
                "which no part of the model asks for: it is useful, and so it is learnt."
              : "Neighbours are like each other, everywhere in the same way.",
      walk);
  return walk;
}

Report ExplainRotary(Backend& backend, int64_t positions, int64_t channels) {
  RequirePositions(positions);
  RequirePairs(channels);
  const std::vector<int64_t> shown = PositionsShown(positions);
  const int64_t P = std::ssize(shown), pairs = channels / 2;
  const RotaryFrequencies frequencies = RotaryFrequenciesOf(
      {.n_embd = channels, .n_head = 1, .position_embedding = PositionKind::kRotary}, 0);
  const std::vector<double> steps(frequencies.inverse.begin(), frequencies.inverse.end());
  StepTensor token({P, channels});
  for (int64_t p = 0; p < P; ++p) std::fill_n(token.data() + p * channels, pairs, 1.0F);
  const StepTensor turned = Turned(backend, token, frequencies, shown);
  Report walk{.topic = "rotary",
              .title = fmt::format("Rotary positions: a head of {} channels", channels),
              .intro = kRotaryIntro};
  walk.AddNumbers(
      "frequencies", "ω(i) = 1 / 10000^(2i/D),  2π / ω(i)", Frequencies(steps),
      "Numbers i and i + D/2 of a head are a pair, the hand of a clock; the first turns by one "
      "radian with every position and each next one more slowly.");
  AddAngles(steps, shown, walk);
  walk.AddNumbers("query", "q = (1, …, 1, 0, …, 0)", ChannelValues(RowAt(token, 0)),
                  "For an example a query all of whose hands point to the right and have length 1; "
                  "its key is the same.");
  walk.Add("turned", "q(p)_i = q_i cos − q_{i+D/2} sin,  q(p)_{i+D/2} = q_{i+D/2} cos + q_i sin",
           MatrixValues(turned, {.rows = Labels(shown),
                                 .columns = Numbered(channels),
                                 .row_axis = "position",
                                 .column_axis = "channel"}),
           "The same query at each position: here the first half is the cosines of the angles and "
           "the second half the sines, for that is where the hands point now.");
  walk.Add("a few channels", "q(p)_i for some i", Columns(Doubles(turned), shown, Spread(pairs)),
           "The first hands tell neighbours apart, the last ones hardly move: they carry what does "
           "not depend on places.",
           FigureKind::kCurves);
  const auto [shortest, longest] = std::ranges::minmax(Lengths(backend, turned));
  walk.AddNumbers("lengths", "√Σ q(p)², the smallest and the largest",
                  Plain(RowValues({shortest, longest}, {.columns = {"smallest", "largest"}})),
                  "Turning makes nothing longer or shorter, so that no position is louder than "
                  "another.");
  AddSimilarity(turned, shown,
                "How well the query at p meets the same key at q: the band along the diagonal is "
                "the same everywhere, for turning both by the same angle changes nothing.",
                walk);
  return walk;
}

Report ExplainRotary(Backend& backend, const LessonModel& model, const RotaryTopic& topic) {
  const GptConfig& config = model.weights->config();
  const int64_t layer = topic.layer;
  RequirePositions(topic.positions);
  RequireLayer(config, layer);
  RequireHead(config, topic.head);
  const RotaryFrequencies frequencies = FrequenciesOf(config, layer);
  const std::vector<double> steps(frequencies.inverse.begin(), frequencies.inverse.end());
  const ModelTokens tokens = TokensOf(model, topic.text);
  const Trace trace(backend, *model.weights, tokens.ids, {TracePoint::kQkv});
  const HeadTrace head = trace.Head(layer, topic.head);
  const int64_t T = head.T, D = head.D, last = tokens.last();
  std::vector<int64_t> places(static_cast<size_t>(T));
  std::iota(places.begin(), places.end(), int64_t{0});
  const StepTensor turned_q({T, D}, head.q), turned_k({T, D}, head.k);
  const StepTensor q = Turned(backend, turned_q, frequencies, places, true);
  const StepTensor k = Turned(backend, turned_k, frequencies, places, true);
  const auto by_token = [&](const Tensor& x) {
    return MatrixValues(x,
                        {.rows = tokens.labels, .columns = Numbered(D), .column_axis = "channel"});
  };
  Report walk{.topic = "rotary",
              .title = fmt::format("Rotary positions: layer {}, head {}", layer, topic.head),
              .intro = kRotaryIntro};
  walk.AddNumbers("tokens", "ids", IdValues(tokens), "The text as the model sees it.");
  walk.AddNumbers(
      "frequencies", FrequencyFormula(config, layer), Frequencies(steps),
      fmt::format("Numbers i and i + {} of each head are a pair. The last pair needs "
                  "{:.0f} positions to come round; the model sees {}.",
                  std::ssize(steps), 2 * std::numbers::pi / steps.back(), config.n_positions));
  walk.Add("queries", "q", by_token(q),
           "What each token looks for, before its place has anything to do with it.");
  walk.Add("turned queries", "q(p): each pair turned by p ω(i)", by_token(turned_q),
           config.rotary_width() < D
               ? fmt::format("Each token's query turned to its place; the numbers from {} on are "
                             "not turned, so that part of the head sees no order.",
                             config.rotary_width())
               : "Each token's query turned to its place: the first stays as it is, and the slow "
                 "pairs hardly move.");
  walk.AddNumbers("lengths", "√Σ q²,  √Σ q(p)²",
                  StackedValues({Lengths(backend, q), Lengths(backend, turned_q)},
                                {.rows = {"before", "turned"}, .columns = tokens.labels}),
                  frequencies.attention_factor == 1
                      ? "Turning makes nothing longer or shorter."
                      : fmt::format("Turning itself makes nothing longer; this model's scaling "
                                    "multiplies with {:.4g} too.",
                                    frequencies.attention_factor));
  const std::vector<double> scores = Products(backend, RowAt(turned_q, last), turned_k);
  walk.Add("scores of the last token", "q kᵀ,  q(p) k(s)ᵀ",
           StackedValues({Products(backend, RowAt(q, last), k), scores},
                         {.rows = {"not turned", "turned"}, .columns = tokens.labels}),
           fmt::format("How well the query of “{}” meets each key, without places and with them.",
                       tokens.labels.back()));
  // One key of the text at many distances from the query.
  const auto strongest = std::ranges::max_element(scores) - scores.begin();
  const std::vector<int64_t> distances = PositionsShown(topic.positions);
  const std::vector<int64_t> from = {distances.back()};
  StepTensor keys({std::ssize(distances), D});
  std::vector<int64_t> at;
  for (size_t i = 0; i < distances.size(); ++i) {
    std::ranges::copy(Row(k, strongest), keys.data() + static_cast<int64_t>(i) * D);
    at.push_back(from.front() - distances[i]);
  }
  const StepTensor query = Turned(backend, RowAt(q, last), frequencies, from);
  std::vector<std::vector<double>> far;
  for (const double score : Products(backend, query, Turned(backend, keys, frequencies, at))) {
    far.push_back({score});
  }
  const std::string& key = tokens.labels[static_cast<size_t>(strongest)];
  walk.Add("by distance", fmt::format("q(p) k(p − distance)ᵀ for the key of “{}”", key),
           StackedValues(far, {.rows = Labels(distances),
                               .columns = {fmt::format("score of “{}”", key)},
                               .row_axis = "distance"}),
           fmt::format("What the key that “{}” likes best would score if it stood so many places "
                       "back: the fast pairs make the waves, the slow ones the slope.",
                       tokens.labels.back()),
           FigureKind::kCurves);
  return walk;
}

}  // namespace folio
