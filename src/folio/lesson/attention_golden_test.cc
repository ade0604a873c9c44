// Numbers that PyTorch computed: its draws, and torch.nn.MultiheadAttention with masks and
// gradients in double.

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/test_attention.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

constexpr double kBound = 1e-6;

void AppendNumbers(const Json& json, std::vector<double>& out) {
  if (json.is_array()) {
    for (const Json& part : json) AppendNumbers(part, out);
  } else {
    out.push_back(json.is_boolean() ? json.get<bool>() : json.get<double>());
  }
}

std::vector<double> NumbersOf(const Json& json) {
  std::vector<double> numbers;
  AppendNumbers(json, numbers);
  return numbers;
}

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = GoldenFile("attention/expected.json");
    if (path.empty()) GTEST_SKIP() << "the numbers of attention/expected.json are not here";
    golden_ = ParseJson(ReadFile(path), path);
  }
  static void ExpectNumbers(const Tensor& found, const Json& expected) {
    EXPECT_LE(Difference(Values(found), NumbersOf(expected)), kBound);
  }

  Json golden_;
};

// Bit by bit; the unit draws, and what the forms make of both, attention_test.cc compares.
TEST_F(Golden, LinearDrawsAreThoseOfPyTorch) {
  AttentionWeights weights({.d_in = 3, .d_out = 2});
  const AttentionParams& p = weights.params();
  TorchRng rng(789);
  DrawAttention(weights, AttentionDraws::kLinear, rng);
  for (const auto& [name, layer] :
       {std::pair{"W_query", p.q}, std::pair{"W_key", p.k}, std::pair{"W_value", p.v}}) {
    EXPECT_EQ(Values(layer.weight),
              Transposed(NumbersOf(golden_["single_head_linear_seed_789"][name]), 3, 2));
  }
}

TEST_F(Golden, LookUp) {
  const Json& expected = golden_["lookup"];
  const Form form = {"look-up", {.d_in = 2, .d_out = 2}, 1, 1, 3, {.scale = 1.0}, 3, false};
  const Results operands = {{"query", NumbersOf(expected["query"])},
                            {"key", NumbersOf(expected["keys"])},
                            {"value", NumbersOf(expected["values"])},
                            {"d_out", {0, 0}}};
  const auto backend = MakeReferenceBackend();
  FormRun run(form, *backend, Dtype::kF32, operands);
  ExpectNumbers(run.Forward(), expected["softmax_result"]);
  ExpectNumbers(run.steps().weights, expected["softmax_weights"]);
  // An exact match is all the weight on one key.
  const Array weights({1, 1, 1, 3}, Dtype::kF32, NumbersOf(expected["exact_match_weights"]));
  const Array out({1, 2}, Dtype::kF32);
  AttentionContext(weights, run.attention().v(), out);
  ExpectNumbers(out, expected["exact_match_result"]);
}

// ---- torch.nn.MultiheadAttention ----------------------------------------------------------------

class GoldenTorch : public Golden {
 protected:
  // Runs the layer of `golden`; checks every number.
  void Check(const Json& golden) {
    const int64_t C = golden["embed_dim"].get<int64_t>(), H = golden["num_heads"].get<int64_t>();
    const int64_t B = static_cast<int64_t>(golden["query"].size());
    const int64_t T = static_cast<int64_t>(golden["query"][0].size());
    const int64_t S = static_cast<int64_t>(golden["key_value"][0].size());
    const AttentionWeights weights = Load(golden, C, H);
    Results operands = {{"query", NumbersOf(golden["query"])},
                        {"d_out", NumbersOf(golden["d_output"])}};
    if (golden.contains("d_key_value")) operands["key"] = NumbersOf(golden["key_value"]);
    for (const auto& [name, x] : Named(weights.params())) operands[name] = Values(x);

    std::vector<uint8_t> keys;
    for (const double ignored : NumbersOf(golden["key_padding_mask_true_is_ignored"])) {
      keys.push_back(ignored == 0);
    }
    const AttentionMask mask =
        AttentionMask::Combined(Tensor(keys.data(), {B, S}), T, golden["causal"].get<bool>());
    const Form form = {"torch", weights.sizes(), B, T, S, {.mask = mask}};
    const auto backend = MakeReferenceBackend();
    const Results found = FormRun(form, *backend, Dtype::kF64, operands).All();
    const Results expected = Expected(golden, C);
    for (const auto& [name, values] : expected) {
      EXPECT_LE(Difference(found.at(name), values), 1e-12 * Largest(values)) << name;
    }
    ExpectFloat32Agrees(form, operands, 3 * C);
  }

 private:
  // A torch.nn.MultiheadAttention's parameters: one matrix and one bias for queries, keys and
  // values.
  static AttentionWeights Load(const Json& golden, int64_t C, int64_t H) {
    AttentionWeights weights({.d_in = C, .d_out = C, .H = H, .bias = true, .out_proj = true},
                             Dtype::kF64);
    const AttentionParams& params = weights.params();
    const std::vector<double> packed = NumbersOf(golden["in_proj_weight"]);
    const std::vector<double> biases = NumbersOf(golden["in_proj_bias"]);
    int64_t part = 0;
    for (const LinearParams* layer : {&params.q, &params.k, &params.v}) {
      const auto rows = packed.begin() + part * C * C, bias = biases.begin() + part * C;
      Assign(layer->weight, Transposed({rows, rows + C * C}, C, C));
      Assign(layer->bias, std::vector<double>(bias, bias + C));
      ++part;
    }
    Assign(params.out.weight, Transposed(NumbersOf(golden["out_proj.weight"]), C, C));
    Assign(params.out.bias, NumbersOf(golden["out_proj.bias"]));
    return weights;
  }

  // PyTorch's numbers under folio's names, matrices as folio stores them.
  static Results Expected(const Json& golden, int64_t C) {
    Results expected = {{"out", NumbersOf(golden["output"])},
                        {"weights", NumbersOf(golden["weights"])},
                        {"d_query", NumbersOf(golden["d_query"])}};
    if (golden.contains("d_key_value")) expected["d_key"] = NumbersOf(golden["d_key_value"]);
    const std::vector<double> packed = NumbersOf(golden["d_in_proj_weight"]);
    int64_t begin = 0;
    for (const char* name : {"d_q.weight", "d_k.weight", "d_v.weight"}) {
      const std::vector<double> rows(packed.begin() + begin, packed.begin() + begin + C * C);
      expected[name] = Transposed(rows, C, C);
      begin += C * C;
    }
    expected["d_out.weight"] = Transposed(NumbersOf(golden["d_out_proj.weight"]), C, C);
    return expected;
  }
};

TEST_F(GoldenTorch, Self) {
  Check(golden_["mha_self"]);
}
TEST_F(GoldenTorch, SelfCausalPadded) {
  Check(golden_["mha_self_causal_padded"]);
}
TEST_F(GoldenTorch, CrossPadded) {
  Check(golden_["mha_cross_padded"]);
}

}  // namespace
}  // namespace folio
