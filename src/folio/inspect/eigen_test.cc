#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/rng.h"
#include "folio/inspect/embeddings.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// A matrix with these eigenvalues: a diagonal matrix, reflected at random planes.
Vector WithEigenvalues(const Vector& values) {
  const size_t n = values.size();
  Vector a(n * n);
  for (size_t i = 0; i < n; ++i) a[i * n + i] = values[i];
  for (uint64_t plane = 0; plane < 3; ++plane) {
    Vector normal(n);
    for (size_t i = 0; i < n; ++i) normal[i] = CounterRng(4, plane).Normal(i);
    const double square = Dot(normal, normal);
    for (const bool columns : {false, true}) {
      const size_t across = columns ? 1 : n, along = columns ? n : 1;
      for (size_t line = 0; line < n; ++line) {
        double product = 0;
        for (size_t i = 0; i < n; ++i) product += a[line * across + i * along] * normal[i];
        for (size_t i = 0; i < n; ++i) {
          a[line * across + i * along] -= 2 * product / square * normal[i];
        }
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i];
  }
  return a;
}

void ExpectEigenpairs(const Vector& a, const Eigenpairs& pairs, Vector values) {
  const size_t n = values.size();
  std::sort(values.rbegin(), values.rend());
  const double bound = 1e-10 * std::max(values[0], 1e-300);
  ASSERT_EQ(pairs.values.size(), pairs.vectors.size());
  for (size_t i = 0; i < pairs.values.size(); ++i) {
    EXPECT_NEAR(pairs.values[i], values[i], bound) << n << " " << i;
    const Vector& v = pairs.vectors[i];
    ASSERT_EQ(v.size(), n);
    for (size_t j = 0; j <= i; ++j) EXPECT_NEAR(Dot(v, pairs.vectors[j]), i == j, 1e-10);
    for (size_t row = 0; row < n; ++row) {
      const Vector line(a.begin() + static_cast<int64_t>(row * n),
                        a.begin() + static_cast<int64_t>((row + 1) * n));
      EXPECT_NEAR(Dot(line, v), pairs.values[i] * v[row], bound);
    }
  }
}

void ExpectFound(const Vector& values, int64_t k) {
  const Vector a = WithEigenvalues(values);
  ExpectEigenpairs(a, LargestEigenpairs(a, static_cast<int64_t>(values.size()), k), values);
}

Vector Falling(size_t n, double ratio) {
  Vector values = {1};
  while (values.size() < n) values.push_back(values.back() * ratio);
  return values;
}

TEST(Eigenpairs, OfAMatrixByHand) {
  const Eigenpairs pairs = LargestEigenpairs(Vector{2, 1, 1, 2}, 2, 2);
  EXPECT_NEAR(pairs.values[0], 3, 1e-15);
  EXPECT_NEAR(pairs.values[1], 1, 1e-15);
  EXPECT_NEAR(std::abs(pairs.vectors[0][0] + pairs.vectors[0][1]), std::sqrt(2), 1e-15);
  EXPECT_NEAR(std::abs(pairs.vectors[1][0] - pairs.vectors[1][1]), std::sqrt(2), 1e-15);
}

// Smaller than the iterated space, and larger.
TEST(Eigenpairs, OfMatricesWithKnownOnes) {
  for (const size_t n : {1, 2, 3, 7, 8, 9, 63, 64, 65, 67, 131}) {
    ExpectFound(Falling(n, 0.9), std::min<int64_t>(static_cast<int64_t>(n), 4));
  }
}

TEST(Eigenpairs, CloseOnes) {
  for (const size_t n : {31, 97}) {
    ExpectFound(Falling(n, 0.999), 2);
    Vector linear;
    for (size_t i = 0; i < n; ++i) linear.push_back(1 + static_cast<double>(i) / 1000);
    ExpectFound(linear, 2);
  }
}

TEST(Eigenpairs, EqualOnes) {
  for (const size_t n : {5, 80}) {
    Vector values = Falling(n, 0.8);
    values[1] = values[2] = values[0];
    ExpectFound(values, 2);
    ExpectFound(values, 3);
    values.assign(n, 7);
    ExpectFound(values, 3);
    values[0] = 9;
    ExpectFound(values, 2);
  }
}

TEST(Eigenpairs, ZeroOnes) {
  for (const size_t n : {1, 4, 80}) {
    Vector values(n);
    ExpectFound(values, 1);
    values[0] = 3;
    ExpectFound(values, std::min<int64_t>(static_cast<int64_t>(n), 2));
  }
}

TEST(Eigenpairs, TinyAndHugeOnes) {
  for (const double scale : {1e-200, 1e-30, 1e30, 1e140}) {
    for (const size_t n : {6, 70}) {
      Vector values = Falling(n, 0.7);
      for (double& value : values) value *= scale;
      ExpectFound(values, 2);
    }
  }
}

TEST(Eigenpairs, WhatIsNoMatrixEndsToo) {
  for (const int64_t n : {3, 70}) {
    const Vector nothing(static_cast<size_t>(n * n), std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(LargestEigenpairs(nothing, n, 2).values.size(), 2u);
    const Vector endless(static_cast<size_t>(n * n), std::numeric_limits<double>::infinity());
    EXPECT_EQ(LargestEigenpairs(endless, n, 2).vectors.size(), 2u);
  }
  EXPECT_TRUE(LargestEigenpairs({}, 0, 0).values.empty());
  EXPECT_DEATH(LargestEigenpairs(Vector(4), 2, 3), "too many");
  EXPECT_DEATH(LargestEigenpairs(Vector(3), 2, 1), "the matrix is");
}

TEST(Eigenpairs, DoNotDependOnThreads) {
  const Vector a = WithEigenvalues(Falling(301, 0.9));
  ExpectSameOnThreads([&] { return LargestEigenpairs(a, 301, 2).vectors; });
}

}  // namespace
}  // namespace folio
