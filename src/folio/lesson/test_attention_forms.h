#pragma once

#include <functional>
#include <optional>
#include <string>

#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention.h"

// Forms of attention as functions of numbers, for tests that treat all of them alike.

namespace folio {

// From named operands, "d_out" among them, to the result "out", the step "weights" and the
// gradient of each operand, "d_" and its name.
using Form = std::function<Results(Backend&, Dtype, const Results& operands)>;

// The parameters among the operands, their names behind `prefix`, and their gradients.
class FormParams {
 public:
  FormParams(const AttentionSizes& sizes, Dtype dtype, const Results& operands,
             std::string prefix = "")
      : weights_(sizes, dtype), gradients_(sizes, dtype), prefix_(std::move(prefix)) {
    for (const auto& [name, x] : Named(weights_.params())) Assign(x, operands.at(prefix_ + name));
    // What is there already is added to.
    for (const auto& [name, x] : Named(gradients_.params())) {
      Assign(x, std::vector<double>(static_cast<size_t>(x.count()), kBefore));
    }
  }

  const AttentionParams& params() const { return weights_.params(); }
  const AttentionParams& gradients() const { return gradients_.params(); }
  void PutGradients(Results& results) const {
    for (const auto& [name, x] : Named(gradients_.params())) {
      std::vector<double> values = Values(x);
      for (double& value : values) value -= kBefore;
      results["d_" + prefix_ + name] = values;
    }
  }

 private:
  static constexpr double kBefore = 0.5;
  AttentionWeights weights_, gradients_;
  std::string prefix_;
};

// Random parameters, their names behind `prefix`.
inline void PutParams(const AttentionSizes& sizes, uint64_t seed, bool positive, Results& operands,
                      const std::string& prefix = "") {
  const AttentionWeights weights(sizes, Dtype::kF64);
  Scatter(weights, seed, positive);
  for (const auto& [name, x] : Named(weights.params())) operands[prefix + name] = Values(x);
}

// A tensor that must be overwritten.
inline Array Overwritten(const Shape& shape, Dtype dtype) {
  return Array(shape, dtype, std::vector<double>(static_cast<size_t>(shape.count()), NAN));
}

// MultiHeadAttention of "query" and, unless it is the same, "key_value".
inline Results RunMultiHead(Backend& backend, Dtype dtype, const Results& operands,
                            const AttentionSizes& sizes, int64_t B, int64_t T, int64_t S,
                            const AttentionOptions& options) {
  const FormParams params(sizes, dtype, operands);
  const Array query({B * T, sizes.d_in}, dtype, operands.at("query"));
  const Array d_query = Overwritten({B * T, sizes.d_in}, dtype);
  const Array d_out({B * T, sizes.d_out}, dtype, operands.at("d_out"));
  std::optional<Array> key_value, d_key_value;
  if (operands.contains("key_value")) {
    key_value.emplace(Shape{B * S, sizes.kv_in()}, dtype, operands.at("key_value"));
    d_key_value = Overwritten({B * S, sizes.kv_in()}, dtype);
  }
  StepwiseAttention attention = MultiHeadAttention(backend, sizes, B, T, S, options, dtype);
  const Tensor& kv = key_value ? *key_value : query;
  const Tensor& d_kv = d_key_value ? *d_key_value : d_query;
  Results results;
  results["out"] = Values(attention.Forward(params.params(), query, kv, kv));
  results["weights"] = Values(attention.steps().weights);
  attention.Backward(params.params(), query, kv, kv, d_out, params.gradients(), d_query, d_kv,
                     d_kv);
  params.PutGradients(results);
  results["d_query"] = d_query.values();
  if (d_key_value) results["d_key_value"] = d_key_value->values();
  return results;
}

// Every gradient of sum(out * d_out), in float64 on the reference against central differences.
inline void ExpectGradients(const Form& form, const Results& operands) {
  constexpr double kStep = 1e-5;
  const auto backend = MakeReferenceBackend();
  const Results results = form(*backend, Dtype::kF64, operands);
  Results changed = operands;
  const std::vector<double>& d_out = operands.at("d_out");
  for (auto& [name, values] : changed) {
    if (name == "d_out") continue;
    const std::vector<double>& gradient = results.at("d_" + name);
    ASSERT_EQ(gradient.size(), values.size()) << name;
    const double scale = std::max(1.0, Largest(gradient));
    for (size_t i = 0; i < values.size(); ++i) {
      const double before = values[i];
      values[i] = before + kStep;
      const std::vector<double> above = form(*backend, Dtype::kF64, changed).at("out");
      values[i] = before - kStep;
      const std::vector<double> below = form(*backend, Dtype::kF64, changed).at("out");
      values[i] = before;
      // The quotient loses eps / kStep of the sum to rounding and kStep^2 of a third derivative.
      ASSERT_NEAR(gradient[i], (Dot(above, d_out) - Dot(below, d_out)) / (2 * kStep), 1e-8 * scale)
          << name << "[" << i << "]";
    }
  }
}

// Float32 on both backends against float64 on the reference; sums have at most n terms.
inline void ExpectFloat32Agrees(const Form& form, const Results& operands, int64_t n) {
  const auto reference = MakeReferenceBackend();
  const Results exact = form(*reference, Dtype::kF64, operands);
  const Results disturbed = form(*reference, Dtype::kF64, Disturbed(operands, 7));
  for (const char* name : {"reference", "cpu"}) {
    SCOPED_TRACE(name);
    ExpectFloat32(form(*MakeBackend(name), Dtype::kF32, operands), exact, disturbed, n);
  }
}

}  // namespace folio
