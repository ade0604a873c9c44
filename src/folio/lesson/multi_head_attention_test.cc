#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/lesson/attention_mask.h"
#include "folio/lesson/stepwise_attention.h"
#include "folio/lesson/test_attention_forms.h"
#include "folio/model/attention.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class MultiHead : public testing::TestWithParam<std::string> {
 protected:
  // Float64 on the reference; the best there is on others.
  Dtype dtype() const { return backend_->Supports(Dtype::kF64) ? Dtype::kF64 : Dtype::kF32; }
  double bound() const { return dtype() == Dtype::kF64 ? 1e-12 : 4e-6; }

  static Results Operands(const AttentionSizes& sizes, int64_t queries, int64_t keys) {
    Results operands = {{"query", RandomValues(queries * sizes.d_in, 1)},
                        {"d_out", RandomValues(queries * sizes.d_out, 2)}};
    if (keys > 0) operands["key_value"] = RandomValues(keys * sizes.kv_in(), 3);
    PutParams(sizes, 4, false, operands);
    return operands;
  }
  Results Run(const AttentionSizes& sizes, const Results& operands, int64_t B, int64_t T, int64_t S,
              const AttentionOptions& options = {}) const {
    return RunMultiHead(*backend_, dtype(), operands, sizes, B, T, S, options);
  }

  const std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

// Columns [from, from + count) of a matrix of `width` columns.
std::vector<double> Columns(const std::vector<double>& x, int64_t width, int64_t from,
                            int64_t count) {
  std::vector<double> part;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % width;
    if (column >= from && column < from + count) part.push_back(x[i]);
  }
  return part;
}

std::vector<double> SideBySide(const std::vector<const std::vector<double>*>& parts,
                               int64_t width) {
  std::vector<double> whole;
  const int64_t rows = static_cast<int64_t>(parts[0]->size()) / width;
  for (int64_t r = 0; r < rows; ++r) {
    for (const std::vector<double>* part : parts) {
      whole.insert(whole.end(), part->begin() + r * width, part->begin() + (r + 1) * width);
    }
  }
  return whole;
}

// GPT-2's sublayer: one fused projection, one fused operation.
TEST_P(MultiHead, IsGptsSublayerWithMappedWeights) {
  constexpr int64_t B = 2, T = 5, C = 6, H = 3;
  const AttentionSizes sizes = {.d_in = C, .d_out = C, .H = H, .bias = true, .out_proj = true};
  const Results operands = Operands(sizes, B * T, 0);
  std::vector<uint8_t> keys = {1, 1, 0, 1, 1, /**/ 0, 1, 1, 1, 0};
  const Tensor key_mask(keys.data(), {B, T});
  const AttentionMask mask = AttentionMask::Combined(key_mask, T, true);

  GptConfig config;
  config.n_embd = C;
  config.n_head = H;
  config.n_layer = 1;
  config.attn_pdrop = 0.3;
  const PassContext pass{.backend = *backend_,
                         .config = config,
                         .B = B,
                         .T = T,
                         .key_mask = key_mask,
                         .dropout = {.on = true, .seed = 5, .step = 2}};
  const auto joined = [&](const char* part, int64_t rows) {
    const std::string p = part;
    return Array(
        rows == 1 ? Shape{3 * C} : Shape{rows, 3 * C}, dtype(),
        SideBySide({&operands.at("q." + p), &operands.at("k." + p), &operands.at("v." + p)}, C));
  };
  const Array c_attn = joined("weight", C), c_attn_bias = joined("bias", 1);
  const Array c_proj({C, C}, dtype(), operands.at("out.weight"));
  const Array c_proj_bias({C}, dtype(), operands.at("out.bias"));
  const Array d_c_attn({C, 3 * C}, dtype()), d_c_attn_bias({3 * C}, dtype());
  const Array d_c_proj({C, C}, dtype()), d_c_proj_bias({C}, dtype());
  BlockParams params, d_params;
  params.c_attn = {c_attn, c_attn_bias};
  params.attn_c_proj = {c_proj, c_proj_bias};
  d_params.c_attn = {d_c_attn, d_c_attn_bias};
  d_params.attn_c_proj = {d_c_proj, d_c_proj_bias};
  const Array qkv({B * T, 3 * C}, dtype()), lse({B, H, T}, dtype()), attn({B * T, C}, dtype());
  BlockActivations acts;
  acts.qkv = qkv;
  acts.lse = lse;
  acts.attn = attn;
  const Array d_wide({B * T, 3 * C}, dtype()), d_attn({B * T, C}, dtype());
  GptGradients grads;
  grads.d_wide = d_wide;
  grads.d_attn = d_attn;
  const Array x({B * T, C}, dtype(), operands.at("query"));
  const Array d_out({B * T, C}, dtype(), operands.at("d_out"));
  const Array out({B * T, C}, dtype()), d_x({B * T, C}, dtype());
  AttentionSublayerForward(pass, 0, params, acts, x, out);
  AttentionSublayerBackward(pass, 0, params, acts, x, d_out, d_params, grads, d_x, false);

  Results found = Run(sizes, operands, B, T, T,
                      {.mask = mask, .dropout = pass.BlockDropout(0, DropoutPlace::kAttention)});
  found.erase("weights");
  Results expected = {{"out", out.values()},
                      {"d_query", d_x.values()},
                      {"d_out.weight", d_c_proj.values()},
                      {"d_out.bias", d_c_proj_bias.values()}};
  for (const auto& [name, column] : {std::pair{"q", 0}, std::pair{"k", 1}, std::pair{"v", 2}}) {
    const std::string layer = std::string("d_") + name;
    expected[layer + ".weight"] = Columns(d_c_attn.values(), 3 * C, column * C, C);
    expected[layer + ".bias"] = Columns(d_c_attn_bias.values(), 3 * C, column * C, C);
  }
  // A sum that cancels.
  found.erase("d_k.bias");
  expected.erase("d_k.bias");
  ExpectClose(found, expected, bound());
}

TEST_P(MultiHead, WithAsManyGroupsAsHeadsIsUngrouped) {
  AttentionSizes sizes = {.d_in = 5, .d_out = 12, .H = 4, .bias = true, .out_proj = true};
  const Results operands = Operands(sizes, 6, 0);
  const Results ungrouped = Run(sizes, operands, 2, 3, 3);
  sizes.G = 4;
  ExpectClose(Run(sizes, operands, 2, 3, 3), ungrouped, 0);
}

// G heads of keys are H heads of which H/G in a row are alike; their gradients add up.
TEST_P(MultiHead, GroupsShareKeysAndValues) {
  constexpr int64_t B = 2, T = 3, S = 4, H = 4, D = 3, kIn = 5;
  for (const int64_t G : {1, 2}) {
    const AttentionSizes grouped = {
        .d_in = kIn, .d_kv_in = 2, .d_out = H * D, .H = H, .G = G, .bias = true};
    AttentionSizes full = grouped;
    full.G = 0;
    const Results operands = Operands(grouped, B * T, B * S);
    Results repeated = operands;
    const char* const kShared[] = {"k.weight", "k.bias", "v.weight", "v.bias"};
    for (const char* name : kShared) {
      std::vector<std::vector<double>> heads;
      std::vector<const std::vector<double>*> parts;
      for (int64_t h = 0; h < H; ++h) {
        heads.push_back(Columns(operands.at(name), G * D, h / (H / G) * D, D));
      }
      for (const auto& head : heads) parts.push_back(&head);
      repeated[name] = SideBySide(parts, D);
    }
    Results found = Run(grouped, operands, B, T, S), expected = Run(full, repeated, B, T, S);
    for (const char* name : kShared) {
      std::vector<double>& all = expected["d_" + std::string(name)];
      std::vector<double> sums(found.at("d_" + std::string(name)).size());
      for (size_t i = 0; i < all.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / (H * D);
        const int64_t h = static_cast<int64_t>(i) / D % H, d = static_cast<int64_t>(i) % D;
        sums[size_t(row * G * D + h / (H / G) * D + d)] += all[i];
      }
      all = sums;
    }
    found.erase("d_k.bias");
    expected.erase("d_k.bias");
    ExpectClose(found, expected, bound());
  }
}

TEST_P(MultiHead, CrossAttentionToACopyIsSelfAttention) {
  const AttentionSizes sizes = {.d_in = 6, .d_out = 6, .H = 2, .bias = true, .out_proj = true};
  const Results self = Operands(sizes, 10, 0);
  Results cross = self;
  cross["key_value"] = self.at("query");
  const Results expected = Run(sizes, self, 2, 5, 5);
  Results found = Run(sizes, cross, 2, 5, 5);
  for (size_t i = 0; i < found["d_query"].size(); ++i) {
    found["d_query"][i] += found["d_key_value"][i];
  }
  found.erase("d_key_value");
  Results without = expected;
  found.erase("d_k.bias");
  without.erase("d_k.bias");
  ExpectClose(found, without, bound());
}

TEST_P(MultiHead, FullyPaddedSequencesGiveTheOutputsBiasAndNoNan) {
  const AttentionSizes sizes = {.d_in = 3, .d_out = 4, .H = 2, .out_proj = true};
  std::vector<uint8_t> keys = {0, 0, 0, /**/ 1, 1, 0};
  const AttentionMask mask = AttentionMask::Combined(Tensor(keys.data(), {2, 3}), 2, false);
  const Results operands = Operands(sizes, 4, 6);
  const Results found = Run(sizes, operands, 2, 2, 3, {.mask = mask});
  for (const auto& [name, values] : found) {
    for (const double value : values) ASSERT_TRUE(std::isfinite(value)) << name;
  }
  const std::vector<double>& bias = operands.at("out.bias");
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(found.at("out")[i], bias[i % 4], bound());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(found.at("d_query")[i], 0);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(found.at("d_key_value")[i], 0);
  EXPECT_GT(Largest(found.at("d_key_value")), 0);
}

TEST_P(MultiHead, TellsWhatItLeft) {
  const AttentionSizes sizes = {.d_in = 3, .d_kv_in = 5, .d_out = 8, .H = 4, .G = 2};
  const AttentionWeights weights(sizes);
  Scatter(weights, 1);
  StepwiseAttention attention = MultiHeadAttention(*backend_, sizes, 2, 3, 7);
  const Array query = RandomArray({6, 3}, 1, Dtype::kF32),
              kv = RandomArray({14, 5}, 2, Dtype::kF32);
  const Tensor& out = attention.Forward(weights.params(), query, kv, kv);
  EXPECT_EQ(out.raw(), attention.out().raw());
  EXPECT_EQ(out.raw(), attention.steps().context.raw());  // without output projection
  EXPECT_EQ(attention.q().shape(), (Shape{6, 8}));
  EXPECT_EQ(attention.k().shape(), (Shape{14, 4}));
  EXPECT_EQ(attention.v().shape(), (Shape{14, 4}));
  EXPECT_EQ(attention.steps().scores.shape(), (Shape{2, 4, 3, 7}));
  EXPECT_EQ(out.shape(), (Shape{6, 8}));
}

TEST_P(MultiHead, RefusesSizesThatDoNotFit) {
  const auto refusal = [&](const AttentionSizes& sizes) {
    return ErrorOf([&] { MultiHeadAttention(*backend_, sizes, 1, 1, 1); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal({.d_in = 3, .d_out = 10, .H = 4}), "d_out is 10", "heads is 4"));
  EXPECT_TRUE(Contains(refusal({.d_in = 3, .d_out = 12, .H = 6, .G = 4}), "is 6", "is 4"));
  EXPECT_TRUE(Contains(refusal({.d_in = 3, .d_out = 4, .H = 0}), "heads is 0"));
}

INSTANTIATE_TEST_SUITE_P(Backends, MultiHead, testing::Values("reference", "cpu"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace folio
