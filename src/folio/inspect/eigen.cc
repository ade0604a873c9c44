#include "folio/inspect/eigen.h"

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/base/thread_pool.h"

namespace folio {
namespace {

using Vector = std::vector<double>;

constexpr size_t kSpace = 8;                       // dimensions of the space that is iterated
constexpr size_t kTaskProducts = size_t{1} << 16;  // what one task of a product multiplies
constexpr int kIterations = 10'000;  // a bound, for eigenvalues that nothing tells apart
constexpr double kShift = 1e-10;     // of it: keeps a space that the matrix makes vanish

void Add(double scale, const Vector& x, Vector& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += scale * x[i];
}

// Makes the vectors of length 1 and at right angles to each other: Gram and Schmidt, twice.
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

// Turns each two vectors of the basis, and their images, until the image of one is at right angles
// to the other; the one of the larger eigenvalue comes first (C. Jacobi, 1846).
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

}  // namespace

Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k, double exact) {
  FOLIO_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "the matrix is (n,n)");
  FOLIO_CHECK(0 <= k && k <= std::min<int64_t>(n, 4), "too many eigenpairs");
  if (k == 0) return {};
  // The matrix is scaled to a size of 1, so that squares neither overflow nor vanish.
  Vector scaled(matrix.begin(), matrix.end());
  const double largest = *std::max_element(scaled.begin(), scaled.end());
  const double scale = largest > 0 && std::isfinite(largest) ? largest : 1;
  for (double& value : scaled) value /= scale;

  // A space as large as the matrix is spanned by any basis; no other is likely to miss a direction
  // if it is random.
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

}  // namespace folio
