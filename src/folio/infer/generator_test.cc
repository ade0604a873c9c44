#include "folio/infer/generator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "folio/base/thread_pool.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

class Generating : public testing::TestWithParam<std::string> {
 protected:
  Generating() {
    config_.n_positions = 9;
    config_.n_embd = 24;
    config_.vocab_size = 37;
    config_.position_embedding = GetParam() == "sinusoidal" ? "sinusoidal" : "learned";
    config_.norm_position = GetParam() == "post" ? "post" : "pre";
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
  }
  ~Generating() override { SetThreads(threads_); }

  Tokens Generate(const Tokens& prompt, const GenerateOptions& options, uint64_t sequence = 0) {
    Generator generator(*backend_, *weights_);
    return Generate(generator, prompt, options, sequence);
  }
  static Tokens Generate(Generator& generator, const Tokens& prompt, const GenerateOptions& options,
                         uint64_t sequence = 0) {
    Tokens out;
    generator.Generate(prompt, options, sequence, [&](int32_t id) {
      out.push_back(id);
      return true;
    });
    return out;
  }

  // The same without a cache: a whole forward pass over the last P tokens for each new one.
  Tokens Slowly(Tokens tokens, const GenerateOptions& options, uint64_t sequence = 0) {
    Sampler sampler(options.sampling);
    Tokens out;
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    while (static_cast<int64_t>(out.size()) < options.max_tokens) {
      const size_t T = std::min<size_t>(tokens.size(), 9);
      GptPass pass(*backend_, config_, 1, static_cast<int64_t>(T), PassKind::kForward);
      pass.Forward(weights_->params(), std::span(tokens).last(T));
      pass.Logits(weights_->params(), static_cast<int64_t>(T) - 1, static_cast<int64_t>(T),
                  Tensor(logits.data(), {1, config_.vocab_size}));
      out.push_back(sampler.Sample(logits, sequence, out.size()));
      tokens.push_back(out.back());
    }
    return out;
  }

  int threads_ = Threads();
  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
};

const GenerateOptions kGreedy = {.sampling = {.temperature = 0}, .max_tokens = 25};
const GenerateOptions kRandom = {.sampling = {.temperature = 1.3, .seed = 5}, .max_tokens = 25};

// 25 tokens after 3 go far beyond the 9 that the model sees.
TEST_P(Generating, CacheAndSlidingWindowChangeNothing) {
  const Tokens prompt = {3, 1, 4};
  EXPECT_EQ(Generate(prompt, kGreedy), Slowly(prompt, kGreedy));
  EXPECT_EQ(Generate(prompt, kRandom, 2), Slowly(prompt, kRandom, 2));
}

TEST_P(Generating, OfALongPromptTheEndCounts) {
  for (const int64_t length : {8, 9, 10, 30}) {
    const Tokens prompt = RandomTokens(length, config_.vocab_size, 3);
    const Tokens expected = Slowly(prompt, kGreedy);
    EXPECT_EQ(Generate(prompt, kGreedy), expected) << length;
    Tokens other = prompt;
    other.insert(other.begin(), 7);
    if (length >= 9) {
      EXPECT_EQ(Generate(other, kGreedy), expected) << length;
    }
  }
}

TEST_P(Generating, AGeneratorForgetsItsLastText) {
  Generator generator(*backend_, *weights_);
  const Tokens first = Generate(generator, {3, 1, 4}, kRandom);
  Generate(generator, RandomTokens(20, config_.vocab_size, 3), kGreedy);
  EXPECT_EQ(Generate(generator, {3, 1, 4}, kRandom), first);
}

TEST_P(Generating, SequencesOfOnePromptDiffer) {
  const Tokens one = Generate({5}, kRandom, 0), two = Generate({5}, kRandom, 1);
  EXPECT_EQ(one.size(), 25u);
  EXPECT_NE(one, two);
  EXPECT_EQ(Generate({5}, kRandom, 1), two);
  EXPECT_EQ(Generate({5}, kGreedy, 0), Generate({5}, kGreedy, 1));
}

TEST_P(Generating, DoesNotDependOnThreads) {
  SetThreads(1);
  const Tokens one = Generate({5, 6}, kRandom);
  SetThreads(2);
  EXPECT_EQ(Generate({5, 6}, kRandom), one);
}

TEST_P(Generating, AStopTokenEndsTheTextAndIsNotGivenOut) {
  const Tokens whole = Generate({3, 1, 4}, kRandom);
  const int32_t stop = whole[6];
  const auto first = std::find(whole.begin(), whole.end(), stop);
  GenerateOptions options = kRandom;
  options.stop_tokens = {stop};
  Generator generator(*backend_, *weights_);
  Tokens out;
  const FinishReason reason = generator.Generate(Tokens{3, 1, 4}, options, 0, [&](int32_t id) {
    out.push_back(id);
    return true;
  });
  EXPECT_EQ(reason, FinishReason::kStop);
  EXPECT_EQ(out, Tokens(whole.begin(), first));
}

TEST_P(Generating, EndsWhenAsked) {
  Generator generator(*backend_, *weights_);
  int calls = 0;
  EXPECT_EQ(generator.Generate(Tokens{1}, kRandom, 0, [&](int32_t) { return ++calls < 3; }),
            FinishReason::kCancelled);
  EXPECT_EQ(calls, 3);
  calls = 0;
  GenerateOptions options = kRandom;
  options.max_tokens = 4;
  const auto count = [&](int32_t) { return ++calls > 0; };
  EXPECT_EQ(generator.Generate(Tokens{1}, options, 0, count), FinishReason::kLength);
  EXPECT_EQ(calls, 4);
  options.max_tokens = 0;
  EXPECT_EQ(generator.Generate(Tokens{1}, options, 0, count), FinishReason::kLength);
  EXPECT_EQ(calls, 4);
}

TEST_P(Generating, CountsWhatTheModelSaw) {
  Generator generator(*backend_, *weights_);
  GenerateOptions options = kGreedy;
  options.max_tokens = 7;  // the last of them is chosen and not read
  Generate(generator, {3, 1, 4}, options);
  EXPECT_EQ(generator.stats().prompt_tokens, 3);
  EXPECT_EQ(generator.stats().tokens, 6);
  EXPECT_FALSE(generator.stats().slid);
  options.max_tokens = 8;
  Generate(generator, {3, 1, 4}, options);
  EXPECT_TRUE(generator.stats().slid);
  Generate(generator, RandomTokens(30, config_.vocab_size, 3), options);
  EXPECT_EQ(generator.stats().prompt_tokens, 9);
}

TEST_P(Generating, RefusesAnEmptyPrompt) {
  EXPECT_DEATH(Generate({}, kGreedy), "at least one token");
}

INSTANTIATE_TEST_SUITE_P(Models, Generating, testing::Values("gpt2", "post", "sinusoidal"));

}  // namespace
}  // namespace folio
