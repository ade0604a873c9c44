#pragma once

// Proof of hand-written gradients, for tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "tests/kit/near.h"

namespace folio::reference {

using Complex = std::complex<double>;

// Standard normal numbers; the same for the same stream.
inline std::vector<double> RandomNumbers(int64_t count, uint64_t stream) {
  const CounterRng rng(20240607, stream);
  std::vector<double> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = rng.Normal(i);
  return x;
}

inline std::vector<Complex> ToComplex(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

// sum of weight[i] * x[i]: turns the outputs of an operation into one loss whose gradient with
// respect to the outputs is `weight`.
inline Complex Loss(const std::vector<Complex>& x, const std::vector<double>& weight) {
  Complex sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * weight[i];
  return sum;
}

// d loss() / d x by the complex step: Im loss(x + ih) / h with h too small to change anything real,
// so that no digits are lost (W. Squire, G. Trapp, SIAM Review 40 (1998), 110-112). `loss` must
// read x and use nothing but analytic functions of it.
template <class F>
std::vector<double> ComplexStep(std::vector<Complex>& x, F&& loss) {
  constexpr double kStep = 1e-30;
  std::vector<double> gradient;
  for (Complex& element : x) {
    const Complex before = element;
    element += Complex(0, kStep);
    gradient.push_back(loss().imag() / kStep);
    element = before;
  }
  return gradient;
}

// `found` must equal before + gradient up to what rounding in double explains: 1e-12 of the largest
// magnitude. `before` may be empty.
inline void ExpectGradient(const std::vector<double>& found, const std::vector<double>& gradient,
                           const std::vector<double>& before, const std::string& what) {
  ASSERT_EQ(found.size(), gradient.size()) << what;
  const double largest = std::max({1e-3, Largest(gradient), Largest(before)});
  for (size_t i = 0; i < found.size(); ++i) {
    const double expected = gradient[i] + (before.empty() ? 0 : before[i]);
    ASSERT_TRUE(std::abs(found[i] - expected) <= 1e-12 * largest)
        << what << "[" << i << "]: " << found[i] << ", expected " << expected;
  }
}

}  // namespace folio::reference
