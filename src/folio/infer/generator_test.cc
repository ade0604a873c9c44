#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "folio/infer/decode_batch.h"
#include "folio/infer/test_plain_model.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

class Generating : public testing::TestWithParam<std::string> {
 protected:
  Generating() {
    config_.n_positions = 9;
    config_.n_embd = 24;
    config_.vocab_size = 37;
    config_.position_embedding =
        GetParam() == "sinusoidal" ? PositionKind::kSinusoidal : PositionKind::kLearned;
    config_.norm_position = GetParam() == "post" ? NormPosition::kPost : NormPosition::kPre;
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
  }

  Tokens Generate(const Tokens& prompt, const GenerateOptions& options, uint64_t rng_stream = 0) {
    Generator generator(*backend_, *weights_);
    return Generate(generator, prompt, options, rng_stream);
  }
  static Tokens Generate(Generator& generator, const Tokens& prompt, const GenerateOptions& options,
                         uint64_t rng_stream = 0, FinishReason* reason = nullptr) {
    Tokens out;
    const FinishReason why =
        generator.Generate(prompt, options, rng_stream, [&](const NewToken& token) {
          out.push_back(token.id);
          return true;
        });
    if (reason != nullptr) *reason = why;
    return out;
  }

  // The same by the definition, in double: for each new token the window of what the model sees is
  // read from its first position on; the oldest `stride` of a full window are forgotten.
  Tokens Slowly(const Tokens& prompt, const GenerateOptions& options, size_t stride,
                uint64_t rng_stream = 0) {
    Sampler sampler(options.sampling);
    const size_t P = static_cast<size_t>(config_.n_positions);
    const size_t V = static_cast<size_t>(config_.vocab_size);
    Tokens out, window = prompt;
    if (window.size() > P) window.erase(window.begin(), window.end() - ptrdiff_t(P - stride));
    while (static_cast<int64_t>(out.size()) < options.max_tokens) {
      const PlainModel plain(*weights_, window);
      const std::vector<float> logits(plain.logits().end() - ptrdiff_t(V), plain.logits().end());
      out.push_back(sampler.Sample(logits, rng_stream, out.size()));
      if (window.size() == P) window.erase(window.begin(), window.begin() + ptrdiff_t(stride));
      window.push_back(out.back());
    }
    return out;
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
};

const GenerateOptions kGreedy = {.sampling = {.temperature = 0}, .max_tokens = 25};
const GenerateOptions kRandom = {.sampling = {.temperature = 1.3, .seed = 5}, .max_tokens = 25};

// 25 tokens after 3 go far beyond the 9 that the model sees.
TEST_P(Generating, CacheAndSlidingWindowChangeNothing) {
  const Tokens prompt = {3, 1, 4};
  for (const int64_t stride : {1, 2, 4, 7, 8}) {
    GenerateOptions greedy = kGreedy, random = kRandom;
    greedy.stride = random.stride = stride;
    const auto by = static_cast<size_t>(stride);
    EXPECT_EQ(Generate(prompt, greedy), Slowly(prompt, greedy, by)) << stride;
    EXPECT_EQ(Generate(prompt, random, 2), Slowly(prompt, random, by, 2)) << stride;
  }
  EXPECT_EQ(Generate(prompt, kRandom), Slowly(prompt, kRandom, 4)) << "half the context";
}

TEST_P(Generating, OfALongPromptTheEndCountsWhereThatIsAskedFor) {
  GenerateOptions cut = kGreedy;
  cut.truncate = true;
  cut.stride = 3;
  Generator generator(*backend_, *weights_);
  for (const int64_t length : {8, 9, 10, 30}) {
    const Tokens prompt = RandomTokens(length, config_.vocab_size, 3);
    EXPECT_EQ(Generate(generator, prompt, cut), Slowly(prompt, cut, 3)) << length;
    EXPECT_EQ(generator.stats().prompt_tokens, length > 9 ? 6 : length);
    EXPECT_EQ(generator.stats().dropped, length > 9 ? length - 6 : 0);
    if (length > 9) {
      EXPECT_TRUE(Contains(ErrorAndHelp([&] { Generate(prompt, kGreedy); }, ErrorKind::kUsage),
                           std::to_string(length) + " tokens of at most 9",
                           "--truncate uses its last 5 tokens"));
    }
  }
}

TEST_P(Generating, AStrideLeavesAToken) {
  GenerateOptions options = kGreedy;
  for (const int64_t stride : {-1, 0, 9, 10}) {
    options.stride = stride;
    EXPECT_TRUE(Contains(ErrorOf([&] { Generate({1}, options); }, ErrorKind::kUsage),
                         std::to_string(stride) + " is not between 1 and 8"));
  }
}

TEST_P(Generating, AFullContextMayEndTheText) {
  GenerateOptions options = kRandom;
  options.when_full = WhenFull::kStop;
  Generator generator(*backend_, *weights_);
  FinishReason reason;
  const Tokens out = Generate(generator, {3, 1, 4}, options, 0, &reason);
  EXPECT_EQ(reason, FinishReason::kContext);
  EXPECT_EQ(out.size(), 7u) << "what follows 3 to 9 tokens";
  const Tokens whole = Generate({3, 1, 4}, kRandom);
  EXPECT_EQ(out, Tokens(whole.begin(), whole.begin() + 7));
  EXPECT_EQ(generator.stats().slides, 0);
  options.max_tokens = 7;
  Generate(generator, {3, 1, 4}, options, 0, &reason);
  EXPECT_EQ(reason, FinishReason::kLength);
}

TEST_P(Generating, ProbabilitiesAreTheModelsOwn) {
  GenerateOptions options = kRandom;
  options.likeliest = 3;
  options.sampling.banned = {5};
  options.sampling.penalties = {.bias = {{7, 9}}, .presence = 2};
  options.max_tokens = 6;
  Generator generator(*backend_, *weights_);
  Tokens text = {3, 1, 4};
  generator.Generate(Tokens(text), options, 0, [&](const NewToken& token) {
    const PlainModel plain(*weights_, text);
    const std::vector<double> logits(plain.logits().end() - config_.vocab_size,
                                     plain.logits().end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    const ModelProbabilities& found = token.probabilities;
    EXPECT_NEAR(found.log_probability, logits[size_t(token.id)] - std::log(sum), 1e-4);
    EXPECT_EQ(found.likeliest.size(), 3u);
    EXPECT_NEAR(found.likeliest[0].log_probability,
                *std::ranges::max_element(logits) - std::log(sum), 1e-4);
    text.push_back(token.id);
    return true;
  });
  EXPECT_EQ(text.size(), 9u);
}

TEST_P(Generating, PenaltiesSeePromptAndText) {
  GenerateOptions options = kGreedy;
  options.sampling.penalties.no_repeat_ngram = 1;
  const Tokens prompt = {3, 1, 4};
  Tokens out = Generate(prompt, options);
  EXPECT_EQ(out.size(), 25u);
  out.insert(out.end(), prompt.begin(), prompt.end());
  std::ranges::sort(out);
  EXPECT_EQ(std::ranges::adjacent_find(out), out.end()) << "no token comes twice";
}

TEST_P(Generating, NoEndBeforeTheLeastLength) {
  GenerateOptions options = kGreedy;
  const Tokens whole = Generate({3, 1, 4}, options);
  options.stop_tokens = {whole[0]};
  EXPECT_TRUE(Generate({3, 1, 4}, options).empty());
  options.sampling.penalties.min_tokens = 5;
  const Tokens longer = Generate({3, 1, 4}, options);
  EXPECT_GE(longer.size(), 5u);
  EXPECT_EQ(std::ranges::find(longer, whole[0]), longer.end());
}

TEST_P(Generating, AGeneratorForgetsItsLastText) {
  Generator generator(*backend_, *weights_);
  const Tokens first = Generate(generator, {3, 1, 4}, kRandom);
  Generate(generator, RandomTokens(9, config_.vocab_size, 3), kGreedy);
  EXPECT_EQ(Generate(generator, {3, 1, 4}, kRandom), first);
}

TEST_P(Generating, TextsOfOneSeedDoNotDependOnTheirOrder) {
  GenerateOptions options = kRandom;
  options.sampling.typical = 0.9;
  options.sampling.penalties = {.repetition = 1.2, .frequency = 0.3, .no_repeat_ngram = 2};
  Generator generator(*backend_, *weights_);
  std::vector<Tokens> texts;
  for (uint64_t i = 0; i < 4; ++i) texts.push_back(Generate(generator, {5, 6}, options, i));
  for (const uint64_t i : {2u, 0u, 3u, 1u}) {
    EXPECT_EQ(Generate(generator, {5, 6}, options, i), texts[i]) << i;
    for (uint64_t other = 0; other < i; ++other) EXPECT_NE(texts[i], texts[other]);
  }
  EXPECT_EQ(Generate({5}, kGreedy, 0), Generate({5}, kGreedy, 1));
}

TEST_P(Generating, AStopTokenEndsTheTextAndIsNotGivenOut) {
  const Tokens whole = Generate({3, 1, 4}, kRandom);
  const int32_t stop = whole[6];
  const auto first = std::find(whole.begin(), whole.end(), stop);
  GenerateOptions options = kRandom;
  options.stop_tokens = {stop};
  Generator generator(*backend_, *weights_);
  FinishReason reason;
  const Tokens out = Generate(generator, {3, 1, 4}, options, 0, &reason);
  EXPECT_EQ(reason, FinishReason::kStop);
  EXPECT_EQ(out, Tokens(whole.begin(), first));
}

TEST_P(Generating, EndsWhenAsked) {
  Generator generator(*backend_, *weights_);
  int calls = 0;
  EXPECT_EQ(generator.Generate(Tokens{1}, kRandom, 0, [&](const NewToken&) { return ++calls < 3; }),
            FinishReason::kCancelled);
  EXPECT_EQ(calls, 3);
  calls = 0;
  GenerateOptions options = kRandom;
  options.max_tokens = 4;
  const auto count = [&](const NewToken&) { return ++calls > 0; };
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
  EXPECT_EQ(generator.stats().slides, 0);
  options.max_tokens = 8;
  Generate(generator, {3, 1, 4}, options);
  EXPECT_EQ(generator.stats().slides, 1);
  EXPECT_EQ(generator.stats().reread, 5);
  options.max_tokens = 12;  // 4 later it is full again
  Generate(generator, {3, 1, 4}, options);
  EXPECT_EQ(generator.stats().slides, 2);
  EXPECT_EQ(generator.stats().tokens, 11);
}

TEST_P(Generating, RefusesIdsOptionsAndStringsThatItCannotTakeAndGoesOn) {
  const auto refused = [&](const Tokens& prompt, const GenerateOptions& options) {
    return ErrorOf([&] { Generate(prompt, options); }, ErrorKind::kUsage);
  };
  const Tokens before = Generate({1}, kGreedy);
  EXPECT_TRUE(Contains(refused({}, kGreedy), "the prompt has no tokens"));
  EXPECT_TRUE(Contains(refused({0, -1}, kGreedy), "the prompt: the model has no token -1"));
  EXPECT_TRUE(Contains(refused({1 << 20}, kGreedy), "no token 1048576"));
  EXPECT_TRUE(
      Contains(refused({1}, {.stop_strings = {"."}}), "stop strings need text, not tokens"));
  EXPECT_TRUE(Contains(refused({1}, {.max_tokens = -1}), "max_tokens -1"));
  EXPECT_TRUE(Contains(refused({1}, {.likeliest = -1}), "likeliest -1"));
  const std::pair<SamplingOptions, const char*> wrong[] = {
      {{.temperature = -1}, "temperature: -1"},
      {{.temperature = NAN}, "temperature: nan"},
      {{.top_k = -1}, "top_k: -1"},
      {{.top_p = 0}, "top_p: 0"},
      {{.min_p = 2}, "min_p: 2"},
      {{.typical = -1}, "typical: -1"},
      {{.penalties = {.bias = {{1, NAN}}}}, "logit bias: nan"},
      {{.penalties = {.repetition = 0}}, "repetition: 0"},
      {{.penalties = {.no_repeat_ngram = -1}}, "no_repeat_ngram: -1"},
      {{.penalties = {.min_tokens = -1}}, "min_tokens: -1"}};
  for (const auto& [sampling, what] : wrong) {
    EXPECT_TRUE(Contains(refused({1}, {.sampling = sampling}), what));
  }
  EXPECT_EQ(Generate({1}, kGreedy), before);
}

INSTANTIATE_TEST_SUITE_P(Models, Generating, testing::Values("gpt2", "post", "sinusoidal"));

}  // namespace
}  // namespace folio
