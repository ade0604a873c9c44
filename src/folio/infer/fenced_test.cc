// Texts are written as on the cpu where a model lies in memory that the host cannot touch.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "folio/backend/test_fenced_orders.h"
#include "folio/infer/beam_search.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/pooling.h"
#include "folio/model/test_models.h"
#include "folio/model_files/stored_model.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

GptConfig SmallConfig() {
  GptConfig config = TinyConfig();
  config.n_positions = 300;
  config.n_embd = 64;
  config.vocab_size = 37;
  return config;
}

// The texts and numbers of a model with matrices of some dtype.
struct Written {
  std::vector<Tokens> texts;
  std::vector<double> pooled;
  std::vector<float> logits;
  std::vector<double> beams;
  bool operator==(const Written&) const = default;
};

Written Write(Backend& backend, Dtype matrices) {
  const GptWeights source(SmallConfig());
  Scatter(source, 1);
  const std::unique_ptr<GptWeights> weights =
      MapWeights(AsStored(source), {.dtype = matrices}, {}, backend.memory());
  Written written;
  written.texts.resize(4);
  PooledRows pooled(source.config().n_embd, /*mean=*/true);
  {
    DecodeBatch batch(backend, *weights);
    for (size_t i = 0; i < written.texts.size(); ++i) {
      TextRequest request;
      request.prompt = RandomTokens(130 + 5 * static_cast<int64_t>(i % 2), 37, i / 2);
      request.options.max_tokens = 12;
      request.options.sampling = {.temperature = i % 2 == 0 ? 0 : 1.2, .seed = 11};
      request.on_token = [&text = written.texts[i]](const NewToken& token) {
        text.push_back(token.id);
        return true;
      };
      if (i == 1) {
        request.on_norm = [&](int64_t, const Tensor& norm) { pooled.Add(norm); };
        request.on_logits = [&](int64_t, const Tensor& logits) {
          const std::span<const float> numbers = Elements<float>(logits);
          written.logits.insert(written.logits.end(), numbers.begin(), numbers.end());
        };
      }
      batch.Add(std::move(request));
    }
    while (batch.Step()) {
    }
  }
  written.pooled = pooled.Value();
  const Tokens prompt = RandomTokens(20, 37, 3);
  const BeamSearchOptions options{.beams = 3, .max_tokens = 6};
  Decoder decoder(backend, *weights,
                  {.pages = BeamSearchPages(source.config(), std::ssize(prompt), options)});
  for (const BeamText& text : BeamSearch(decoder, prompt, options)) {
    written.texts.push_back(text.ids);
    written.beams.push_back(text.log_probability);
  }
  return written;
}

class FencedWriting : public testing::TestWithParam<FencedOrder> {};

TEST_P(FencedWriting, HasTheTextsOfTheCpu) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    SCOPED_TRACE(DtypeName(dtype));
    const Written expected = Write(*MakeCpuBackend(), dtype);
    EXPECT_EQ(expected.texts[0].size(), 12u);
    EXPECT_FALSE(expected.logits.empty());
    EXPECT_TRUE(Write(*MakeFencedBackend(GetParam()), dtype) == expected);
  }
}

// A vocabulary of 37 in rows of 64.
TEST_P(FencedWriting, NeverSamplesFromRowsOfPadding) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    SCOPED_TRACE(DtypeName(dtype));
    const Written expected = Write(*MakeCpuBackend(), dtype);
    const Written found = Write(*MakeFencedBackend(GetParam(), {.row_multiple = 64}), dtype);
    EXPECT_EQ(found.texts, expected.texts);
    ASSERT_EQ(found.logits.size(), expected.logits.size());
    ExpectNear(std::vector<double>(found.logits.begin(), found.logits.end()),
               std::vector<double>(expected.logits.begin(), expected.logits.end()), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedWriting, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
