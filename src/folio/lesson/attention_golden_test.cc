// Every form against numbers that PyTorch computed: single precision with PyTorch's own draws,
// torch.nn.MultiheadAttention with masks and gradients in double.

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/io/json_parse.h"
#include "folio/io/safetensors.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/test_attention_forms.h"
#include "folio/model/positions.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBound = 1e-6;

void AppendNumbers(const Json& json, std::vector<double>& out) {
  if (json.is_array()) {
    for (const Json& part : json) AppendNumbers(part, out);
  } else {
    out.push_back(json.is_boolean() ? json.get<bool>() : json.get<double>());
  }
}

std::vector<double> Numbers(const Json& json) {
  std::vector<double> numbers;
  AppendNumbers(json, numbers);
  return numbers;
}

// (rows, columns) from (columns, rows).
std::vector<double> Transposed(const std::vector<double>& x, int64_t rows, int64_t columns) {
  std::vector<double> result(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      result[static_cast<size_t>(r * columns + c)] = x[static_cast<size_t>(c * rows + r)];
    }
  }
  return result;
}

class Golden : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    const std::string path = GoldenFile("attention/expected.json");
    if (path.empty()) GTEST_SKIP() << "the numbers of attention/expected.json are not here";
    golden_ = ParseJson(ReadFile(path), path);
  }
  // Once for each backend, in float32.
  void OnBothBackends(const std::function<void(Backend&)>& check) const {
    for (const char* name : {"reference", "cpu"}) {
      SCOPED_TRACE(name);
      check(*MakeBackend(name));
    }
  }
  // The six vectors, `B` times over.
  Array Inputs(int64_t B = 1) const {
    std::vector<double> values;
    for (int64_t b = 0; b < B; ++b) AppendNumbers(golden_["inputs"], values);
    return Array({B * kTokens, 3}, Dtype::kF32, values);
  }
  static void ExpectNumbers(const Tensor& found, const Json& expected) {
    EXPECT_LE(Difference(Values(found), Numbers(expected)), kBound);
  }

  static constexpr int64_t kTokens = 6;
  Json golden_;
};

TEST_F(Golden, NoWeights) {
  const Json& expected = golden_["no_weights"];
  OnBothBackends([&](Backend& backend) {
    StepwiseAttention attention = SimpleAttention(backend, 1, kTokens, 3);
    const Array inputs = Inputs();
    attention.Forward({}, inputs);
    const AttentionSteps& steps = attention.steps();
    ExpectNumbers(steps.scores, expected["scores"]);
    ExpectNumbers(steps.weights, expected["weights"]);
    ExpectNumbers(steps.context, expected["context"]);
  });
}

TEST_F(Golden, OneHeadOfUnitDraws) {
  const Json& expected = golden_["single_head_rand_seed_123"];
  AttentionWeights weights({.d_in = 3, .d_out = 2});
  TorchRng rng(123);
  DrawAttention(weights, AttentionDraws::kUnit, rng);
  EXPECT_EQ(Values(weights.params().q.weight), Numbers(expected["W_query"]));
  EXPECT_EQ(Values(weights.params().k.weight), Numbers(expected["W_key"]));
  EXPECT_EQ(Values(weights.params().v.weight), Numbers(expected["W_value"]));
  OnBothBackends([&](Backend& backend) {
    StepwiseAttention attention = SelfAttention(backend, weights.sizes(), 1, kTokens);
    ExpectNumbers(attention.Forward(weights.params(), Inputs()), expected["context"]);
    ExpectNumbers(attention.steps().weights, expected["weights"]);
  });
}

TEST_F(Golden, OneHeadOfLinearDrawsAndItsCausalTwin) {
  const Json& expected = golden_["single_head_linear_seed_789"];
  const Json& causal = golden_["causal"];
  AttentionWeights weights({.d_in = 3, .d_out = 2});
  TorchRng rng(789);
  DrawAttention(weights, AttentionDraws::kLinear, rng);
  const AttentionParams& p = weights.params();
  EXPECT_EQ(Values(p.q.weight), Transposed(Numbers(expected["W_query"]), 3, 2));
  EXPECT_EQ(Values(p.k.weight), Transposed(Numbers(expected["W_key"]), 3, 2));
  EXPECT_EQ(Values(p.v.weight), Transposed(Numbers(expected["W_value"]), 3, 2));
  OnBothBackends([&](Backend& backend) {
    StepwiseAttention attention = SelfAttention(backend, weights.sizes(), 1, kTokens);
    ExpectNumbers(attention.Forward(p, Inputs()), expected["context"]);
    ExpectNumbers(attention.steps().weights, expected["weights"]);
    for (const auto& [order, name] :
         {std::pair{MaskOrder::kBeforeSoftmax, "mask_before_softmax"},
          std::pair{MaskOrder::kAfterSoftmax, "mask_after_softmax_renormalised"}}) {
      StepwiseAttention masked = CausalAttention(backend, weights.sizes(), 1, kTokens, order);
      ExpectNumbers(masked.Forward(p, Inputs()), causal["context"]);
      ExpectNumbers(masked.steps().weights, causal[name]);
    }
  });
}

TEST_F(Golden, CausalHeadAndStackedHeads) {
  constexpr int64_t kBatch = 2;
  const AttentionSizes sizes = {.d_in = 3, .d_out = 2};
  AttentionWeights first(sizes), second(sizes);
  TorchRng rng(123);
  DrawAttention(first, AttentionDraws::kLinear, rng);
  DrawAttention(second, AttentionDraws::kLinear, rng);
  const std::vector<AttentionParams> params = {first.params(), second.params()};
  OnBothBackends([&](Backend& backend) {
    StepwiseAttention head = CausalAttention(backend, sizes, kBatch, kTokens);
    ExpectNumbers(head.Forward(params[0], Inputs(kBatch)),
                  golden_["causal_head_linear_seed_123"]["context"]);
    std::vector<StepwiseAttention> heads = StackedHeads(backend, sizes, 2, kBatch, kTokens);
    for (size_t h = 0; h < 2; ++h) heads[h].Forward(params[h], Inputs(kBatch));
    ExpectNumbers(SideBySide(heads).tensor(), golden_["stacked_heads_seed_123"]["context"]);
  });
}

TEST_F(Golden, SplitHeads) {
  constexpr int64_t kBatch = 2;
  AttentionWeights weights({.d_in = 3, .d_out = 2, .H = 2, .out_proj = true});
  TorchRng rng(123);
  DrawAttention(weights, AttentionDraws::kLinear, rng);
  const AttentionMask mask = AttentionMask::Causal(kTokens, kTokens);
  OnBothBackends([&](Backend& backend) {
    StepwiseAttention attention =
        MultiHeadAttention(backend, weights.sizes(), kBatch, kTokens, kTokens, {.mask = mask});
    ExpectNumbers(attention.Forward(weights.params(), Inputs(kBatch)),
                  golden_["split_heads_seed_123"]["context"]);
  });
}

TEST_F(Golden, SoftmaxAndItsScaledTwin) {
  const Json& expected = golden_["softmax_10_20_30"];
  const Array out({1, 3}, Dtype::kF32);
  for (const auto& [name, scale] :
       {std::pair{"plain", 1.0}, std::pair{"divided_by_sqrt_512", 1 / std::sqrt(512.0)}}) {
    const Array x({1, 3}, Dtype::kF32, std::vector{10 * scale, 20 * scale, 30 * scale});
    Softmax(x, out);
    ExpectNumbers(out, expected[name]);
    // The small ones too, to seven digits of their own.
    EXPECT_NEAR(out.values()[0] / Numbers(expected[name])[0], 1, kBound);
  }
}

TEST_F(Golden, LookUp) {
  const Json& expected = golden_["lookup"];
  OnBothBackends([&](Backend& backend) {
    const Array q({1, 2}, Dtype::kF32, Numbers(expected["query"]));
    const Array k({3, 2}, Dtype::kF32, Numbers(expected["keys"]));
    const Array v({3, 2}, Dtype::kF32, Numbers(expected["values"]));
    StepwiseAttention attention = DotProductAttention(backend, 1, 1, 2, 1, 1, 3, {.scale = 1.0});
    attention.Forward({}, q, k, v);
    ExpectNumbers(attention.steps().weights, expected["softmax_weights"]);
    ExpectNumbers(attention.steps().context, expected["softmax_result"]);
    // An exact match is all the weight on one key.
    const Array weights({1, 1, 1, 3}, Dtype::kF32, Numbers(expected["exact_match_weights"]));
    const Array out({1, 2}, Dtype::kF32);
    AttentionContext(weights, v, out);
    ExpectNumbers(out, expected["exact_match_result"]);
  });
}

TEST_F(Golden, SinusoidalPositions) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    const Array table({8, 4}, dtype);
    FillSinusoids(table);
    EXPECT_LE(Difference(table.values(), Numbers(golden_["sinusoidal_C4"])),
              dtype == Dtype::kF64 ? 1e-12 : kBound);
  }
}

// Two heads of a (1,2,3,4) array times their own transposes.
TEST_F(Golden, BatchedProduct) {
  const Json& expected = golden_["batched_product"];
  const std::vector<double> a = Numbers(expected["a"]);
  std::vector<double> rows(a.size());  // (T, H*D)
  for (size_t i = 0; i < a.size(); ++i) {
    rows[i / 4 % 3 * 8 + i / 12 * 4 + i % 4] = a[i];
  }
  OnBothBackends([&](Backend& backend) {
    const Array x({3, 8}, Dtype::kF32, rows);
    StepwiseAttention attention = DotProductAttention(backend, 2, 2, 4, 1, 3, 3, {.scale = 1.0});
    attention.Forward({}, x);
    ExpectNumbers(attention.steps().scores, expected["a_times_a_transposed"]);
  });
}

// ---- torch.nn.MultiheadAttention ----------------------------------------------------------------

class GoldenTorch : public Golden {
 protected:
  // Loads the layer of `golden` by way of a file and runs it; checks every number.
  void Check(const Json& golden) {
    const int64_t C = golden["embed_dim"].get<int64_t>(), H = golden["num_heads"].get<int64_t>();
    const int64_t B = static_cast<int64_t>(golden["query"].size());
    const int64_t T = static_cast<int64_t>(golden["query"][0].size());
    const int64_t S = static_cast<int64_t>(golden["key_value"][0].size());
    const AttentionWeights weights = Load(golden, C, H);
    Results operands = {{"query", Numbers(golden["query"])},
                        {"d_out", Numbers(golden["d_output"])}};
    if (golden.contains("d_key_value")) operands["key_value"] = Numbers(golden["key_value"]);
    for (const auto& [name, x] : Named(weights.params())) operands[name] = Values(x);

    std::vector<uint8_t> keys;
    for (const double ignored : Numbers(golden["key_padding_mask_true_is_ignored"])) {
      keys.push_back(ignored == 0);
    }
    const AttentionMask mask =
        AttentionMask::Combined(Tensor(keys.data(), {B, S}), T, golden["causal"].get<bool>());
    const Form form = [&](Backend& backend, Dtype dtype, const Results& at) {
      return RunMultiHead(backend, dtype, at, weights.sizes(), B, T, S, {.mask = mask});
    };
    const Results found = form(*MakeReferenceBackend(), Dtype::kF64, operands);
    const Results expected = Expected(golden, C);
    for (const auto& [name, values] : expected) {
      EXPECT_LE(Difference(found.at(name), values), 1e-12 * Largest(values)) << name;
    }
    ExpectFloat32Agrees(form, operands, 3 * C);
  }

 private:
  AttentionWeights Load(const Json& golden, int64_t C, int64_t H) const {
    const std::string prefix = "decoder.cross_attn.";
    std::vector<Array> arrays;
    std::vector<NamedTensor> tensors;
    for (const auto& [name, shape] : {std::pair<std::string, Shape>{"in_proj_weight", {3 * C, C}},
                                      {"in_proj_bias", {3 * C}},
                                      {"out_proj.weight", {C, C}},
                                      {"out_proj.bias", {C}}}) {
      arrays.emplace_back(shape, Dtype::kF64, Numbers(golden[name]));
      tensors.push_back({prefix + name, arrays.back()});
    }
    WriteSafetensors(At("layer.safetensors"), tensors);
    return LoadTorchAttention(At("layer.safetensors"), prefix, H, Dtype::kF64);
  }

  // PyTorch's numbers under folio's names, matrices as folio stores them.
  static Results Expected(const Json& golden, int64_t C) {
    Results expected = {{"out", Numbers(golden["output"])},
                        {"weights", Numbers(golden["weights"])},
                        {"d_query", Numbers(golden["d_query"])}};
    if (golden.contains("d_key_value")) {
      expected["d_key_value"] = Numbers(golden["d_key_value"]);
    }
    const std::vector<double> packed = Numbers(golden["d_in_proj_weight"]);
    int64_t begin = 0;
    for (const char* name : {"d_q.weight", "d_k.weight", "d_v.weight"}) {
      const std::vector<double> rows(packed.begin() + begin, packed.begin() + begin + C * C);
      expected[name] = Transposed(rows, C, C);
      begin += C * C;
    }
    expected["d_out.weight"] = Transposed(Numbers(golden["d_out_proj.weight"]), C, C);
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
