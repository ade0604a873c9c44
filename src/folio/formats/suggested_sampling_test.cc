#include "folio/formats/suggested_sampling.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/directory.h"
#include "tests/kit/gguf_bytes.h"

namespace folio {
namespace {

class SuggestedSamplings : public InTemporaryDirectory {
 protected:
  SuggestedSampling Of(const std::string& json) const {
    WriteFileAtomically(At("generation_config.json"), json);
    return ReadSuggestedSampling(At(""));
  }
};

TEST_F(SuggestedSamplings, AreReadFromTheGenerationConfig) {
  EXPECT_FALSE(ReadSuggestedSampling(At("")).any());
  const SuggestedSampling all = Of(
      R"({"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.1,
          "typical_p": 0.9, "repetition_penalty": 1.1, "eos_token_id": [1, 2]})");
  EXPECT_EQ(all.source, "generation_config.json");
  EXPECT_EQ(all.temperature, 0.7);
  EXPECT_EQ(all.top_k, 20);
  EXPECT_EQ(all.top_p, 0.8);
  EXPECT_EQ(all.min_p, 0.1);
  EXPECT_EQ(all.typical, 0.9);
  EXPECT_EQ(all.repetition, 1.1);
  const SuggestedSampling some = Of(R"({"top_k": 64, "top_p": 0.95})");
  EXPECT_FALSE(some.temperature);
  EXPECT_EQ(some.top_k, 64);
  EXPECT_FALSE(Of(R"({"bos_token_id": 1, "max_length": 8192, "temperature": null})").any());
}

TEST_F(SuggestedSamplings, WithoutSamplingTheLikeliestIsMeant) {
  const SuggestedSampling greedy = Of(R"({"do_sample": false})");
  EXPECT_TRUE(greedy.any());
  EXPECT_EQ(greedy.source, "generation_config.json");
  EXPECT_EQ(greedy.temperature, 0);
  EXPECT_EQ(Of(R"({"do_sample": false, "temperature": 0.6})").temperature, 0);
  EXPECT_EQ(Of(R"({"do_sample": null, "temperature": 0.6})").temperature, 0.6);
}

TEST_F(SuggestedSamplings, ValuesOutOfTheirRangesArePassedOver) {
  for (const char* json :
       {R"({"temperature": -1})", R"({"temperature": "hot"})", R"({"temperature": 1e300})",
        R"({"top_k": -1})", R"({"top_k": 2.5})", R"({"top_k": [50]})", R"({"top_p": 0})",
        R"({"top_p": 1.5})", R"({"min_p": 2})", R"({"typical_p": 0})",
        R"({"repetition_penalty": 0})", R"([])", R"({"temperature": {"a": 1}})"}) {
    EXPECT_FALSE(Of(json).any()) << json;
  }
}

TEST_F(SuggestedSamplings, AreReadFromTheKeysOfAGgufFile) {
  const auto number = [](float value) { return GgufBytes::Raw(std::bit_cast<uint32_t>(value)); };
  constexpr uint32_t kI32 = 5, kF32 = 6;
  GgufBytes bytes;
  bytes.String("general.architecture", "llama")
      .Key("general.sampling.temp", kF32, number(0.7F))
      .Key("general.sampling.top_k", kI32, GgufBytes::Raw(int32_t{20}))
      .Key("general.sampling.top_p", kF32, number(0.95F))
      .Key("general.sampling.min_p", kF32, number(0.05F))
      .Key("general.sampling.penalty_repeat", kF32, number(1.05F));
  WriteFileAtomically(At("m.gguf"), bytes.File());
  const SuggestedSampling found = ReadSuggestedSampling(GgufFile(At("m.gguf")));
  EXPECT_EQ(found.source, "the GGUF file");
  EXPECT_EQ(found.temperature, 0.7);
  EXPECT_EQ(found.top_k, 20);
  EXPECT_EQ(found.top_p, 0.95);
  EXPECT_EQ(found.min_p, 0.05);
  EXPECT_EQ(found.repetition, 1.05);
  EXPECT_FALSE(found.typical);
}

TEST_F(SuggestedSamplings, ComeWithAModelThatIsFound) {
  GptWeights weights(TinyConfig());
  Scatter(weights, 1);
  SaveModel(At(""), weights);
  EXPECT_FALSE(FindModel(At("")).sampling.any()) << "of token ids nothing is suggested";
  Of(R"({"temperature": 0.6})");
  EXPECT_EQ(FindModel(At("")).sampling.temperature, 0.6);
  EXPECT_EQ(FindModel(At("model.safetensors")).sampling.temperature, 0.6);
}

}  // namespace
}  // namespace folio
