#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "folio/inspect/attention.h"
#include "folio/serve/api_error.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_query.h"
#include "folio/serve/page_trace.h"

namespace folio {
namespace {

constexpr int64_t kThumb = 48, kSmallestThumb = 8, kLargestThumb = 128;
constexpr int64_t kMostCells = 512;  // of a tile, each way

size_t Square(int64_t T) {
  return static_cast<size_t>(T * T);
}

// A part of a head's map, and how many cells it becomes.
struct Tile {
  int64_t q0 = 0, q1 = 0, k0 = 0, k1 = 0, rows = 0, columns = 0;
  bool mean = false;  // else the largest of a cell
};

// Appends the cells of a part of weights (T,T).
void AppendTile(std::span<const float> weights, int64_t T, const Tile& tile,
                std::vector<uint8_t>& out) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    const auto [q_begin, q_end] = CellRange(row, tile.rows, tile.q1 - tile.q0);
    for (int64_t column = 0; column < tile.columns; ++column) {
      const auto [k_begin, k_end] = CellRange(column, tile.columns, tile.k1 - tile.k0);
      float largest = 0;
      double sum = 0;
      for (int64_t q = tile.q0 + q_begin; q < tile.q0 + q_end; ++q) {
        const float* keys = weights.data() + q * T + tile.k0;
        for (int64_t k = k_begin; k < k_end; ++k) {
          largest = std::max(largest, keys[k]);
          sum += static_cast<double>(keys[k]);
        }
      }
      const auto cell = static_cast<double>((q_end - q_begin) * (k_end - k_begin));
      out.push_back(SqrtByte(tile.mean ? static_cast<float>(sum / cell) : largest));
    }
  }
}

void CheckWanted(const HttpRequest& request) {
  if (request.gone()) throw ApiError(499, "the client is gone");
}

// Remembers scores and maps of all heads.
void LookAtAll(PageTrace& trace, int64_t size, const HttpRequest& request) {
  if (trace.thumb_size == size) return;
  const Trace& of = *trace.trace;
  const int64_t T = of.T(), L = of.config().n_layer, H = of.config().n_head;
  std::vector<HeadScores> scores;
  std::vector<uint8_t> thumbs;
  std::vector<float> weights(Square(T));
  const Tile tile{.q1 = T, .k1 = T, .rows = size, .columns = size};
  for (int64_t layer = 0; layer < L; ++layer) {
    for (int64_t head = 0; head < H; ++head) {
      CheckWanted(request);
      of.HeadWeights(layer, head, weights);
      scores.push_back(ScoreHead(weights, of.ids()));
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
void ForHeads(PageTrace& trace, int64_t layer, const HttpRequest& request, const Visit& visit) {
  const Trace& of = *trace.trace;
  const int64_t T = of.T(), H = of.config().n_head;
  const bool remembers = RemembersWeights(of.config(), T);
  const bool known = remembers && trace.weights_layer == layer;
  if (!known) {
    trace.weights_layer = -1;
    trace.weights.resize(Square(T) * (remembers ? static_cast<size_t>(H) : 1));
  }
  for (int64_t head = 0; head < H; ++head) {
    const auto at = remembers ? static_cast<size_t>(head) * Square(T) : 0;
    const std::span<float> weights = std::span(trace.weights).subspan(at, Square(T));
    if (!known) {
      CheckWanted(request);
      of.HeadWeights(layer, head, weights);
    }
    visit(weights);
  }
  if (remembers) trace.weights_layer = layer;
}

}  // namespace

HttpReply AnswerThumbs(PageTrace& trace, const HttpRequest& request) {
  const GptConfig& config = trace.trace->config();
  const int64_t asked = PageQuery(request).Integer("size", kThumb, kSmallestThumb, kLargestThumb);
  const int64_t size = std::min(asked, trace.trace->T());
  LookAtAll(trace, size, request);
  GvzFrame frame("u8", {config.n_layer, config.n_head, size, size}, "full", "sqrt");
  frame.header()["pool"] = "max";
  frame.Append(std::span<const uint8_t>(trace.thumbs));
  return frame.reply();
}

HttpReply AnswerHeadScores(PageTrace& trace, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  if (trace.scores.empty()) LookAtAll(trace, std::min(kThumb, of.T()), request);
  std::vector<float> numbers;
  for (const HeadScores& one : trace.scores) {
    for (const double score : {one.entropy, one.distance, one.first, one.previous, one.self,
                               one.duplicate, one.induction}) {
      numbers.push_back(static_cast<float>(score));
    }
  }
  const std::vector<std::string> columns = ScoreNames();
  GvzFrame frame("f32", {of.config().n_layer, of.config().n_head, std::ssize(columns)});
  frame.header()["columns"] = columns;
  frame.Append(std::span<const float>(numbers));
  return frame.reply();
}

HttpReply AnswerHeadMap(PageTrace& trace, int64_t layer, int64_t head, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  const int64_t T = of.T();
  const PageQuery query(request);
  constexpr int64_t kCells = 256;
  Tile tile{.q0 = query.Integer("q0", 0, 0, T - 1), .k0 = query.Integer("k0", 0, 0, T - 1)};
  tile.q1 = query.Integer("q1", T, tile.q0 + 1, T);
  tile.k1 = query.Integer("k1", T, tile.k0 + 1, T);
  tile.rows = std::min(query.Integer("h", kCells, 1, kMostCells), tile.q1 - tile.q0);
  tile.columns = std::min(query.Integer("w", kCells, 1, kMostCells), tile.k1 - tile.k0);
  const std::string pool = query.Text("pool");
  if (!pool.empty() && pool != "max" && pool != "mean") ThrowBadField("pool", "max or mean");
  tile.mean = pool == "mean";
  bool whole = true;
  for (const char* key : {"q0", "q1", "k0", "k1", "w", "h", "pool"}) {
    whole = whole && query.Text(key).empty();
  }

  std::vector<float> weights(Square(T));
  of.HeadWeights(layer, head, weights);
  std::vector<uint8_t> bytes;
  const bool half = whole && of.config().causal;
  GvzFrame frame("u8",
                 whole ? std::vector<int64_t>{T, T} : std::vector<int64_t>{tile.rows, tile.columns},
                 half ? "tril" : "full", "sqrt");
  frame.header()["layer"] = layer;
  frame.header()["head"] = head;
  frame.header()["pool"] = whole ? Json() : Json(tile.mean ? "mean" : "max");
  if (whole) {
    for (int64_t q = 0; q < T; ++q) {
      const int64_t keys = half ? q + 1 : T;
      for (int64_t k = 0; k < keys; ++k) {
        bytes.push_back(SqrtByte(weights[static_cast<size_t>(q * T + k)]));
      }
    }
  } else {
    frame.header()["q0"] = tile.q0;
    frame.header()["q1"] = tile.q1;
    frame.header()["k0"] = tile.k0;
    frame.header()["k1"] = tile.k1;
    AppendTile(weights, T, tile, bytes);
  }
  frame.Append(std::span<const uint8_t>(bytes));
  return frame.reply();
}

HttpReply AnswerRow(PageTrace& trace, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  const int64_t T = of.T(), L = of.config().n_layer, H = of.config().n_head;
  const PageQuery query(request);
  const std::optional<int64_t> q = query.IntegerIfAny("q", 0, T - 1),
                               key = query.IntegerIfAny("key", 0, T - 1),
                               one = query.IntegerIfAny("l", 0, L - 1);
  if (q.has_value() == key.has_value()) ThrowBadField("q", "given, or 'key' instead");
  std::vector<float> numbers;
  const auto add = [&](std::span<const float> weights) {
    for (int64_t t = 0; t < T; ++t) {
      numbers.push_back(weights[static_cast<size_t>(q ? *q * T + t : t * T + *key)]);
    }
  };
  for (int64_t layer = one.value_or(0); layer <= one.value_or(L - 1); ++layer) {
    ForHeads(trace, layer, request, add);
  }
  GvzFrame frame("f32", one ? std::vector<int64_t>{H, T} : std::vector<int64_t>{L, H, T});
  if (one) frame.header()["layer"] = *one;
  frame.header()[q ? "query" : "key"] = q ? *q : *key;
  frame.Append(std::span<const float>(numbers));
  return frame.reply();
}

HttpReply AnswerSteps(PageTrace& trace, const HttpRequest& request) {
  const Trace& of = *trace.trace;
  const PageQuery query(request);
  const int64_t T = of.T(), D = of.config().head_size();
  const int64_t layer = query.Required("l", 0, of.config().n_layer - 1),
                head = query.Required("h", 0, of.config().n_head - 1),
                q = query.Required("q", 0, T - 1);
  const HeadTrace seen = of.Head(layer, head);
  const auto row = [&](const std::vector<float>& x, int64_t width) {
    return std::span(x).subspan(static_cast<size_t>(q * width), static_cast<size_t>(width));
  };
  std::vector<float> products, masked;
  const std::span<const float> own = row(seen.q, D), scaled = row(seen.scores, T);
  for (int64_t k = 0; k < T; ++k) {
    double product = 0;
    for (int64_t d = 0; d < D; ++d) {
      product += static_cast<double>(own[static_cast<size_t>(d)]) *
                 static_cast<double>(seen.k[static_cast<size_t>(k * D + d)]);
    }
    products.push_back(static_cast<float>(product));
    const bool hidden = of.config().causal && k > q;
    masked.push_back(hidden ? -std::numeric_limits<float>::infinity()
                            : scaled[static_cast<size_t>(k)]);
  }

  struct Part {
    const char* name;
    std::vector<int64_t> shape;
    std::span<const float> numbers;
  };
  int64_t at = 0;
  Json parts = Json::array();
  std::vector<float> numbers;
  for (const Part& part : std::initializer_list<Part>{{"q", {D}, own},
                                                      {"k", {T, D}, seen.k},
                                                      {"v", {T, D}, seen.v},
                                                      {"scores", {T}, products},
                                                      {"scaled", {T}, scaled},
                                                      {"masked", {T}, masked},
                                                      {"softmax", {T}, row(seen.weights, T)},
                                                      {"out", {D}, row(seen.context, D)}}) {
    parts.push_back({{"name", part.name}, {"at", at}, {"shape", Json(part.shape)}});
    numbers.insert(numbers.end(), part.numbers.begin(), part.numbers.end());
    at = std::ssize(numbers);
  }
  GvzFrame frame("f32", {at});
  frame.header()["parts"] = parts;
  frame.header()["scale"] = of.config().attention_scale(layer);
  frame.header()["layer"] = layer;
  frame.header()["head"] = head;
  frame.header()["query"] = q;
  frame.Append(std::span<const float>(numbers));
  return frame.reply();
}

}  // namespace folio
