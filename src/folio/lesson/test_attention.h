#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/test_op_cases.h"
#include "folio/base/rng.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/stepwise_attention.h"
#include "tests/kit/near.h"

// Operands, forms of attention and comparisons for its tests.

namespace folio {

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

// (rows, columns) from (columns, rows).
inline std::vector<double> Transposed(const std::vector<double>& x, int64_t rows, int64_t columns) {
  std::vector<double> result(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      result[static_cast<size_t>(r * columns + c)] = x[static_cast<size_t>(c * rows + r)];
    }
  }
  return result;
}

// Standard normal numbers that float32 holds; positive ones if so wished.
inline std::vector<double> RandomValues(int64_t count, uint64_t seed, bool positive = false) {
  std::vector<double> values(static_cast<size_t>(count));
  const CounterRng rng(seed, 17);
  for (size_t i = 0; i < values.size(); ++i) {
    const double normal = rng.Normal(i);
    values[i] = static_cast<float>(positive ? 0.2 + std::abs(normal) : normal);
  }
  return values;
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

// Results holds operands and results of an attention by name.
using Results = std::map<std::string, std::vector<double>>;

// Where the forms run, and within what part of the largest magnitude their results are exact.
struct Machine {
  const char* backend;
  Dtype dtype;
  double bound;
};
inline constexpr Machine kMachines[] = {{"reference", Dtype::kF64, 1e-13},
                                        {"reference", Dtype::kF32, 4e-6},
                                        {"cpu", Dtype::kF32, 4e-6}};

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

// ---- Forms --------------------------------------------------------------------------------------

// A form of attention, and what it must be.
struct Form {
  std::string name;
  AttentionSizes sizes;
  int64_t B, T, S;
  AttentionOptions options = {};
  int sequences = 1;      // query, key and value are one; 2: key and value are one; 3: each its own
  bool projected = true;  // with trainable weights
  std::function<StepwiseAttention(Backend&, Dtype)> named = {};  // if it has a name

  StepwiseAttention Make(Backend& backend, Dtype dtype) const {
    if (named) return named(backend, dtype);
    if (projected) return MultiHeadAttention(backend, sizes, B, T, S, options, dtype);
    return DotProductAttention(backend, sizes.H, sizes.kv_heads(), sizes.head_size(), B, T, S,
                               options, dtype);
  }
  // Random "query", "key", "value" as many as there are sequences, parameters and "d_out". Sums of
  // scores that are divided by must not come near 0.
  Results Operands() const {
    const bool positive =
        options.weighting == Weighting::kSum || options.weighting == Weighting::kNone;
    Results operands = {{"query", RandomValues(B * T * sizes.d_in, 1, positive)},
                        {"d_out", RandomValues(B * T * sizes.d_out, 4)}};
    const int64_t keys = B * S * sizes.kv_in();
    if (sequences > 1) operands["key"] = RandomValues(keys, 2, positive);
    if (sequences > 2) operands["value"] = RandomValues(keys, 3);
    if (!projected) return operands;
    const AttentionWeights weights(sizes, Dtype::kF64);
    Scatter(weights, 5, positive);
    for (const auto& [layer, x] : Named(weights.params())) operands[layer] = Values(x);
    return operands;
  }
};

inline void PrintTo(const Form& form, std::ostream* out) {
  *out << form.name;
}

// A form on its operands: from what Form::Operands names to "out", "weights" and "d_" and the name
// of each operand.
class FormRun {
 public:
  FormRun(const Form& form, Backend& backend, Dtype dtype, const Results& operands)
      : weights_(form.sizes, dtype),
        d_weights_(form.sizes, dtype),
        attention_(form.Make(backend, dtype)),
        d_out_({form.B * form.T, form.sizes.d_out}, dtype, operands.at("d_out")) {
    for (size_t i = 0; i < 3; ++i) {
      if (operands.contains(kNames[i])) {
        const Shape shape = i == 0 ? Shape{form.B * form.T, form.sizes.d_in}
                                   : Shape{form.B * form.S, form.sizes.kv_in()};
        inputs_.emplace_back(shape, dtype, operands.at(kNames[i]));
        // To be overwritten.
        d_inputs_.emplace_back(shape, dtype, std::vector<double>(size_t(shape.count()), NAN));
      }
      at_[i] = inputs_.size() - 1;
    }
    if (!form.projected) return;
    params_ = weights_.params();
    d_params_ = d_weights_.params();
    for (const auto& [name, x] : Named(params_)) Assign(x, operands.at(name));
    // Gradients of parameters are added to the values that are there already.
    for (const auto& [name, x] : Named(d_params_)) {
      Assign(x, std::vector<double>(size_t(x.count()), kBefore));
    }
  }

  StepwiseAttention& attention() { return attention_; }
  const AttentionSteps& steps() const { return attention_.steps(); }

  const Tensor& Forward() {
    return attention_.Forward(params_, inputs_[at_[0]], inputs_[at_[1]], inputs_[at_[2]]);
  }
  // After Forward.
  Results Gradients() {
    attention_.Backward(params_, inputs_[at_[0]], inputs_[at_[1]], inputs_[at_[2]], d_out_,
                        d_params_, d_inputs_[at_[0]], d_inputs_[at_[1]], d_inputs_[at_[2]]);
    Results results;
    for (size_t i = 0; i < 3; ++i) {
      const bool own = i == 0 || at_[i] != at_[i - 1];
      if (own) results[std::string("d_") + kNames[i]] = d_inputs_[at_[i]].values();
    }
    for (const auto& [name, x] : Named(d_params_)) {
      std::vector<double>& values = results["d_" + name] = Values(x);
      for (double& value : values) value -= kBefore;
    }
    return results;
  }
  Results All() {
    Results results = {{"out", Values(Forward())}};
    results["weights"] = Values(steps().weights);
    results.merge(Gradients());
    return results;
  }

 private:
  static constexpr const char* kNames[] = {"query", "key", "value"};
  static constexpr double kBefore = 0.5;
  AttentionWeights weights_, d_weights_;
  AttentionParams params_, d_params_;
  StepwiseAttention attention_;
  std::vector<Array> inputs_, d_inputs_;
  size_t at_[3];  // of query, key and value among these
  Array d_out_;
};

// Every gradient of sum(out * d_out), in float64 on the reference against central differences.
inline void ExpectGradients(const Form& form, const Results& operands) {
  const auto backend = MakeReferenceBackend();
  const Results results = FormRun(form, *backend, Dtype::kF64, operands).All();
  Results changed = operands;
  const auto loss = [&] {
    const std::vector<double> out = Values(FormRun(form, *backend, Dtype::kF64, changed).Forward());
    return std::inner_product(out.begin(), out.end(), operands.at("d_out").begin(), 0.0);
  };
  for (auto& [name, values] : changed) {
    if (name == "d_out") continue;
    const std::vector<double>& gradient = results.at("d_" + name);
    ASSERT_EQ(gradient.size(), values.size()) << name;
    const double scale = std::max(1.0, Largest(gradient));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(gradient[i], CentralDifference(values[i], loss), 1e-8 * scale)
          << name << "[" << i << "]";
    }
  }
}

// Float32 on both backends is float64 on the reference within what rounding may do. `disturbed` is
// of operands each off by one rounding unit of float32; every one of the few operations in a row
// rounds its own operands as much and adds up at most n terms (the rule of
// backend/decorated_backends.h). Where terms cancel whatever the operands are, as in the gradient
// of the keys' bias, they may be as large as the largest result of all.
inline void ExpectFloat32Agrees(const Form& form, const Results& operands, int64_t n) {
  constexpr double kOperations = 8, kUnit = 0x1p-24;
  const auto reference = MakeReferenceBackend();
  const Results exact = FormRun(form, *reference, Dtype::kF64, operands).All();
  Results moved = operands;
  uint64_t seed = 7;
  for (auto& [name, values] : moved) {
    const CounterRng rng(++seed, 23);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= 1 + (rng.Bits(i) % 2 == 0 ? kUnit : -kUnit);
    }
  }
  const Results disturbed = FormRun(form, *reference, Dtype::kF64, moved).All();
  double largest = 0;
  for (const auto& [name, values] : exact) largest = std::max(largest, Largest(values));
  for (const char* backend : {"reference", "cpu"}) {
    SCOPED_TRACE(backend);
    const Results found = FormRun(form, *MakeBackend(backend), Dtype::kF32, operands).All();
    ASSERT_EQ(found.size(), exact.size());
    for (const auto& [name, values] : exact) {
      const double magnified = Difference(values, disturbed.at(name));
      const double tolerance =
          kOperations * (8 + std::sqrt(static_cast<double>(n))) * magnified + 4 * kUnit * largest;
      EXPECT_LE(Difference(found.at(name), values), tolerance) << name;
      EXPECT_LE(tolerance, 1e-3 * std::max(1.0, largest)) << name << " says nothing";
    }
  }
}

}  // namespace folio
