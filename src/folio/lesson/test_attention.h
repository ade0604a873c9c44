#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/lesson/attention_weights.h"

// Operands and comparisons for the tests of attention.

namespace folio {

// The elements, whatever the dtype.
inline std::vector<double> Values(const Tensor& x) {
  std::vector<double> values(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = x.dtype() == Dtype::kF64 ? x.data<double>()[i] : x.data<float>()[i];
  }
  return values;
}

inline void Assign(const Tensor& x, std::span<const double> values) {
  FOLIO_CHECK(static_cast<int64_t>(values.size()) == x.count(), "values of another tensor");
  for (size_t i = 0; i < values.size(); ++i) {
    if (x.dtype() == Dtype::kF64) {
      x.data<double>()[i] = values[i];
    } else {
      x.data<float>()[i] = static_cast<float>(values[i]);
    }
  }
}

// A tensor with memory of its own.
class Array {
 public:
  explicit Array(const Shape& shape, Dtype dtype = Dtype::kF64)
      : memory_(static_cast<size_t>(shape.count())), tensor_(memory_.data(), dtype, shape) {}
  Array(const Shape& shape, Dtype dtype, std::span<const double> values) : Array(shape, dtype) {
    Assign(tensor_, values);
  }
  Array(Array&&) = default;
  Array& operator=(Array&&) = default;

  operator const Tensor&() const { return tensor_; }
  std::vector<double> values() const { return Values(tensor_); }

 private:
  std::vector<double> memory_;  // room for either dtype
  Tensor tensor_;
};

// Standard normal numbers; positive ones if so wished.
inline std::vector<double> RandomValues(int64_t count, uint64_t seed, bool positive = false) {
  std::vector<double> values(static_cast<size_t>(count));
  const CounterRng rng(seed, 17);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = rng.Normal(i);
    if (positive) values[i] = 0.2 + std::abs(values[i]);
  }
  return values;
}

inline Array RandomArray(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::kF64) {
  return Array(shape, dtype, RandomValues(shape.count(), seed));
}

// The parameters that there are, by name.
inline std::vector<std::pair<std::string, Tensor>> Named(const AttentionParams& params) {
  std::vector<std::pair<std::string, Tensor>> named;
  for (const auto& [name, layer] : {std::pair{"q", params.q}, std::pair{"k", params.k},
                                    std::pair{"v", params.v}, std::pair{"out", params.out}}) {
    if (layer.weight) named.emplace_back(std::string(name) + ".weight", layer.weight);
    if (layer.bias) named.emplace_back(std::string(name) + ".bias", layer.bias);
  }
  return named;
}

// Every parameter normal(0, 0.5), or positive.
inline void Scatter(const AttentionWeights& weights, uint64_t seed, bool positive = false) {
  uint64_t place = 100 * seed;
  for (const auto& [name, x] : Named(weights.params())) {
    std::vector<double> values = RandomValues(x.count(), ++place, positive);
    for (double& value : values) value *= 0.5;
    Assign(x, values);
  }
}

inline double Largest(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// The largest difference; NaN if there is one.
inline double Difference(std::span<const double> a, std::span<const double> b) {
  FOLIO_CHECK(a.size() == b.size(), "arrays of different sizes");
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    worst = std::isnan(difference) || std::isnan(worst) ? NAN : std::max(worst, difference);
  }
  return worst;
}

// What a form leaves behind, by name.
using Results = std::map<std::string, std::vector<double>>;

// Each result within `bound` times its largest magnitude, or times `terms`: how large the terms
// are that may cancel in it.
inline void ExpectClose(const Results& found, const Results& expected, double bound,
                        double terms = 0) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const double size = std::max(Largest(values), terms);
    EXPECT_LE(Difference(found.at(name), values), bound * size) << name;
  }
}

// Float32 results are those of float64 within what rounding may do. `disturbed` came of operands
// each off by one rounding unit of float32; every one of the few operations in a row rounds its own
// operands as much and adds up at most n terms (the rule of backend/comparison.h). Where terms
// cancel whatever the operands are, as in the gradient of the keys' bias, they may be as large as
// the largest result of all.
inline void ExpectFloat32(const Results& found, const Results& exact, const Results& disturbed,
                          int64_t n) {
  constexpr double kOperations = 8, kUnit = 0x1p-24;
  ASSERT_EQ(found.size(), exact.size());
  double largest = 0;
  for (const auto& [name, values] : exact) largest = std::max(largest, Largest(values));
  for (const auto& [name, values] : exact) {
    const double magnified = Difference(values, disturbed.at(name));
    const double tolerance =
        kOperations * (8 + std::sqrt(static_cast<double>(n))) * magnified + 4 * kUnit * largest;
    EXPECT_LE(Difference(found.at(name), values), tolerance) << name;
    EXPECT_LE(tolerance, 1e-3 * std::max(1.0, largest)) << name << " says nothing";
  }
}

// Each value one rounding unit of float32 up or down at random.
inline Results Disturbed(Results operands, uint64_t seed) {
  for (auto& [name, values] : operands) {
    const CounterRng rng(++seed, 23);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= 1 + (rng.Bits(i) % 2 == 0 ? 0x1p-24 : -0x1p-24);
    }
  }
  return operands;
}

inline double Dot(std::span<const double> a, std::span<const double> b) {
  FOLIO_CHECK(a.size() == b.size(), "arrays of different sizes");
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace folio
