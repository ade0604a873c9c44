#include "folio/inspect/eigen.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/parallel.h"
#include "folio/base/rng.h"

namespace folio {
namespace {

using Vector = std::vector<double>;

constexpr size_t kBlock = 4;   // vectors that a Krylov space grows by
constexpr size_t kSpace = 64;  // vectors of one space; matrices up to this size need none
constexpr size_t kTaskProducts = size_t{1} << 16;  // what one task of a product multiplies
constexpr int kRestarts = 200;                     // a bound, for matrices that hold no numbers
constexpr double kExact = 1e-12;  // of the largest eigenvalue: what the residuals come down to

double Dot(const Vector& a, const Vector& b) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void Add(double scale, const Vector& x, Vector& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += scale * x[i];
}

// Takes from x what lies along `basis` and gives it length 1; false if next to nothing is left.
bool Orthonormalize(const std::vector<Vector>& basis, Vector& x) {
  const double before = std::sqrt(Dot(x, x));
  for (int pass = 0; pass < 2; ++pass) {
    for (const Vector& b : basis) Add(-Dot(b, x), b, x);
  }
  const double length = std::sqrt(Dot(x, x));
  if (!(length > 1e-10 * before)) return false;
  for (double& value : x) value /= length;
  return true;
}

// One rotation of rows and columns p and q of `a` (n,n), which makes a[p,q] zero, and of the rows
// of `vectors`.
void Rotate(Vector& a, std::vector<Vector>& vectors, size_t p, size_t q) {
  const size_t n = vectors.size();
  const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  const auto turn = [&](double& x, double& y) {
    const double rotated = c * x - s * y;
    y = s * x + c * y;
    x = rotated;
  };
  for (size_t i = 0; i < n; ++i) turn(a[i * n + p], a[i * n + q]);
  for (size_t i = 0; i < n; ++i) turn(a[p * n + i], a[q * n + i]);
  a[p * n + q] = a[q * n + p] = 0;
  for (size_t i = 0; i < n; ++i) turn(vectors[p][i], vectors[q][i]);
}

// All eigenpairs of `a` (n,n) by Jacobi's rotations; the k largest of them.
Eigenpairs Jacobi(Vector a, size_t n, size_t k) {
  std::vector<Vector> vectors(n, Vector(n));
  for (size_t i = 0; i < n; ++i) vectors[i][i] = 1;
  constexpr int kSweeps = 50;
  const double small = 1e-16 * std::sqrt(Dot(a, a));
  bool turned = true;
  for (int sweep = 0; sweep < kSweeps && turned; ++sweep) {
    turned = false;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (!(std::abs(a[p * n + q]) > small)) continue;
        Rotate(a, vectors, p, q);
        turned = true;
      }
    }
  }
  Eigenpairs pairs;
  std::vector<bool> taken(n);
  while (pairs.values.size() < k) {
    size_t best = n;
    for (size_t i = 0; i < n; ++i) {
      if (!taken[i] && (best == n || a[i * n + i] > a[best * n + best])) best = i;
    }
    taken[best] = true;
    pairs.values.push_back(a[best * n + best]);
    pairs.vectors.push_back(vectors[best]);
  }
  return pairs;
}

Vector Multiply(std::span<const double> matrix, const Vector& x) {
  const size_t n = x.size();
  Vector out(n);
  const size_t grain = std::max<size_t>(1, kTaskProducts / n);
  ParallelRange(static_cast<int64_t>(n), static_cast<int64_t>(grain),
                [&](int64_t begin, int64_t end, int) {
                  for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                    double sums[4] = {};
                    const double* row = &matrix[i * n];
                    size_t j = 0;
                    for (; j + 4 <= n; j += 4) {
                      for (size_t lane = 0; lane < 4; ++lane)
                        sums[lane] += row[j + lane] * x[j + lane];
                    }
                    for (; j < n; ++j) sums[0] += row[j] * x[j];
                    out[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
                  }
                });
  return out;
}

// A basis of the space that `start` spans with its images under the matrix, and those images.
struct Space {
  std::vector<Vector> basis, images;
};

Space Grow(std::span<const double> matrix, std::vector<Vector> start) {
  Space space;
  for (Vector& x : start) {
    if (Orthonormalize(space.basis, x)) space.basis.push_back(std::move(x));
  }
  for (size_t i = 0; i < space.basis.size(); ++i) {
    space.images.push_back(Multiply(matrix, space.basis[i]));
    Vector next = space.images.back();
    if (space.basis.size() < kSpace && Orthonormalize(space.basis, next)) {
      space.basis.push_back(std::move(next));
    }
  }
  return space;
}

Vector Combine(const std::vector<Vector>& basis, const Vector& weights) {
  Vector out(basis.front().size());
  for (size_t i = 0; i < basis.size(); ++i) Add(weights[i], basis[i], out);
  return out;
}

// The best eigenpairs that can be had in a space (W. Ritz, 1909). `residual` gets the largest
// distance of A v from value * v among the first k.
Eigenpairs Ritz(const Space& space, size_t k, double& residual) {
  const size_t m = space.basis.size();
  Vector projected(m * m);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      projected[i * m + j] = projected[j * m + i] = Dot(space.basis[i], space.images[j]);
    }
  }
  Eigenpairs pairs = Jacobi(std::move(projected), m, std::min(m, kBlock));
  residual = 0;
  for (size_t i = 0; i < pairs.values.size(); ++i) {
    Vector difference = Combine(space.images, pairs.vectors[i]);
    pairs.vectors[i] = Combine(space.basis, pairs.vectors[i]);
    Add(-pairs.values[i], pairs.vectors[i], difference);
    if (i < k) residual = std::max(residual, std::sqrt(Dot(difference, difference)));
  }
  return pairs;
}

// The k largest of a matrix larger than one space.
Eigenpairs Krylov(std::span<const double> matrix, size_t size, size_t count) {
  std::vector<Vector> start(kBlock, Vector(size));
  const CounterRng rng(1, 0);
  for (size_t i = 0; i < kBlock * size; ++i) start[i / size][i % size] = rng.Normal(i);
  Eigenpairs pairs;
  for (int restart = 0; restart < kRestarts; ++restart) {
    double residual = 0;
    pairs = Ritz(Grow(matrix, std::move(start)), count, residual);
    if (!(residual > kExact * pairs.values.front())) break;
    start = pairs.vectors;
  }
  pairs.values.resize(count);
  pairs.vectors.resize(count);
  return pairs;
}

}  // namespace

Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k) {
  FOLIO_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "the matrix is (n,n)");
  FOLIO_CHECK(0 <= k && k <= std::min<int64_t>(n, kBlock), "too many eigenpairs");
  if (k == 0) return {};
  // Of the size of 1, so that squares neither overflow nor vanish.
  Vector scaled(matrix.begin(), matrix.end());
  const double largest = *std::max_element(scaled.begin(), scaled.end());
  const double scale = largest > 0 && std::isfinite(largest) ? largest : 1;
  for (double& value : scaled) value /= scale;
  const size_t size = static_cast<size_t>(n), count = static_cast<size_t>(k);
  Eigenpairs pairs =
      size <= kSpace ? Jacobi(std::move(scaled), size, count) : Krylov(scaled, size, count);
  for (double& value : pairs.values) value *= scale;
  return pairs;
}

}  // namespace folio
