#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/base/strings.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/lens.h"
#include "folio/serve/api_error.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_model.h"
#include "folio/serve/page_query.h"
#include "folio/serve/page_trace.h"

namespace folio {
namespace {

constexpr size_t kMostPositions = 64;       // of a lens
constexpr int64_t kMostNumbers = 64 << 10;  // of a tensor that is sent as it is
constexpr int64_t kMostTensorCells = 256;   // each way of one that is not

// Copies what a pass shows of one layer, and of the whole model.
class LayerKeeper final : public TraceSink {
 public:
  explicit LayerKeeper(int64_t layer) : layer_(layer), points_(kTracePoints.size()) {}

  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    if (layer != layer_) return;
    const auto* const numbers = x.data<float>();
    points_[static_cast<size_t>(point)].assign(numbers, numbers + x.count());
  }
  std::vector<std::vector<float>> Points() && { return std::move(points_); }

 private:
  int64_t layer_;
  std::vector<std::vector<float>> points_;
};

struct LayerTensor {
  TracePoint point = TracePoint::kEmbedded;
  int64_t layer = 0;
};

// "embedded", "final" or "3.qkv".
LayerTensor TensorNamed(const std::string& name, int64_t L) {
  LayerTensor named;
  const size_t dot = name.find('.');
  const std::string point = dot == std::string::npos ? name : name.substr(dot + 1);
  if (dot != std::string::npos) named.layer = IntegerIn(name.substr(0, dot), "layer", 0, L - 1);
  for (const TracePoint one : Trace::AllPoints()) {
    const bool outside = InfoOf(one).once;
    if (InfoOf(one).name != point || outside != (dot == std::string::npos)) continue;
    named.point = one;
    return named;
  }
  throw ApiError(404, fmt::format("a trace has no tensor '{}'", name.substr(0, 100)));
}

// Where its model's pass shows it; remembers the layer.
Tensor TensorOf(PageTrace& trace, const LayerTensor& named) {
  const Trace& of = *trace.trace;
  if (of.Has(named.point)) return of.At(named.point, named.layer);
  if (trace.points_layer != named.layer) {
    trace.points_layer = -1;
    LayerKeeper keeper(named.layer);
    GptPass pass(of.backend(), of.config(), 1, of.T(), PassKind::kForward);
    pass.set_trace(&keeper);
    pass.Forward(of.weights().params(), of.ids());
    trace.points = std::move(keeper).Points();
    trace.points_layer = named.layer;
  }
  std::vector<float>& numbers = trace.points[static_cast<size_t>(named.point)];
  return Tensor(numbers.data(), {of.T(), std::ssize(numbers) / of.T()});
}

struct Slice {
  int64_t q0 = 0, q1 = 0, c0 = 0, c1 = 0;
  int64_t rows() const { return q1 - q0; }
  int64_t columns() const { return c1 - c0; }
};

// "q0:q1,c0:c1"; all of it if that is empty.
Slice ReadSlice(const std::string& text, int64_t rows, int64_t columns) {
  Slice slice{0, rows, 0, columns};
  if (text.empty()) return slice;
  const std::vector<std::string> sides = Split(text, ',');
  const auto read = [&](const std::string& side, int64_t most, int64_t& begin, int64_t& end) {
    const size_t colon = side.find(':');
    if (colon == std::string::npos) ThrowBadField("slice", "rows and columns, 0:8,0:64");
    begin = IntegerIn(side.substr(0, colon), "slice", 0, most - 1);
    end = IntegerIn(side.substr(colon + 1), "slice", begin + 1, most);
  };
  if (sides.size() != 2) ThrowBadField("slice", "rows and columns, 0:8,0:64");
  read(sides[0], rows, slice.q0, slice.q1);
  read(sides[1], columns, slice.c0, slice.c1);
  return slice;
}

// The value that is farthest from 0 of each cell.
std::vector<float> CellExtremes(const Tensor& x, const Slice& slice, int64_t rows,
                                int64_t columns) {
  std::vector<float> cells;
  for (int64_t i = 0; i < rows; ++i) {
    const auto [r0, r1] = CellRange(i, rows, slice.rows());
    for (int64_t j = 0; j < columns; ++j) {
      const auto [c0, c1] = CellRange(j, columns, slice.columns());
      float farthest = 0;
      for (int64_t r = slice.q0 + r0; r < slice.q0 + r1; ++r) {
        const std::span<const float> row = Row(x, r);
        for (int64_t c = slice.c0 + c0; c < slice.c0 + c1; ++c) {
          const float value = row[static_cast<size_t>(c)];
          if (!(std::abs(value) <= std::abs(farthest))) farthest = value;
        }
      }
      cells.push_back(farthest);
    }
  }
  return cells;
}

Json HistogramOf(const Tensor& x, double from, double to, int64_t bins) {
  std::vector<int64_t> counts(static_cast<size_t>(bins));
  const std::span<const float> numbers(x.data<float>(), static_cast<size_t>(x.count()));
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

HttpReply AnswerTensor(PageTrace& trace, const std::string& name, const HttpRequest& request) {
  const PageQuery query(request);
  const int64_t bins = query.Integer("bins", 32, 1, 256);
  const Tensor x = TensorOf(trace, TensorNamed(name, trace.trace->config().n_layer));
  const Slice slice = ReadSlice(query.Text("slice"), x.dim(0), x.dim(1));
  const bool whole = slice.rows() * slice.columns() <= kMostNumbers;
  const int64_t rows = whole ? slice.rows() : std::min(slice.rows(), kMostTensorCells);
  const int64_t columns = whole ? slice.columns() : std::min(slice.columns(), kMostTensorCells);
  const ActivationStats stats = StatisticsOf(x);
  GvzFrame frame("f32", {rows, columns});
  Json& header = frame.header();
  header["name"] = name;
  header["of"] = Json::array({x.dim(0), x.dim(1)});
  header["slice"] = Json::array({slice.q0, slice.q1, slice.c0, slice.c1});
  header["pool"] = whole ? Json() : Json("extreme");
  header["stats"] = {{"mean", ShortNumber(stats.mean)},
                     {"std", ShortNumber(stats.std)},
                     {"min", ShortNumber(stats.min)},
                     {"max", ShortNumber(stats.max)},
                     {"rms", ShortNumber(stats.rms)},
                     {"kurtosis", ShortNumber(stats.kurtosis)},
                     {"norm_median", ShortNumber(stats.norm_median)},
                     {"norm_max", ShortNumber(stats.norm_max)},
                     {"norm_max_position", stats.norm_max_position},
                     {"histogram", HistogramOf(x, stats.min, stats.max, bins)}};
  frame.Append(std::span<const float>(CellExtremes(x, slice, rows, columns)));
  return frame.reply();
}

HttpReply AnswerLogits(PageTrace& trace, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  const int64_t V = of.config().vocab_size;
  const int64_t position = PageQuery(request).Integer("pos", of.T() - 1, 0, of.T() - 1);
  std::vector<float> logits(static_cast<size_t>(V));
  of.Logits(of.Stream(of.config().n_layer), position, position + 1, Tensor(logits.data(), {1, V}));
  GvzFrame frame("f32", {V});
  frame.header()["pos"] = position;
  frame.Append(std::span<const float>(logits));
  return frame.reply();
}

HttpReply AnswerLens(PageTrace& trace, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  const PageQuery query(request);
  const int64_t L = of.config().n_layer, top = query.Integer("top", 5, 1, kMostPageTop);
  std::vector<int64_t> positions = query.Integers("pos", 0, of.T() - 1, kMostPositions);
  if (positions.empty()) positions = {of.T() - 1};
  Json final = Json::object(), rows = Json::array();
  for (const LensCell& cell : LogitLens(of, positions, top)) {
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
