#include "folio/inspect/embeddings.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/base/parallel.h"
#include "folio/inspect/eigen.h"
#include "folio/model/positions.h"

namespace folio {
namespace {

constexpr int64_t kGrain = 256;         // rows of one task
constexpr int64_t kProductRows = 4096;  // rows whose products are added up in float32

std::span<const float> Row(const Tensor& table, int64_t row) {
  return {table.data<float>() + row * table.dim(1), static_cast<size_t>(table.dim(1))};
}

double Dot(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double Cosine(double product, double squares_a, double squares_b) {
  const double lengths = std::sqrt(squares_a) * std::sqrt(squares_b);
  return lengths > 0 && std::isfinite(lengths) ? product / lengths : 0;
}

bool Nearer(const Neighbour& a, const Neighbour& b) {
  return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
}

std::vector<float> ColumnMeans(const Tensor& table) {
  const int64_t V = table.dim(0), C = table.dim(1);
  std::vector<float> means(static_cast<size_t>(C));
  ParallelRange(C, 64, [&](int64_t begin, int64_t end, int) {
    double sums[64] = {};
    for (int64_t v = 0; v < V; ++v) {
      const float* row = table.data<float>() + v * C;
      for (int64_t c = begin; c < end; ++c) sums[c - begin] += row[c];
    }
    for (int64_t c = begin; c < end; ++c) {
      means[static_cast<size_t>(c)] = static_cast<float>(sums[c - begin] / static_cast<double>(V));
    }
  });
  return means;
}

// Columns of rows [begin, end) of the table, as rows, with `means` off: out (C, end - begin).
void Transpose(const Tensor& table, std::span<const float> means, int64_t begin, int64_t end,
               float* out) {
  constexpr int64_t kTile = 32;
  const int64_t C = table.dim(1), n = end - begin;
  ParallelRange(C, kTile, [&](int64_t first, int64_t last, int) {
    for (int64_t at = 0; at < n; at += kTile) {
      for (int64_t i = at; i < std::min(n, at + kTile); ++i) {
        const float* row = table.data<float>() + (begin + i) * C;
        for (int64_t c = first; c < last; ++c) out[c * n + i] = row[c] - means[size_t(c)];
      }
    }
  });
}

// The rows' scatter about `means`: the sum of (row - means)^T (row - means), (C,C).
std::vector<double> ScatterMatrix(Backend& backend, const Tensor& table,
                                  std::span<const float> means) {
  const int64_t V = table.dim(0), C = table.dim(1), rows = std::min(V, kProductRows);
  MemoryPlan plan;
  const MemoryPlan::Id columns_id = plan.Add("columns", Dtype::kF32, {C, rows});
  const MemoryPlan::Id products_id = plan.Add("products", Dtype::kF32, {C, C});
  plan.Place();
  const Arena arena(plan);
  float* columns = arena.Get(plan, columns_id).data<float>();
  const Tensor products = arena.Get(plan, products_id);
  std::vector<double> sum(static_cast<size_t>(C * C));
  for (int64_t begin = 0; begin < V; begin += rows) {
    const int64_t end = std::min(V, begin + rows);
    Transpose(table, means, begin, end, columns);
    const Tensor x(columns, {C, end - begin});
    backend.Run(LinearForward{.x = x, .weight = x, .out = products, .transposed = true});
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += products.data<float>()[i];
  }
  return sum;
}

// With the largest entry positive.
std::vector<double> Signed(std::vector<double> x) {
  double largest = 0;
  for (const double value : x) {
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  if (largest < 0) {
    for (double& value : x) value = -value;
  }
  return x;
}

}  // namespace

std::vector<float> PositionTable(const GptWeights& weights) {
  const GptConfig& config = weights.config();
  std::vector<float> out(static_cast<size_t>(config.n_positions * config.n_embd));
  const Tensor table(out.data(), {config.n_positions, config.n_embd});
  if (config.learned_positions()) {
    std::memcpy(table.raw(), weights.params().wpe.data<float>(), table.bytes());
  } else {
    FillSinusoids(table);
  }
  return out;
}

std::vector<Neighbour> NearestRows(const Tensor& table, std::span<const float> vector, int64_t k,
                                   int64_t except) {
  const int64_t V = table.dim(0);
  FOLIO_CHECK(static_cast<int64_t>(vector.size()) == table.dim(1), "another width than the table");
  std::vector<Neighbour> rows(static_cast<size_t>(V));
  const double squares = Dot(vector, vector);
  ParallelRange(V, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v) {
      const std::span<const float> row = Row(table, v);
      rows[static_cast<size_t>(v)] = {v, Cosine(Dot(row, vector), Dot(row, row), squares)};
    }
  });
  if (0 <= except && except < V) rows.erase(rows.begin() + except);
  const int64_t count = std::clamp<int64_t>(k, 0, static_cast<int64_t>(rows.size()));
  std::partial_sort(rows.begin(), rows.begin() + count, rows.end(), Nearer);
  rows.resize(static_cast<size_t>(count));
  return rows;
}

std::vector<float> CosineSimilarity(const Tensor& table, int64_t rows) {
  FOLIO_CHECK(0 <= rows && rows <= table.dim(0), "more rows than the table has");
  const size_t n = static_cast<size_t>(rows);
  std::vector<float> out(n * n);
  std::vector<double> squares(n);
  for (size_t i = 0; i < n; ++i) {
    const std::span<const float> row = Row(table, static_cast<int64_t>(i));
    squares[i] = Dot(row, row);
  }
  ParallelFor(rows, [&](int64_t row, int) {
    const size_t i = static_cast<size_t>(row);
    for (size_t j = 0; j <= i; ++j) {
      const double product = Dot(Row(table, row), Row(table, static_cast<int64_t>(j)));
      out[i * n + j] = static_cast<float>(Cosine(product, squares[i], squares[j]));
    }
  });
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) out[j * n + i] = out[i * n + j];
  }
  return out;
}

Projection ProjectRows(Backend& backend, const Tensor& table, std::span<const int64_t> which) {
  const int64_t C = table.dim(1);
  const std::vector<float> means = ColumnMeans(table);
  const std::vector<double> scatter = ScatterMatrix(backend, table, means);
  double total = 0;
  for (int64_t c = 0; c < C; ++c) total += scatter[static_cast<size_t>(c * C + c)];
  const int64_t components = std::min<int64_t>(C, 2);
  const Eigenpairs pairs = LargestEigenpairs(scatter, C, components);
  Projection projection;
  for (int64_t i = 0; i < 2; ++i) {
    const size_t index = static_cast<size_t>(i);
    std::vector<double>& coordinates = i == 0 ? projection.x : projection.y;
    coordinates.resize(which.size());
    if (i >= components || !(total > 0)) continue;
    (i == 0 ? projection.explained_x : projection.explained_y) =
        std::max(0.0, pairs.values[index] / total);
    const std::vector<double> component = Signed(pairs.vectors[index]);
    for (size_t row = 0; row < which.size(); ++row) {
      FOLIO_CHECK(0 <= which[row] && which[row] < table.dim(0), "no such row");
      const std::span<const float> x = Row(table, which[row]);
      for (size_t c = 0; c < x.size(); ++c) {
        coordinates[row] += (static_cast<double>(x[c]) - means[c]) * component[c];
      }
    }
  }
  return projection;
}

}  // namespace folio
