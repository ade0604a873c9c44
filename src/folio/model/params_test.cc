#include "folio/model/params.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "folio/model/test_models.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

int64_t Count(const GptConfig& config) {
  return ParamTable(config).parameters();
}

GptConfig Sized(int64_t layers, int64_t heads, int64_t channels) {
  return {.n_embd = channels, .n_layer = layers, .n_head = heads};
}

TEST(ParamTable, CountsThePublishedSizes) {
  struct Size {
    int64_t layers, heads, channels, count, padded, without_bias;
  };
  for (const Size& size : {
           Size{12, 12, 768, 124'439'808, 124'475'904, 124'337'664},
           Size{24, 16, 1024, 354'823'168, 354'871'296, 354'551'808},
           Size{36, 20, 1280, 774'030'080, 774'090'240, 773'521'920},
           Size{48, 25, 1600, 1'557'611'200, 1'557'686'400, 1'556'764'800},
       }) {
    GptConfig config = Sized(size.layers, size.heads, size.channels);
    EXPECT_EQ(Count(config), size.count);
    config.bias = false;
    EXPECT_EQ(Count(config), size.without_bias);
    config.bias = true;
    config.vocab_size = 50304;
    EXPECT_EQ(Count(config), size.padded);
  }
}

TEST(ParamTable, CountsTheCharacterModels) {
  GptConfig config = Sized(4, 4, 128);
  config.bias = false;
  config.vocab_size = 65;
  config.n_positions = 64;
  EXPECT_EQ(Count(config), 804'096);
  config.n_layer = config.n_head = 6;
  config.n_embd = 384;
  config.n_positions = 256;
  EXPECT_EQ(Count(config), 10'745'088);
}

TEST(ParamTable, EachOptionAddsOrTakesItsOwnParameters) {
  const GptConfig base = TinyConfig();
  const int64_t C = base.n_embd, F = base.inner(), L = base.n_layer, V = base.vocab_size;
  const int64_t whole = Count(base);
  const auto change = [&](auto&& edit) {
    GptConfig config = base;
    edit(config);
    return Count(config) - whole;
  };
  const int64_t attention = L * (3 * C + C), mlp = L * (F + C), norms = (2 * L + 1) * C;
  EXPECT_EQ(change([](GptConfig& c) { c.attention_bias = false; }), -attention);
  EXPECT_EQ(change([](GptConfig& c) { c.mlp_bias = false; }), -mlp);
  EXPECT_EQ(change([](GptConfig& c) { c.layer_norm_bias = false; }), -norms);
  EXPECT_EQ(change([](GptConfig& c) { c.bias = false; }), -attention - mlp - norms);
  const auto only_mlp_bias = [](GptConfig& c) {
    c.bias = false;
    c.mlp_bias = true;
  };
  EXPECT_EQ(change(only_mlp_bias), -attention - norms);
  EXPECT_EQ(change([](GptConfig& c) { c.lm_head_bias = true; }), V);
  EXPECT_EQ(change([](GptConfig& c) { c.tie_word_embeddings = false; }), V * C);
  EXPECT_EQ(change([](GptConfig& c) { c.position_embedding = PositionKind::kSinusoidal; }),
            -base.n_positions * C);
  EXPECT_EQ(change([](GptConfig& c) { c.n_inner = 7; }), L * (2 * C + 1) * (7 - F));
  EXPECT_EQ(change([](GptConfig& c) { c.norm_position = NormPosition::kPost; }), 0);
}

TEST(ParamTable, NamesAreHuggingFacesInItsOrder) {
  GptConfig config = TinyConfig();
  config.n_layer = 1;
  config.tie_word_embeddings = false;
  config.lm_head_bias = true;
  const ParamTable table(config);
  std::vector<std::string> names;
  for (const ParamInfo& info : table.params()) names.push_back(info.name);
  const std::string h = "transformer.h.0.";
  const std::vector<std::string> expected = {
      "transformer.wte.weight", "transformer.wpe.weight", h + "ln_1.weight",
      h + "ln_1.bias",          h + "attn.c_attn.weight", h + "attn.c_attn.bias",
      h + "attn.c_proj.weight", h + "attn.c_proj.bias",   h + "ln_2.weight",
      h + "ln_2.bias",          h + "mlp.c_fc.weight",    h + "mlp.c_fc.bias",
      h + "mlp.c_proj.weight",  h + "mlp.c_proj.bias",    "transformer.ln_f.weight",
      "transformer.ln_f.bias",  "lm_head.weight",         "lm_head.bias"};
  EXPECT_EQ(names, expected);
}

class FlatLayout : public testing::TestWithParam<int> {
 protected:
  FlatLayout() {
    config_.n_inner = 7 + GetParam();
    config_.tie_word_embeddings = GetParam() % 2 == 0;
    config_.lm_head_bias = GetParam() % 2 == 1;
    config_.bias = GetParam() != 2;
  }
  GptConfig config_ = TinyConfig();
};

TEST_P(FlatLayout, IsAlignedWithoutOverlapAndDecaysFirst) {
  const ParamTable table(config_);
  std::vector<ParamInfo> params(table.params().begin(), table.params().end());
  std::sort(params.begin(), params.end(),
            [](const ParamInfo& a, const ParamInfo& b) { return a.offset < b.offset; });
  int64_t free_from = 0;
  bool plain = false;
  for (const ParamInfo& info : params) {
    EXPECT_EQ(info.offset % 16, 0) << info.name;
    EXPECT_GE(info.offset, free_from) << info.name;
    EXPECT_EQ(IsDecayed(info.group), info.shape.rank() >= 2) << info.name;
    free_from = info.offset + info.shape.count();
    EXPECT_FALSE(plain && IsDecayed(info.group)) << info.name;
    plain = !IsDecayed(info.group);
  }
  EXPECT_LE(free_from, table.flat_size());
}

TEST_P(FlatLayout, ViewsReachEveryParameterOnce) {
  const GptWeights weights(config_, Dtype::kF64);
  VisitParams(config_, {}, {}, weights.params(), [](const ParamRow&, const Tensor& view) {
    for (double& x : Elements<double>(view)) x += 1;
  });
  int64_t ones = 0;
  for (double x : Elements<double>(weights.flat())) {
    EXPECT_TRUE(x == 0 || x == 1);
    ones += x == 1;
  }
  EXPECT_EQ(ones, weights.table().parameters());
}

INSTANTIATE_TEST_SUITE_P(Configs, FlatLayout, testing::Range(0, 4));

TEST(ParamTable, MatrixParametersCountTheHeadOnce) {
  GptConfig config = TinyConfig();
  const int64_t C = config.n_embd, F = config.inner();
  const int64_t matrices = config.n_layer * (4 * C * C + 2 * C * F) + config.vocab_size * C;
  EXPECT_EQ(ParamTable(config).matrix_parameters(), matrices);
  config.tie_word_embeddings = false;
  config.position_embedding = PositionKind::kSinusoidal;
  config.bias = false;
  EXPECT_EQ(ParamTable(config).matrix_parameters(), matrices);
}

TEST(ModelSummary, HasTheSizesAndCountsOfGpt2) {
  const ModelSummary gpt2{GptConfig()};
  EXPECT_EQ(gpt2.layers, 12);
  EXPECT_EQ(gpt2.heads * gpt2.head_size, gpt2.channels);
  EXPECT_EQ(gpt2.head_size, 64);
  EXPECT_EQ(gpt2.feed_forward, 4 * 768);
  EXPECT_EQ(gpt2.context, 1024);
  EXPECT_EQ(gpt2.vocabulary, 50257);
  EXPECT_TRUE(gpt2.tied && gpt2.causal);
  EXPECT_EQ(gpt2.parameters(), 124439808);
  EXPECT_EQ(gpt2.float32_bytes(), 4 * 124439808);
  // wte, wpe and four matrices of each layer; two biases and weights of each LayerNorm, four
  // biases.
  EXPECT_EQ(gpt2.decayed.tensors, 2 + 4 * 12);
  EXPECT_EQ(gpt2.not_decayed.tensors, (4 + 4) * 12 + 2);
  EXPECT_EQ(gpt2.not_decayed.parameters, 12 * (4 * 768 + (3 + 1 + 4 + 1) * 768) + 2 * 768);
}

TEST(ModelSummary, CountsAdaptersAndTheShardThatIsHere) {
  GptConfig config;
  config.n_layer = 2;
  const ModelSummary bare(config), adapted(ParamTable(config, {.rank = 8}));
  EXPECT_EQ(adapted.parameters() - bare.parameters(), 2 * 8 * (768 + 3 * 768));
  EXPECT_EQ(adapted.tensors(), bare.tensors() + 4);
  const ModelSummary half(ParamTable(config, {}, {.index = 0, .count = 2}));
  EXPECT_EQ(half.tensors(), bare.tensors());
  EXPECT_LT(half.parameters(), bare.parameters() * 6 / 10);
  EXPECT_EQ(half.heads, bare.heads);
}

}  // namespace
}  // namespace folio
