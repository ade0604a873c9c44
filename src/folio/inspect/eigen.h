#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace folio {

// The largest eigenvalues of a symmetric matrix, largest first, and an eigenvector of length 1 for
// each, at right angles to the others.
struct Eigenpairs {
  std::vector<double> values;                // k
  std::vector<std::vector<double>> vectors;  // k, of n each
};

// Of `matrix` (n,n), symmetric, with no negative eigenvalues. Small matrices by C. Jacobi's
// rotations, 1846; others in block Krylov spaces that start from what the last one found (D.
// Calvetti, L. Reichel, D. Sorensen, 1994, of Lanczos' method). Equal eigenvalues are found as
// often as they occur. REQUIRES: 0 <= k <= min(n, 4).
Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k);

}  // namespace folio
