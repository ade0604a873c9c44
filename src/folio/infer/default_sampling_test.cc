#include "folio/infer/default_sampling.h"

#include <gtest/gtest.h>

#include "folio/infer/test_small_model.h"

namespace folio {
namespace {

TEST(DefaultSamplings, WithoutSuggestionsOnlyAnswersArePlayedSafe) {
  const OpenedModel model = SmallModel();
  const SamplingOptions text = DefaultSampling(model, Writing::kText),
                        answer = DefaultSampling(model, Writing::kAnswer);
  EXPECT_EQ(text.temperature, 1);
  EXPECT_EQ(text.top_p, 1);
  EXPECT_EQ(DefaultGeneration(model, Writing::kText).max_tokens, GenerateOptions{}.max_tokens);
  EXPECT_LT(answer.temperature, 1);
  EXPECT_LT(answer.top_p, 1);
  EXPECT_EQ(answer.penalties.repetition, 1);
  EXPECT_EQ(DefaultGeneration(model, Writing::kAnswer).max_tokens, 512);
  EXPECT_EQ(DescribeSampling(model, answer),
            "sampling: temperature 0.3, top-k 40, top-p 0.9, min-p 0.05 (default for answers)");
}

TEST(DefaultSamplings, WhatTheModelSuggestsCountsForAllThatItWrites) {
  OpenedModel model = SmallModel();
  model.sampling = {.source = "generation_config.json", .top_k = 64, .top_p = 0.95};
  for (const Writing writing : {Writing::kText, Writing::kAnswer}) {
    const SamplingOptions options = DefaultSampling(model, writing);
    EXPECT_EQ(options.temperature, 1) << "what it leaves open is not as for other answers";
    EXPECT_EQ(options.top_k, 64);
    EXPECT_EQ(options.top_p, 0.95);
    EXPECT_EQ(options.min_p, 0);
    EXPECT_EQ(DescribeSampling(model, options),
              "sampling: temperature 1, top-k 64, top-p 0.95 (from generation_config.json)");
  }
  model.sampling = {.source = "the GGUF file",
                    .temperature = 0.5,
                    .min_p = 0.1,
                    .typical = 0.9,
                    .repetition = 1.1};
  const SamplingOptions options = DefaultSampling(model, Writing::kAnswer);
  EXPECT_EQ(options.temperature, 0.5);
  EXPECT_EQ(options.top_k, 0);
  EXPECT_EQ(options.min_p, 0.1);
  EXPECT_EQ(options.typical, 0.9);
  EXPECT_EQ(options.penalties.repetition, 1.1);
  EXPECT_EQ(
      DescribeSampling(model, options),
      "sampling: temperature 0.5, min-p 0.1, typical 0.9, repetition-penalty 1.1 (from the GGUF "
      "file)");
}

}  // namespace
}  // namespace folio
