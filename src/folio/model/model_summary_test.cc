#include "folio/model/model_summary.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

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
