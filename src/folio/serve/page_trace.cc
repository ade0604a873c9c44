#include "folio/serve/page_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "folio/base/clock.h"
#include "folio/base/strings.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/lens.h"
#include "folio/model/config.h"
#include "folio/serve/page_files.h"
#include "folio/serve/page_model.h"

namespace folio {
namespace {

ApiError NoTrace(const std::string& id) {
  return {404, fmt::format("trace '{}' does not exist any more", id.substr(0, 40)), "", "no_trace"};
}

// Returns true where the weights of a layer are few enough to be remembered.
bool RemembersWeights(const GptConfig& config, int64_t T) {
  constexpr int64_t kMost = int64_t{16} << 20;
  return config.n_head * T * T <= kMost;
}

// Returns the bytes that a PageTrace of T tokens takes, with all that it may remember and what a
// look at it needs.
uint64_t TraceBytes(const GptConfig& config, int64_t T) {
  const int64_t C = config.n_embd, L = config.n_layer, F = config.inner();
  const int64_t qkv = config.head_layout().qkv_width(), heads = config.head_layout().q_width();
  const int64_t kept = 2 * C + (qkv + C) * L;  // embedded, final; qkv, output
  const int64_t layer = 7 * C + qkv + heads + config.up_width() + F;  // all points of one
  const int64_t maps = T * T * (2 + (RemembersWeights(config, T) ? config.n_head : 0));
  return sizeof(float) * static_cast<uint64_t>(T * (kept + layer) + maps);
}

// Throws an ApiError if the client no longer waits for the answer.
void RequireClient(const Call& call) {
  if (call.request.gone()) throw ApiError(499, "the client disconnected");
}

}  // namespace

HttpReply PageTraces::Make(const Call& call) {
  ServedModel& model = call.model();
  const GptConfig& config = model.config();
  const std::vector<int32_t> ids = ReadPageTokens(call.fields, model, config.n_positions);
  const auto T = std::ssize(ids);
  auto made = std::make_shared<PageTrace>();
  made->id = NewAnswerId("t");
  made->id.erase(1, 1);
  made->model = call.served;
  made->bytes = TraceBytes(config, T);
  if (made->bytes > limits_.bytes) {
    throw ApiError(400,
                   fmt::format("a trace of {} tokens needs {} bytes, the limit for all is {}", T,
                               made->bytes, limits_.bytes),
                   "ids");
  }
  const FloatCopy::Weights weights = model.floats->Get();
  made->floats = weights;
  {
    const std::lock_guard lock(model.inspect_mutex);
    made->trace = std::make_unique<Trace>(*model.inspect_backend, *weights, ids,
                                          std::vector{TracePoint::kEmbedded, TracePoint::kQkv,
                                                      TracePoint::kOutput, TracePoint::kFinal});
  }
  Keep(made);
  const ModelSummary summary = model.summary();
  return {.body = Json{{"trace", made->id},
                       {"T", T},
                       {"L", summary.layers},
                       {"H", summary.heads},
                       {"d_head", summary.head_size},
                       {"bytes", made->bytes},
                       {"expires_s", limits_.seconds},
                       {"ids", ids},
                       {"causal", summary.causal}}
                      .dump()};
}

HttpReply PageTraces::Read(const Call& call,
                           HttpReply (*answer)(PageTrace& trace, const Call& call)) {
  const std::shared_ptr<PageTrace> found = Find(call.names[0]);
  const std::shared_ptr<ServedModel> model = found->model.lock();
  const FloatCopy::Weights weights = found->floats.lock();
  if (model == nullptr || weights == nullptr) throw NoTrace(found->id);
  model->floats->Touch();
  const std::lock_guard lock(model->inspect_mutex);
  RequireClient(call);
  return answer(*found, call);
}

std::shared_ptr<PageTrace> PageTraces::Find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  DropOld();
  const auto found = std::ranges::find_if(traces_, [&](const auto& one) { return one->id == id; });
  if (found == traces_.end()) throw NoTrace(id);
  (*found)->used = SteadySeconds();
  traces_.splice(traces_.begin(), traces_, found);
  return traces_.front();
}

void PageTraces::Keep(std::shared_ptr<PageTrace> trace) {
  const std::lock_guard lock(mutex_);
  DropOld();
  uint64_t bytes = trace->bytes;
  trace->used = SteadySeconds();
  traces_.push_front(std::move(trace));
  for (auto one = std::next(traces_.begin()); one != traces_.end(); ++one) {
    bytes += (*one)->bytes;
    if (std::distance(traces_.begin(), one) < limits_.traces && bytes <= limits_.bytes) continue;
    traces_.erase(one, traces_.end());
    return;
  }
}

void PageTraces::DropOld() {
  const double oldest = SteadySeconds() - limits_.seconds;
  std::erase_if(traces_, [&](const auto& one) { return one->used < oldest; });
}

namespace {

constexpr int64_t kThumb = 48, kSmallestThumb = 8, kLargestThumb = 128;
constexpr int64_t kMostCells = 512;  // of a tile, each way

size_t Square(int64_t T) {
  return static_cast<size_t>(T * T);
}

// A part of a table: rows [r0, r1) and columns [c0, c1).
struct Part {
  int64_t r0 = 0, r1 = 0, c0 = 0, c1 = 0;

  int64_t rows() const { return r1 - r0; }
  int64_t columns() const { return c1 - c0; }
};

// Calls visit(cell) for each of (rows,columns) equal cells of a part, row by row.
template <class Visit>
void ForCells(const Part& part, int64_t rows, int64_t columns, const Visit& visit) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto [r0, r1] = CellRange(row, rows, part.rows());
    for (int64_t column = 0; column < columns; ++column) {
      const auto [c0, c1] = CellRange(column, columns, part.columns());
      visit(Part{part.r0 + r0, part.r0 + r1, part.c0 + c0, part.c0 + c1});
    }
  }
}

// A part of a head's map, and how many cells it becomes.
struct Tile {
  Part part;
  int64_t rows = 0, columns = 0;
  bool mean = false;  // else the largest of a cell
};

// Appends the cells of a part of weights (T,T).
void AppendTile(std::span<const float> weights, int64_t T, const Tile& tile,
                std::vector<uint8_t>& out) {
  ForCells(tile.part, tile.rows, tile.columns, [&](const Part& cell) {
    float largest = 0;
    double sum = 0;
    for (int64_t q = cell.r0; q < cell.r1; ++q) {
      const float* keys = weights.data() + q * T;
      for (int64_t k = cell.c0; k < cell.c1; ++k) {
        largest = std::max(largest, keys[k]);
        sum += static_cast<double>(keys[k]);
      }
    }
    const auto count = static_cast<double>(cell.rows() * cell.columns());
    out.push_back(SqrtByte(tile.mean ? static_cast<float>(sum / count) : largest));
  });
}

// Remembers scores and maps of all heads.
void LookAtAll(PageTrace& trace, int64_t size, const Call& call) {
  if (trace.thumb_size == size) return;
  const Trace& text = *trace.trace;
  const int64_t T = text.T(), L = text.config().n_layer, H = text.config().n_head;
  std::vector<HeadScores> scores;
  std::vector<uint8_t> thumbs;
  std::vector<float> weights(Square(T));
  const Tile tile{.part = {0, T, 0, T}, .rows = size, .columns = size};
  for (int64_t layer = 0; layer < L; ++layer) {
    for (int64_t head = 0; head < H; ++head) {
      RequireClient(call);
      text.HeadWeights(layer, head, weights);
      scores.push_back(ScoreHead(weights, text.ids()));
      AppendTile(weights, T, tile, thumbs);
    }
  }
  trace.scores = std::move(scores);
  trace.thumbs = std::move(thumbs);
  trace.thumb_size = size;
}

// Calls visit(head, weights) for the heads of a layer, whose weights (T,T) are remembered if they
// are not too many.
template <class Visit>
void ForHeads(PageTrace& trace, int64_t layer, const Call& call, const Visit& visit) {
  const Trace& text = *trace.trace;
  const int64_t T = text.T(), H = text.config().n_head;
  const bool remembers = RemembersWeights(text.config(), T);
  const bool known = remembers && trace.weights_layer == layer;
  if (!known) {
    trace.weights_layer = -1;
    trace.weights.resize(Square(T) * (remembers ? static_cast<size_t>(H) : 1));
  }
  for (int64_t head = 0; head < H; ++head) {
    const auto at = remembers ? static_cast<size_t>(head) * Square(T) : 0;
    const std::span<float> weights = std::span(trace.weights).subspan(at, Square(T));
    if (!known) {
      RequireClient(call);
      text.HeadWeights(layer, head, weights);
    }
    visit(weights);
  }
  if (remembers) trace.weights_layer = layer;
}

}  // namespace

HttpReply AnswerThumbs(PageTrace& trace, const Call& call) {
  const GptConfig& config = trace.trace->config();
  const int64_t asked = call.fields.Integer("size", kThumb, kSmallestThumb, kLargestThumb);
  const int64_t size = std::min(asked, trace.trace->T());
  LookAtAll(trace, size, call);
  return PageNumbers(Json{{"code", "sqrt"}, {"pool", "max"}})
      .Add({config.n_layer, config.n_head, size, size}, trace.thumbs)
      .reply();
}

HttpReply AnswerHeadScores(PageTrace& trace, const Call& call) {
  const Trace& text = *trace.trace;
  if (trace.scores.empty()) LookAtAll(trace, std::min(kThumb, text.T()), call);
  std::vector<float> numbers;
  for (const HeadScores& one : trace.scores) {
    for (const double score : {one.entropy, one.distance, one.first, one.previous, one.self,
                               one.duplicate, one.induction}) {
      numbers.push_back(static_cast<float>(score));
    }
  }
  const std::vector<std::string> columns = ScoreNames();
  return PageNumbers(Json{{"columns", columns}})
      .Add({text.config().n_layer, text.config().n_head, std::ssize(columns)}, numbers)
      .reply();
}

HttpReply AnswerHeadMap(PageTrace& trace, const Call& call) {
  constexpr int64_t kCells = 256;
  const Trace& text = *trace.trace;
  const int64_t T = text.T(),
                layer = IntegerIn(call.names[1], "layer", 0, text.config().n_layer - 1),
                head = IntegerIn(call.names[2], "head", 0, text.config().n_head - 1);
  const RequestFields& fields = call.fields;
  Tile tile;
  Part& asked = tile.part;
  asked.r0 = fields.Integer("q0", 0, 0, T - 1);
  asked.c0 = fields.Integer("k0", 0, 0, T - 1);
  asked.r1 = fields.Integer("q1", T, asked.r0 + 1, T);
  asked.c1 = fields.Integer("k1", T, asked.c0 + 1, T);
  tile.rows = std::min(fields.Integer("h", kCells, 1, kMostCells), asked.rows());
  tile.columns = std::min(fields.Integer("w", kCells, 1, kMostCells), asked.columns());
  const std::string pool = fields.Text("pool", "max");
  if (pool != "max" && pool != "mean") ThrowBadField("pool", "max or mean");
  tile.mean = pool == "mean";
  const bool part =
      std::ranges::any_of(std::array{"q0", "q1", "k0", "k1", "w", "h", "pool"},
                          [&](const char* key) { return fields.Find(key) != nullptr; });

  std::vector<float> weights(Square(T));
  text.HeadWeights(layer, head, weights);
  std::vector<uint8_t> bytes;
  PageNumbers numbers(Json{{"layer", layer}, {"head", head}, {"code", "sqrt"}});
  if (part) {
    numbers.about().update(
        {{"pool", pool}, {"q0", asked.r0}, {"q1", asked.r1}, {"k0", asked.c0}, {"k1", asked.c1}});
    AppendTile(weights, T, tile, bytes);
    return numbers.Add({tile.rows, tile.columns}, bytes).reply();
  }
  const bool half = text.config().causal;
  for (int64_t q = 0; q < T; ++q) {
    const int64_t keys = half ? q + 1 : T;
    for (int64_t k = 0; k < keys; ++k) {
      bytes.push_back(SqrtByte(weights[static_cast<size_t>(q * T + k)]));
    }
  }
  numbers.about().update({{"pool", nullptr}, {"T", T}, {"layout", half ? "tril" : "full"}});
  const std::vector<int64_t> square{T, T}, triangle{std::ssize(bytes)};
  return numbers.Add(half ? triangle : square, bytes).reply();
}

HttpReply AnswerRow(PageTrace& trace, const Call& call) {
  const Trace& text = *trace.trace;
  const int64_t T = text.T(), L = text.config().n_layer, H = text.config().n_head;
  const std::optional<int64_t> q = call.fields.IntegerIfAny("q", 0, T - 1),
                               key = call.fields.IntegerIfAny("key", 0, T - 1),
                               one = call.fields.IntegerIfAny("l", 0, L - 1);
  if (q.has_value() == key.has_value()) ThrowBadField("q", "given, unless 'key' is");
  std::vector<float> numbers;
  const auto add = [&](std::span<const float> weights) {
    for (int64_t t = 0; t < T; ++t) {
      numbers.push_back(weights[static_cast<size_t>(q ? *q * T + t : t * T + *key)]);
    }
  };
  for (int64_t layer = one.value_or(0); layer <= one.value_or(L - 1); ++layer) {
    ForHeads(trace, layer, call, add);
  }
  PageNumbers file(Json{{q ? "query" : "key", q ? *q : *key}});
  if (one) file.about()["layer"] = *one;
  return file.Add(one ? std::vector{H, T} : std::vector{L, H, T}, numbers).reply();
}

HttpReply AnswerSteps(PageTrace& trace, const Call& call) {
  const Trace& text = *trace.trace;
  const int64_t T = text.T(), D = text.config().head_size();
  const int64_t layer = call.fields.Required("l", 0, text.config().n_layer - 1),
                head = call.fields.Required("h", 0, text.config().n_head - 1),
                q = call.fields.Required("q", 0, T - 1);
  const HeadTrace seen = text.Head(layer, head);
  const auto row = [&](const std::vector<float>& x, int64_t width) {
    return std::span(x).subspan(static_cast<size_t>(q * width), static_cast<size_t>(width));
  };
  const GptConfig& config = text.config();
  const int64_t window = config.layer(layer).window;
  std::vector<float> products, capped, masked;
  const std::span<const float> own = row(seen.q, D), scaled = row(seen.scores, T);
  for (int64_t k = 0; k < T; ++k) {
    double product = 0;
    for (int64_t d = 0; d < D; ++d) {
      product += static_cast<double>(own[static_cast<size_t>(d)]) *
                 static_cast<double>(seen.k[static_cast<size_t>(k * D + d)]);
    }
    products.push_back(static_cast<float>(product));
    const double score = static_cast<double>(scaled[static_cast<size_t>(k)]);
    const double cap = config.attention_cap;
    capped.push_back(static_cast<float>(cap > 0 ? cap * std::tanh(score / cap) : score));
    const bool hidden = config.causal && (k > q || (window > 0 && k <= q - window));
    masked.push_back(hidden ? -std::numeric_limits<float>::infinity() : capped.back());
  }

  return PageNumbers(Json{{"scale", config.layer(layer).score_scale},
                          {"cap", config.attention_cap},
                          {"window", window},
                          {"turned", config.layer(layer).rotary.has_value()},
                          {"layer", layer},
                          {"head", head},
                          {"query", q}})
      .Add({D}, own, "q")
      .Add({T, D}, std::span<const float>(seen.k), "k")
      .Add({T, D}, std::span<const float>(seen.v), "v")
      .Add({T}, std::span<const float>(products), "scores")
      .Add({T}, std::span<const float>(capped), "scaled")
      .Add({T}, std::span<const float>(masked), "masked")
      .Add({T}, row(seen.weights, T), "softmax")
      .Add({D}, row(seen.context, D), "out")
      .reply();
}

namespace {

constexpr size_t kMostPositions = 64;       // of a lens
constexpr int64_t kMostNumbers = 64 << 10;  // of a tensor that is sent as it is
constexpr int64_t kMostTensorCells = 256;   // each way of one that is not

// Copies what a pass shows of one layer, by TracePoint.
class LayerKeeper final : public TraceSink {
 public:
  LayerKeeper(int64_t layer, std::vector<std::vector<float>>& points)
      : layer_(layer), points_(points) {
    points_.resize(kTracePoints.size());
  }

  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    if (layer != layer_) return;
    const auto* const numbers = x.host<float>();
    points_[static_cast<size_t>(point)].assign(numbers, numbers + x.count());
  }

 private:
  int64_t layer_;
  std::vector<std::vector<float>>& points_;
};

// Returns the point and the layer of "embedded", "final" or "3.qkv".
std::pair<TracePoint, int64_t> TensorNamed(const std::string& name, int64_t L) {
  const size_t dot = name.find('.');
  const bool outside = dot == std::string::npos;
  const std::string point = outside ? name : name.substr(dot + 1);
  const int64_t layer = outside ? 0 : IntegerIn(name.substr(0, dot), "layer", 0, L - 1);
  for (const TracePoint one : Trace::AllPoints()) {
    if (InfoOf(one).name == point && InfoOf(one).once == outside) return {one, layer};
  }
  throw ApiError(404, fmt::format("there is no tensor '{}' in a trace", name.substr(0, 100)));
}

// Returns the tensor of a point of the model's pass, and remembers the other points of its layer.
Tensor TensorOf(PageTrace& trace, TracePoint point, int64_t layer) {
  const Trace& text = *trace.trace;
  if (text.Has(point)) return text.At(point, layer);
  if (trace.points_layer != layer) {
    trace.points_layer = -1;
    LayerKeeper keeper(layer, trace.points);
    GptPass pass(text.backend(), text.config(), 1, text.T(), PassKind::kForward);
    pass.set_trace(&keeper);
    pass.Forward(text.weights().params(), text.ids());
    trace.points_layer = layer;
  }
  std::vector<float>& numbers = trace.points[static_cast<size_t>(point)];
  return Tensor(numbers.data(), {text.T(), std::ssize(numbers) / text.T()});
}

// "q0:q1,c0:c1"; all of it if that is empty.
Part ReadSlice(const std::string& text, int64_t rows, int64_t columns) {
  Part slice{0, rows, 0, columns};
  if (text.empty()) return slice;
  const std::vector<std::string> sides = Split(text, ',');
  const auto read = [&](const std::string& side, int64_t most, int64_t& begin, int64_t& end) {
    const size_t colon = side.find(':');
    if (colon == std::string::npos) ThrowBadField("slice", "rows and columns, 0:8,0:64");
    begin = IntegerIn(side.substr(0, colon), "slice", 0, most - 1);
    end = IntegerIn(side.substr(colon + 1), "slice", begin + 1, most);
  };
  if (sides.size() != 2) ThrowBadField("slice", "rows and columns, 0:8,0:64");
  read(sides[0], rows, slice.r0, slice.r1);
  read(sides[1], columns, slice.c0, slice.c1);
  return slice;
}

// The value that is farthest from 0 of each cell.
std::vector<float> CellExtremes(const Tensor& x, const Part& slice, int64_t rows, int64_t columns) {
  std::vector<float> cells;
  ForCells(slice, rows, columns, [&](const Part& cell) {
    float farthest = 0;
    for (int64_t r = cell.r0; r < cell.r1; ++r) {
      for (int64_t c = cell.c0; c < cell.c1; ++c) {
        const float value = Row(x, r)[static_cast<size_t>(c)];
        if (!(std::abs(value) <= std::abs(farthest))) farthest = value;
      }
    }
    cells.push_back(farthest);
  });
  return cells;
}

Json HistogramOf(const Tensor& x, double from, double to, int64_t bins) {
  std::vector<int64_t> counts(static_cast<size_t>(bins));
  const std::span<const float> numbers(x.host<float>(), static_cast<size_t>(x.count()));
  const double scale = to > from ? static_cast<double>(bins) / (to - from) : 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double bin = std::clamp((static_cast<double>(number) - from) * scale, 0.0,
                                  static_cast<double>(bins - 1));
    ++counts[static_cast<size_t>(bin)];
  }
  return {{"from", ShortNumber(from)}, {"to", ShortNumber(to)}, {"counts", counts}};
}

}  // namespace

HttpReply AnswerTensor(PageTrace& trace, const Call& call) {
  const std::string& name = call.names[1];
  const int64_t bins = call.fields.Integer("bins", 32, 1, 256);
  const auto [point, layer] = TensorNamed(name, trace.trace->config().n_layer);
  const Tensor x = TensorOf(trace, point, layer);
  const Part slice = ReadSlice(call.fields.Text("slice"), x.dim(0), x.dim(1));
  const bool whole = slice.rows() * slice.columns() <= kMostNumbers;
  const int64_t rows = whole ? slice.rows() : std::min(slice.rows(), kMostTensorCells);
  const int64_t columns = whole ? slice.columns() : std::min(slice.columns(), kMostTensorCells);
  const ActivationStats stats = StatisticsOf(x);
  return PageNumbers(
             Json{{"name", name},
                  {"of", Json::array({x.dim(0), x.dim(1)})},
                  {"slice", Json::array({slice.r0, slice.r1, slice.c0, slice.c1})},
                  {"pool", whole ? Json() : Json("extreme")},
                  {"stats", Json{{"mean", ShortNumber(stats.mean)},
                                 {"std", ShortNumber(stats.std)},
                                 {"min", ShortNumber(stats.min)},
                                 {"max", ShortNumber(stats.max)},
                                 {"rms", ShortNumber(stats.rms)},
                                 {"kurtosis", ShortNumber(stats.kurtosis)},
                                 {"norm_median", ShortNumber(stats.norm_median)},
                                 {"norm_max", ShortNumber(stats.norm_max)},
                                 {"norm_max_position", stats.norm_max_position},
                                 {"histogram", HistogramOf(x, stats.min, stats.max, bins)}}}})
      .Add({rows, columns}, CellExtremes(x, slice, rows, columns))
      .reply();
}

HttpReply AnswerLogits(PageTrace& trace, const Call& call) {
  const Trace& text = *trace.trace;
  const int64_t V = text.config().vocab_size;
  const int64_t position = call.fields.Integer("pos", text.T() - 1, 0, text.T() - 1);
  std::vector<float> logits(static_cast<size_t>(V));
  text.Logits(text.Stream(text.config().n_layer), position, position + 1,
              Tensor(logits.data(), {1, V}));
  return PageNumbers(Json{{"pos", position}}).Add({V}, logits).reply();
}

HttpReply AnswerLens(PageTrace& trace, const Call& call) {
  const Trace& text = *trace.trace;
  const int64_t L = text.config().n_layer, top = call.fields.Integer("top", 5, 1, kMostPageTop);
  std::vector<int64_t> positions = call.fields.Integers("pos", 0, text.T() - 1, kMostPositions);
  if (positions.empty()) positions = {text.T() - 1};
  Json final = Json::object(), rows = Json::array();
  for (const LensCell& cell : LogitLens(text, positions, top)) {
    Json likeliest = Json::array();
    for (const TokenProbability& one : cell.top) {
      likeliest.push_back(Json::array({one.id, ShortNumber(one.probability)}));
    }
    if (cell.layer == L) final[fmt::format("{}", cell.position)] = *likeliest.begin();
    rows.push_back({{"layer", cell.layer == 0 ? Json("embed") : Json(cell.layer - 1)},
                    {"pos", cell.position},
                    {"top", likeliest},
                    {"kl", ShortNumber(cell.kl)},
                    {"H", ShortNumber(cell.entropy)},
                    {"rank_final", cell.final_rank + 1}});
  }
  return {.body = Json{{"trace", trace.id}, {"final", final}, {"rows", rows}}.dump()};
}

}  // namespace folio
