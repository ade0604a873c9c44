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

// Finds the pairs of `matrix` (n,n), symmetric, with no negative eigenvalues, by iterating a space
// of a few vectors until the matrix maps it onto itself (H. Rutishauser, 1969). Equal eigenvalues
// are found as often as they occur. Each is found until the matrix maps its vector to its multiple
// but for `exact` of the largest eigenvalue. REQUIRES: 0 <= k <= min(n, 4).
Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k,
                             double exact = 1e-11);

}  // namespace folio
