#include "folio/serve/page_embeddings.h"

#include <algorithm>
#include <cmath>

#include "folio/base/hash.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/trace.h"
#include "folio/model/transformer.h"
#include "folio/serve/api_error.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_files.h"
#include "folio/serve/page_model.h"
#include "folio/serve/page_query.h"
#include "folio/serve/request_fields.h"

namespace folio {
namespace {

std::string ProjectedTokens(Backend& backend, const Tensor& table) {
  constexpr size_t kAxes = 3;
  constexpr double kLargest = 32767;
  // Axes of nearly the same share, which may be any between them, are not told apart for long.
  constexpr double kExact = 1e-4;
  const PrincipalAxes axes = FindPrincipalAxes(backend, table, kAxes, kExact);
  std::vector<double> coordinates;
  double farthest = 0;
  for (int64_t id = 0; id < table.dim(0); ++id) {
    for (size_t axis = 0; axis < kAxes; ++axis) {
      const double at = axes.Coordinate(Row(table, id), axis);
      coordinates.push_back(std::isfinite(at) ? at : 0);
      farthest = std::max(farthest, std::abs(coordinates.back()));
    }
  }
  const double scale = farthest > 0 ? farthest / kLargest : 1;
  std::vector<int16_t> numbers;
  for (const double at : coordinates) {
    numbers.push_back(static_cast<int16_t>(std::lround(at / scale)));
  }
  std::vector<double> explained = axes.explained;
  explained.resize(kAxes);
  GvzFrame frame("i16", {table.dim(0), std::ssize(explained)});
  frame.header()["scale"] = scale;
  frame.header()["explained"] = explained;
  frame.Append(std::span<const int16_t>(numbers));
  return frame.bytes();
}

// `most` of [0, n), evenly; all if there are fewer.
std::vector<int64_t> Evenly(int64_t n, int64_t most) {
  std::vector<int64_t> chosen;
  const int64_t count = std::min(n, most);
  for (int64_t i = 0; i < count; ++i) chosen.push_back(i * n / count);
  return chosen;
}

// Numbers from -largest to largest as bytes.
GvzFrame ByteFrame(const std::vector<int64_t>& shape, std::span<const float> numbers,
                   double largest) {
  constexpr double kSteps = 255;
  const double scale = largest > 0 ? 2 * largest / kSteps : 1;
  std::vector<uint8_t> bytes;
  for (const float number : numbers) {
    const double step = (static_cast<double>(number) + largest) / scale;
    bytes.push_back(
        std::isnan(step) ? 0 : static_cast<uint8_t>(std::lround(std::clamp(step, 0.0, kSteps))));
  }
  GvzFrame frame("u8", shape);
  frame.header()["offset"] = -largest;
  frame.header()["scale"] = scale;
  frame.Append(std::span<const uint8_t>(bytes));
  return frame;
}

// Rows `which` of `table` (n,C), dense.
std::vector<float> Gathered(const Tensor& table, std::span<const int64_t> which) {
  std::vector<float> rows;
  for (const int64_t row : which) {
    const std::span<const float> numbers = Row(table, row);
    rows.insert(rows.end(), numbers.begin(), numbers.end());
  }
  return rows;
}

HttpReply Curves(const Tensor& table, const PageQuery& query) {
  constexpr size_t kMostCurves = 64;
  std::vector<int64_t> dims = query.Integers("dims", 0, table.dim(1) - 1, kMostCurves);
  if (dims.empty()) dims = {0};
  GvzFrame frame("f32", {std::ssize(dims), table.dim(0)});
  frame.header()["dims"] = dims;
  std::vector<float> numbers;
  for (const int64_t c : dims) {
    for (int64_t p = 0; p < table.dim(0); ++p) {
      numbers.push_back(Row(table, p)[static_cast<size_t>(c)]);
    }
  }
  frame.Append(std::span<const float>(numbers));
  return frame.reply();
}

}  // namespace

HttpReply PageEmbeddings::Projected(ServedModel& model, const HttpRequest& request) {
  RequireFloat32(model);
  const std::lock_guard lock(mutex_);
  std::string& frame = frames_[&model];
  if (frame.empty()) {
    // The backend is a second one, so that others may look into the model meanwhile.
    const std::unique_ptr<Backend> backend = MakeBackend(model.inspect_backend->name());
    frame = ProjectedTokens(*backend, model.model.weights->params().wte);
  }
  return Tagged({.type = "application/octet-stream", .body = frame}, HashHex(frame), request);
}

HttpReply AnswerNeighbours(const ServedModel& model, const HttpRequest& request) {
  RequireFloat32(model);
  const PageQuery query(request);
  const Tensor& table = model.model.weights->params().wte;
  const int64_t id = query.Required("id", 0, table.dim(0) - 1), k = query.Integer("k", 20, 1, 200);
  const std::span<const float> own = Row(table, id);
  double square = 0;
  for (const float number : own) square += static_cast<double>(number) * number;
  Json nearest = Json::array();
  for (const Neighbour& one : NearestRows(table, own, k, id)) {
    nearest.push_back(Json::array({one.row, ShortNumber(one.cosine)}));
  }
  return {
      .body =
          Json{{"id", id}, {"norm", ShortNumber(std::sqrt(square))}, {"nearest", nearest}}.dump()};
}

HttpReply AnswerPositions(const ServedModel& model, const HttpRequest& request) {
  constexpr int64_t kSize = 256, kMostSize = 512;
  RequireFloat32(model);
  const PageQuery query(request);
  const int64_t P = model.config().n_positions, C = model.config().n_embd;
  const int64_t size = query.Integer("size", kSize, 8, kMostSize);
  const std::string view = query.Text("view");
  std::vector<float> numbers = PositionTable(*model.model.weights);
  const Tensor table(numbers.data(), {P, C});
  if (view == "curves") return Curves(table, query);
  const std::vector<int64_t> positions = Evenly(P, size);
  const auto n = std::ssize(positions);
  std::vector<float> rows = Gathered(table, positions);
  const Tensor chosen(rows.data(), {n, C});
  if (view == "values") {
    const std::vector<int64_t> channels = Evenly(C, kMostSize);
    std::vector<float> values;
    double largest = 0;
    for (int64_t row = 0; row < n; ++row) {
      for (const int64_t c : channels) {
        values.push_back(Row(chosen, row)[static_cast<size_t>(c)]);
        largest = std::fmax(largest, std::abs(static_cast<double>(values.back())));
      }
    }
    GvzFrame frame = ByteFrame({n, std::ssize(channels)}, values, largest);
    frame.header()["positions"] = positions;
    frame.header()["channels"] = channels;
    return frame.reply();
  }
  if (!view.empty() && view != "sim") ThrowBadField("view", "sim, values or curves");
  GvzFrame frame = ByteFrame({n, n}, CosineSimilarity(chosen, n), 1);
  frame.header()["positions"] = positions;
  return frame.reply();
}

}  // namespace folio
