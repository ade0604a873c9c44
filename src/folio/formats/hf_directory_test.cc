#include "folio/formats/hf_directory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "folio/backend/backend.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

std::vector<float> LogitsOf(const GptWeights& weights, const std::vector<int32_t>& ids,
                            const char* backend_name) {
  const auto backend = MakeBackend(backend_name);
  const int64_t T = std::ssize(ids), V = weights.config().vocab_size;
  GptPass pass(*backend, weights.config(), 1, T, PassKind::kForward);
  pass.Forward(weights.params(), ids);
  std::vector<float> logits(static_cast<size_t>(T * V));
  pass.Logits(weights.params(), 0, T, Tensor(logits.data(), {T, V}));
  return logits;
}

// Models that transformers saved, with its logits (tests/fixtures/transformers/README.md).
class SavedByTransformers : public testing::TestWithParam<const char*> {};

TEST_P(SavedByTransformers, GivesTheSameLogits) {
  const std::filesystem::path dir = Fixture("transformers") / GetParam();
  const SafetensorsFile expected(dir / "expected.safetensors");
  const std::vector<float> logits = expected.ReadAs<float>("logits");
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(dir, loading);
    EXPECT_EQ(found.format, "hf");
    for (const char* backend : {"cpu", "reference"}) {
      const auto weights = MapWeights(found.model);
      const std::vector<float> ours = LogitsOf(*weights, expected.ReadAs<int32_t>("ids"), backend);
      ExpectNear(std::vector<double>(ours.begin(), ours.end()),
                 std::vector<double>(logits.begin(), logits.end()),
                 kFloat32Model * Largest(logits));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HfDirectory, SavedByTransformers,
                         testing::Values("scaled", "sharded", "old"),
                         [](const auto& test) { return std::string(test.param); });

class HfDirectory : public InTemporaryDirectory {};

TEST_F(HfDirectory, IsSavedAsAWholeWithItsTokenizer) {
  GptConfig config = TinyConfig();
  config.vocab_size = 257;
  GptWeights weights(config);
  Scatter(weights, 1);
  const ByteTokenizer tokenizer;
  const std::filesystem::path out = At("deep/out");
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF32}) {  // the second over the first
    SaveHfDirectory(out, {.weights = weights, .tokenizer = &tokenizer, .dtype = dtype});
    const FoundModel found = FindModel(out);
    EXPECT_EQ(found.model.config, config);
    EXPECT_EQ(found.tokenizer->hash(), tokenizer.hash());
    EXPECT_EQ(found.model.params[0].from.dtype, dtype);
  }
  const auto loaded = ReadWeights(FindModel(out).model);
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const Tensor& ours = weights.tensors()[i];
    EXPECT_EQ(std::memcmp(loaded->tensors()[i].raw(), ours.raw(), ours.bytes()), 0);
  }
  EXPECT_EQ(FilesBelow(At("deep")).size(), FilesBelow(out).size());
}

}  // namespace
}  // namespace folio
