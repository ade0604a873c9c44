#include "folio/inspect/embeddings.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/base/check.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/inspect/trace.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/transformer.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

using Vector = std::vector<double>;

constexpr size_t kSpace = 8;                       // dimension of the iterated space
constexpr size_t kTaskProducts = size_t{1} << 16;  // products in one task
constexpr int kIterations = 10'000;  // a limit, for eigenvalues that cannot be separated
constexpr double kShift = 1e-10;     // relative: keeps vectors that the matrix maps to zero

void Add(double scale, const Vector& x, Vector& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += scale * x[i];
}

// Orthonormalizes the vectors: Gram and Schmidt, twice.
void Orthonormalize(std::vector<Vector>& basis) {
  for (size_t i = 0; i < basis.size(); ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) Add(-Dot(basis[j], basis[i]), basis[j], basis[i]);
    }
    const double length = std::sqrt(Dot(basis[i], basis[i]));
    for (double& value : basis[i]) value /= length;
  }
}

// The matrix times each vector.
std::vector<Vector> Images(std::span<const double> matrix, const std::vector<Vector>& basis) {
  const size_t n = basis.front().size();
  std::vector<Vector> images(basis.size(), Vector(n));
  const size_t grain = std::max<size_t>(1, kTaskProducts / (n * basis.size()));
  ParallelRange(
      static_cast<int64_t>(n), static_cast<int64_t>(grain), [&](int64_t begin, int64_t end, int) {
        for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
          for (size_t i = 0; i < basis.size(); ++i) {
            images[i][row] = Dot(matrix.subspan(row * n, n), basis[i]);
          }
        }
      });
  return images;
}

// Rotates each two vectors of the basis, and their images, until the image of one is orthogonal to
// the other; the one with the larger eigenvalue comes first (C. Jacobi, 1846).
void Rotate(std::vector<Vector>& basis, std::vector<Vector>& images) {
  for (size_t i = 0; i < basis.size(); ++i) {
    for (size_t j = i + 1; j < basis.size(); ++j) {
      const double difference = Dot(basis[i], images[i]) - Dot(basis[j], images[j]);
      const double angle = std::atan2(2 * Dot(basis[i], images[j]), difference) / 2;
      const double c = std::cos(angle), s = std::sin(angle);
      for (std::vector<Vector>* vectors : {&basis, &images}) {
        Vector &first = (*vectors)[i], &second = (*vectors)[j];
        for (size_t at = 0; at < first.size(); ++at) {
          const double x = first[at], y = second[at];
          first[at] = c * x + s * y;
          second[at] = c * y - s * x;
        }
      }
    }
  }
}

constexpr int64_t kGrain = 256;         // rows in one task
constexpr int64_t kProductRows = 4096;  // rows whose products are summed in float32

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
      const float* row = table.host<float>() + v * C;
      for (int64_t c = begin; c < end; ++c) sums[c - begin] += row[c];
    }
    for (int64_t c = begin; c < end; ++c) {
      means[static_cast<size_t>(c)] = static_cast<float>(sums[c - begin] / static_cast<double>(V));
    }
  });
  return means;
}

// Transposes rows [begin, end) of the table minus `means`: out (C, end - begin).
void Transpose(const Tensor& table, std::span<const float> means, int64_t begin, int64_t end,
               float* out) {
  constexpr int64_t kTile = 32;
  const int64_t C = table.dim(1), n = end - begin;
  ParallelRange(C, kTile, [&](int64_t first, int64_t last, int) {
    for (int64_t at = 0; at < n; at += kTile) {
      for (int64_t i = at; i < std::min(n, at + kTile); ++i) {
        const float* row = table.host<float>() + (begin + i) * C;
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
  const MemoryPlan::Id columns_id = plan.AddMirrored("columns", Dtype::kF32, {C, rows});
  const MemoryPlan::Id products_id = plan.AddMirrored("products", Dtype::kF32, {C, C});
  plan.Place();
  const Arena arena(plan, backend.memory());
  const Mirror columns = arena.GetMirror(plan, columns_id);
  const Mirror products = arena.GetMirror(plan, products_id);
  std::vector<double> sum(static_cast<size_t>(C * C));
  for (int64_t begin = 0; begin < V; begin += rows) {
    const int64_t end = std::min(V, begin + rows);
    const Mirror some = columns.First({C, end - begin});
    Transpose(table, means, begin, end, some.host.host<float>());
    some.Send();
    const Tensor& x = some.device;
    backend.Run(LinearForward{.x = x, .weight = x, .out = products.device, .transposed = true});
    products.Fetch();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += products.host.host<float>()[i];
  }
  return sum;
}

// Returns the vector with the sign that makes its largest entry positive.
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

std::vector<double> RowNorms(const Tensor& table) {
  std::vector<double> norms;
  for (int64_t row = 0; row < table.dim(0); ++row) {
    double sum = 0;
    for (const double value : Row(table, row)) sum += value * value;
    norms.push_back(std::sqrt(sum));
  }
  return norms;
}

}  // namespace

Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k, double exact) {
  FOLIO_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "the matrix is (n,n)");
  FOLIO_CHECK(0 <= k && k <= std::min<int64_t>(n, 4), "too many eigenpairs");
  if (k == 0) return {};
  // The matrix is scaled to size 1, so that squares neither overflow nor vanish.
  Vector scaled(matrix.begin(), matrix.end());
  const double largest = *std::max_element(scaled.begin(), scaled.end());
  const double scale = largest > 0 && std::isfinite(largest) ? largest : 1;
  for (double& value : scaled) value /= scale;

  // Any basis spans a space as large as the matrix; a smaller one is random, so that it is unlikely
  // to miss a direction.
  const auto size = static_cast<size_t>(n), count = static_cast<size_t>(k);
  std::vector<Vector> basis(std::min(size, kSpace), Vector(size)), images;
  const CounterRng rng(1, 0);
  for (size_t i = 0; i < basis.size(); ++i) {
    for (size_t at = 0; at < size; ++at) {
      basis[i][at] = size > kSpace ? rng.Normal(i * size + at) : i == at;
    }
  }
  Eigenpairs pairs{.values = Vector(count), .vectors = {}};
  for (int iteration = 1;; ++iteration) {
    Orthonormalize(basis);
    images = Images(scaled, basis);
    Rotate(basis, images);
    double residual = 0;
    for (size_t i = 0; i < count; ++i) {
      pairs.values[i] = Dot(basis[i], images[i]);
      Vector difference = images[i];
      Add(-pairs.values[i], basis[i], difference);
      residual = std::max(residual, Dot(difference, difference));
    }
    const bool found = !(std::sqrt(residual) > exact * pairs.values.front());
    if (found || iteration == kIterations) break;
    for (size_t i = 0; i < basis.size(); ++i)
      Add(kShift * pairs.values.front(), basis[i], images[i]);
    basis = std::move(images);
  }
  basis.resize(count);
  pairs.vectors = std::move(basis);
  for (double& value : pairs.values) value *= scale;
  return pairs;
}

bool AddsPositions(const GptConfig& config) {
  return config.learned_positions() || config.position_embedding == PositionKind::kSinusoidal;
}

std::vector<float> PositionTable(const GptWeights& weights) {
  const GptConfig& config = weights.config();
  FOLIO_CHECK(AddsPositions(config), "the model has no position embeddings");
  std::vector<float> out(static_cast<size_t>(config.n_positions * config.n_embd));
  const Tensor table(out.data(), {config.n_positions, config.n_embd});
  if (config.learned_positions()) {
    CopyElements(weights.params().wpe, table);
  } else {
    FillSinusoids(table);
  }
  return out;
}

std::vector<float> RotaryHands(const RotaryFrequencies& frequencies,
                               std::span<const int64_t> positions) {
  std::vector<float> rows;
  for (const int64_t p : positions) {
    // The product is float32, as in models.
    const auto angle = [&](float step) {
      return static_cast<double>(static_cast<float>(p) * step);
    };
    for (const float step : frequencies.inverse) {
      rows.push_back(static_cast<float>(std::cos(angle(step))));
    }
    for (const float step : frequencies.inverse) {
      rows.push_back(static_cast<float>(std::sin(angle(step))));
    }
  }
  return rows;
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

Projection ProjectRows(Backend& backend, const Tensor& table, size_t count, double exact) {
  const int64_t V = table.dim(0), C = table.dim(1);
  Projection found{.along = std::vector(count, Vector(static_cast<size_t>(V))),
                   .explained = Vector(count)};
  const std::vector<float> means = ColumnMeans(table);
  const Vector scatter = ScatterMatrix(backend, table, means);
  double total = 0;
  for (int64_t c = 0; c < C; ++c) total += scatter[static_cast<size_t>(c * C + c)];
  if (!(total > 0)) return found;
  const Eigenpairs pairs =
      LargestEigenpairs(scatter, C, std::min(C, static_cast<int64_t>(count)), exact);
  for (size_t i = 0; i < pairs.values.size(); ++i) {
    found.explained[i] = std::max(0.0, pairs.values[i] / total);
    const Vector axis = Signed(pairs.vectors[i]);
    for (int64_t v = 0; v < V; ++v) {
      const std::span<const float> row = Row(table, v);
      double& sum = found.along[i][static_cast<size_t>(v)];
      for (size_t c = 0; c < row.size(); ++c) {
        sum += (static_cast<double>(row[c]) - means[c]) * axis[c];
      }
    }
  }
  return found;
}

TokenKind KindOf(std::string_view bytes) {
  const bool space = bytes.starts_with(' ');
  if (space) bytes.remove_prefix(1);
  if (bytes.empty() || FindInvalidUtf8(bytes) != std::string_view::npos) return TokenKind::kOther;
  const char32_t code = DecodeUtf8(bytes).code;
  const CharClass c = ClassOf(code);
  if (IsLetter(c)) return space ? TokenKind::kSpaceLetter : TokenKind::kLetter;
  if (c == CharClass::kNumber) return TokenKind::kDigit;
  const bool control = code < 0x20 || code == 0x7F;
  return c == CharClass::kOther && !control ? TokenKind::kPunctuation : TokenKind::kOther;
}

EmbeddingsView InspectEmbeddings(const OpenedModel& model, std::optional<int32_t> token,
                                 int64_t top, int64_t points, const std::function<void()>& before) {
  const GptConfig& config = model.weights->config();
  const HostCopy copy(model.weights->params().wte);
  const Tensor& wte = copy.tensor();
  EmbeddingsView view{.norms = RowNorms(wte), .top = top};
  if (AddsPositions(config)) {
    std::vector<float> positions = PositionTable(*model.weights);
    view.position_norms = RowNorms(Tensor(positions.data(), {config.n_positions, config.n_embd}));
  }
  if (token) view.token = TokenNeighbours{*token, NearestRows(wte, Row(wte, *token), top, *token)};
  const int64_t count = std::min(points, config.vocab_size);
  for (int64_t i = 0; i < count; ++i) {
    view.drawn.push_back(static_cast<int32_t>(i * config.vocab_size / count));
  }
  before();
  view.projection = ProjectRows(*model.backend, wte, 2);
  return view;
}

}  // namespace folio
