// Attention split into heads against what else computes the same.

#include <gtest/gtest.h>

#include "folio/lesson/attention_mask.h"
#include "folio/lesson/test_attention.h"
#include "folio/model/layers/attention.h"

namespace folio {
namespace {

// GPT-2's sublayer: one fused projection, one fused operation.
TEST(MultiHeadAttention, IsGptsSublayerWithMappedWeights) {
  constexpr int64_t B = 2, T = 5, C = 6, H = 3;
  std::vector<uint8_t> keys = {1, 1, 0, 1, 1, /**/ 0, 1, 1, 1, 0};
  const Tensor key_mask(keys.data(), {B, T});
  GptConfig config;
  config.n_embd = C;
  config.n_head = H;
  config.n_layer = 1;
  config.attn_pdrop = 0.3;
  for (const Machine& m : kMachines) {
    const auto backend = MakeBackend(m.backend);
    const PassContext pass{.backend = *backend,
                           .config = config,
                           .B = B,
                           .T = T,
                           .key_mask = key_mask,
                           .dropout = {.on = true, .seed = 5, .step = 2}};
    const Form form = {"split",
                       {.d_in = C, .d_out = C, .H = H, .bias = true, .out_proj = true},
                       B,
                       T,
                       T,
                       {.mask = AttentionMask::Combined(key_mask, T, true),
                        .dropout = pass.BlockDropout(0, kAttentionDropout)}};
    const Results operands = form.Operands();
    const AttentionWeights weights(form.sizes, m.dtype), d_weights(form.sizes, m.dtype);
    for (const auto& [name, x] : Named(weights.params())) Assign(x, operands.at(name));
    const AttentionParams &p = weights.params(), &d = d_weights.params();

    const Array c_attn({C, 3 * C}, m.dtype), d_c_attn({C, 3 * C}, m.dtype);
    const Array c_attn_bias({1, 3 * C}, m.dtype), d_c_attn_bias({1, 3 * C}, m.dtype);
    const LinearParams layers[] = {p.q, p.k, p.v}, d_layers[] = {d.q, d.k, d.v};
    for (int64_t i = 0; i < 3; ++i) {
      CopyColumns(layers[i].weight, 0, c_attn, i * C, C);
      CopyColumns(layers[i].bias.Reshape({1, C}), 0, c_attn_bias, i * C, C);
    }
    const auto flat = [](const Tensor& x) { return x.Reshape({3 * C}); };
    SelfAttentionParams params, d_params;
    params.c_attn = {c_attn, flat(c_attn_bias)};
    params.c_proj = p.out;
    d_params.c_attn = {d_c_attn, flat(d_c_attn_bias)};
    d_params.c_proj = d.out;
    const Array qkv({B * T, 3 * C}, m.dtype), lse({B, H, T}, m.dtype), attn({B * T, C}, m.dtype);
    SelfAttentionActivations acts;
    acts.qkv = qkv;
    acts.lse = lse;
    acts.attn = attn;
    const Array d_wide({B * T, 3 * C}, m.dtype), d_attn({B * T, C}, m.dtype);
    GptGradients grads;
    grads.d_wide = d_wide;
    grads.d_attn = d_attn;
    const Array x({B * T, C}, m.dtype, operands.at("query"));
    const Array d_out({B * T, C}, m.dtype, operands.at("d_out"));
    const Array out({B * T, C}, m.dtype), d_x({B * T, C}, m.dtype);
    SelfAttentionForward(pass, 0, params, acts, {}, x, out);
    SelfAttentionBackward(pass, 0, params, acts, x, d_out, d_params, grads, d_x, false);

    Results expected = {{"out", out.values()}, {"d_query", d_x.values()}};
    for (int64_t i = 0; i < 3; ++i) {
      CopyColumns(d_c_attn, i * C, d_layers[i].weight, 0, C);
      CopyColumns(d_c_attn_bias, i * C, d_layers[i].bias.Reshape({1, C}), 0, C);
    }
    for (const auto& [name, gradient] : Named(d)) expected["d_" + name] = Values(gradient);
    Results found = FormRun(form, *backend, m.dtype, operands).All();
    found.erase("weights");
    // A sum that cancels.
    found.erase("d_k.bias");
    expected.erase("d_k.bias");
    ExpectClose(found, expected, m.bound);
  }
}

// Results, gradients, and every head's weights.
TEST(MultiHeadAttention, IsStackedHeadsOfTheJoinedWeights) {
  struct Case {
    AttentionSizes sizes;
    int64_t heads, B, T;
  };
  for (const auto& [sizes, heads, B, T] : {Case{{.d_in = 3, .d_out = 2}, 2, 2, 6},
                                           Case{{.d_in = 5, .d_out = 7, .bias = true}, 3, 1, 5},
                                           Case{{.d_in = 1, .d_out = 1}, 1, 1, 1},
                                           Case{{.d_in = 7, .d_out = 1, .bias = true}, 5, 3, 2}}) {
    for (const Machine& m : kMachines) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << sizes.d_out);
      const auto backend = MakeBackend(m.backend);
      std::vector<AttentionWeights> weights, gradients;
      for (int64_t h = 0; h < heads; ++h) {
        weights.emplace_back(sizes, m.dtype);
        gradients.emplace_back(sizes, m.dtype);
        Scatter(weights.back(), static_cast<uint64_t>(h));
      }
      const AttentionWeights joined = JoinHeads(weights);
      const Form split = {"split", joined.sizes(), B, T, T, {.mask = AttentionMask::Causal(T, T)}};
      Results operands = split.Operands();
      for (const auto& [name, x] : Named(joined.params())) operands[name] = Values(x);
      Results expected = FormRun(split, *backend, m.dtype, operands).All();

      const Array x({B * T, sizes.d_in}, m.dtype, operands.at("query"));
      const Array d_out({B * T, heads * sizes.d_out}, m.dtype, operands.at("d_out"));
      const Array d_x({B * T, sizes.d_in}, m.dtype), d_head({B * T, sizes.d_out}, m.dtype);
      const Array all({B, heads * T * T}, m.dtype);
      std::vector<StepwiseAttention> stack =
          StackedHeads(*backend, sizes, heads, B, T, {}, m.dtype);
      ASSERT_EQ(std::ssize(stack), heads);
      std::vector<double> d_query(expected.at("d_query").size());
      for (size_t h = 0; h < stack.size(); ++h) {
        const auto column = static_cast<int64_t>(h);
        CopyColumns(d_out, column * sizes.d_out, d_head, 0, sizes.d_out);
        stack[h].Forward(weights[h].params(), x);
        stack[h].Backward(weights[h].params(), x, d_head, gradients[h].params(), d_x);
        const std::vector<double> part = d_x.values();
        for (size_t i = 0; i < part.size(); ++i) d_query[i] += part[i];
        CopyColumns(stack[h].steps().weights.Reshape({B, T * T}), 0, all, column * T * T, T * T);
      }
      Results found = {{"out", Values(SideBySide(stack).tensor())},
                       {"weights", all.values()},
                       {"d_query", d_query}};
      const AttentionWeights d_joined = JoinHeads(gradients);
      for (const auto& [name, d] : Named(d_joined.params())) found["d_" + name] = Values(d);
      // Gradients of biases of keys are sums that cancel.
      found.erase("d_k.bias");
      expected.erase("d_k.bias");
      if (T == 1) {  // where no score has a gradient
        for (const char* name : {"d_q.weight", "d_k.weight"}) {
          found.erase(name);
          expected.erase(name);
        }
      }
      ExpectClose(found, expected, m.bound);
    }
  }
}

// Heads that are stacked drop what the split layer drops.
TEST(StackedHeadsWithDropout, AreTheSplitLayer) {
  constexpr int64_t T = 5, kHeads = 3;
  const AttentionSizes sizes = {.d_in = 4, .d_out = 2};
  const auto backend = MakeReferenceBackend();
  const Dropout dropout = {.p = 0.4, .seed = 3, .stream = 4, .first_row = 2};
  std::vector<AttentionWeights> weights;
  for (uint64_t h = 0; h < kHeads; ++h) {
    weights.emplace_back(sizes, Dtype::kF64);
    Scatter(weights.back(), h);
  }
  const AttentionWeights joined = JoinHeads(weights);
  std::vector<double> numbers;
  for (int i = 0; i < T * 4; ++i) numbers.push_back(std::sin(i));
  const Array x({T, sizes.d_in}, Dtype::kF64, numbers);
  std::vector<StepwiseAttention> stack =
      StackedHeads(*backend, sizes, kHeads, 1, T, {.scale = 0.7, .dropout = dropout}, Dtype::kF64);
  for (size_t h = 0; h < stack.size(); ++h) stack[h].Forward(weights[h].params(), x);
  StepwiseAttention split = MultiHeadAttention(
      *backend, joined.sizes(), 1, T, T,
      {.scale = 0.7, .mask = AttentionMask::Causal(T, T), .dropout = dropout}, Dtype::kF64);
  const std::vector<double> expected = Values(split.Forward(joined.params(), x));
  EXPECT_EQ(Values(SideBySide(stack).tensor()), expected);
  EXPECT_NE(Values(stack[0].steps().kept), Values(stack[0].steps().weights));
}

}  // namespace
}  // namespace folio
