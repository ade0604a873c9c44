#include "folio/infer/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "folio/backend/decorated_backends.h"
#include "folio/base/thread_pool.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

const std::vector<double> kPenalties = {0, 1, 2, -1.5};

std::vector<bool> Only(int64_t V, const Tokens& ids) {
  std::vector<bool> usable(static_cast<size_t>(V), false);
  for (const int32_t id : ids) usable[static_cast<size_t>(id)] = true;
  return usable;
}

class BeamSearching : public testing::Test {
 protected:
  void Make(uint64_t seed, int64_t P = 9) {
    config_ = TinyConfig();
    config_.n_positions = P;
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, seed);
    rows_.clear();
  }

  std::vector<BeamText> Search(const Tokens& prompt, const BeamSearchOptions& options) {
    const int64_t pages = BeamSearchPages(config_, std::ssize(prompt), options);
    Decoder decoder(*backend_, *weights_, {.pages = pages});
    return BeamSearch(decoder, prompt, options);
  }

  // Returns ln p of each token that may follow a text, computed anew from the whole text: -infinity
  // for those that may not be chosen.
  std::vector<double> LogProbabilities(const Tokens& text, const BeamSearchOptions& options) {
    const int64_t T = std::ssize(text), V = config_.vocab_size;
    std::vector<float>& row = rows_[text];
    if (row.empty()) {
      GptPass pass(*backend_, config_, 1, T, PassKind::kForward);
      pass.Forward(weights_->params(), text);
      row.resize(static_cast<size_t>(V));
      pass.Logits(weights_->params(), T - 1, T, Tensor(row.data(), Dtype::kF32, {1, V}));
    }
    double sum = 0;
    for (const float logit : row) sum += std::exp(double(logit));
    std::vector<double> out(row.begin(), row.end());
    for (size_t v = 0; v < out.size(); ++v) {
      out[v] -= std::log(sum);
      const bool usable = v < options.usable.size() && options.usable[v];
      if (!options.usable.empty() && !usable) out[v] = -INFINITY;
    }
    return out;
  }

  static bool Stops(int32_t id, const BeamSearchOptions& options) {
    return std::ranges::find(options.stop_tokens, id) != options.stop_tokens.end();
  }

  int64_t Longest(const Tokens& prompt, const BeamSearchOptions& options) const {
    return std::min(options.max_tokens, config_.n_positions - std::ssize(prompt) + 1);
  }

  static double Score(double sum, int64_t tokens, const BeamSearchOptions& options) {
    return sum / std::pow(double(tokens), options.length_penalty);
  }

  static std::vector<BeamText> Best(std::vector<BeamText> texts, const BeamSearchOptions& options) {
    std::ranges::stable_sort(texts, std::greater{}, &BeamText::score);
    texts.resize(std::min(texts.size(), size_t(options.n)));
    return texts;
  }

  static Tokens Joined(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // Every text that there is.
  void All(const Tokens& prompt, const BeamSearchOptions& options, const BeamText& begun,
           std::vector<BeamText>& found) {
    const std::vector<double> log_probabilities =
        LogProbabilities(Joined(prompt, begun.ids), options);
    for (int32_t id = 0; id < config_.vocab_size; ++id) {
      const double log_probability = log_probabilities[size_t(id)];
      if (!std::isfinite(log_probability)) continue;
      BeamText next = begun;
      next.log_probability += log_probability;
      next.finished = Stops(id, options);
      const int64_t tokens = std::ssize(begun.ids) + 1;
      next.score = Score(next.log_probability, tokens, options);
      if (!next.finished) next.ids.push_back(id);
      if (next.finished || tokens == Longest(prompt, options)) {
        found.push_back(next);
      } else {
        All(prompt, options, next, found);
      }
    }
  }

  // Beam search as its definition reads, to the longest texts. Also counts the steps after which
  // it was sure that nothing better would come.
  std::vector<BeamText> Plainly(const Tokens& prompt, const BeamSearchOptions& options,
                                int64_t* steps = nullptr) {
    const int64_t longest = Longest(prompt, options);
    std::vector<BeamText> running(1), ended;
    int64_t sure = 0;
    for (int64_t tokens = 1; tokens <= longest && !running.empty(); ++tokens) {
      std::vector<BeamText> next;
      for (const BeamText& beam : running) {
        const std::vector<double> rows = LogProbabilities(Joined(prompt, beam.ids), options);
        for (int32_t id = 0; id < config_.vocab_size; ++id) {
          BeamText text = beam;
          text.log_probability += rows[size_t(id)];
          text.score = Score(text.log_probability, tokens, options);
          text.finished = Stops(id, options);
          if (!text.finished) text.ids.push_back(id);
          if (std::isfinite(text.log_probability)) next.push_back(text);
        }
      }
      std::ranges::stable_sort(next, std::greater{}, &BeamText::log_probability);
      running.clear();
      for (size_t i = 0; i < next.size(); ++i) {
        if (next[i].finished && i < size_t(options.beams)) ended.push_back(next[i]);
        if (!next[i].finished && running.size() < size_t(options.beams)) running.push_back(next[i]);
      }
      if (options.beams == 1 && !ended.empty()) running.clear();
      if (tokens == longest) ended.insert(ended.end(), running.begin(), running.end());
      if (sure > 0) continue;
      double most = -INFINITY;
      for (const BeamText& beam : running) {
        for (int64_t length = tokens + 1; length <= longest; ++length) {
          most = std::max(most, Score(beam.log_probability, length, options));
        }
      }
      const std::vector<BeamText> best = Best(ended, options);
      if (tokens == longest || running.empty() ||
          (best.size() == size_t(options.n) && most <= best.back().score)) {
        sure = tokens;
      }
    }
    if (steps != nullptr) *steps = sure;
    return Best(ended, options);
  }

  static void ExpectTexts(const std::vector<BeamText>& found,
                          const std::vector<BeamText>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, expected[i].ids) << i;
      EXPECT_EQ(found[i].finished, expected[i].finished) << i;
      EXPECT_NEAR(found[i].score, expected[i].score, 1e-4 * std::abs(expected[i].score)) << i;
      EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 1e-4) << i;
    }
  }

  const KeptThreads threads_;
  GptConfig config_;
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
  std::map<Tokens, std::vector<float>> rows_;  // the logits behind each text that was asked for
};

TEST_F(BeamSearching, EnoughBeamsFindTheBestOfAllTexts) {
  struct Space {
    Tokens usable;
    Tokens stops;
    int64_t tokens, beams;  // as many as there are continuations in any step but the last
  };
  const std::vector<Space> spaces = {{{1, 6, 8}, {8}, 5, 24},
                                     {{0, 2, 5, 9}, {0}, 3, 12},
                                     {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {4}, 2, 11},
                                     {{3, 7}, {}, 5, 32}};
  int finished = 0, texts = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    Make(seed);
    for (const Space& space : spaces) {
      for (const double penalty : kPenalties) {
        for (const int64_t n : {int64_t{1}, int64_t{3}, space.beams}) {
          SCOPED_TRACE(testing::Message() << seed << " " << penalty << " " << n);
          const BeamSearchOptions options = {.beams = space.beams,
                                             .length_penalty = penalty,
                                             .max_tokens = space.tokens,
                                             .stop_tokens = space.stops,
                                             .usable = Only(config_.vocab_size, space.usable),
                                             .n = n};
          std::vector<BeamText> all;
          All({3, 1, 4}, options, {}, all);
          const std::vector<BeamText> found = Search({3, 1, 4}, options);
          ExpectTexts(found, Best(all, options));
          finished += found[0].finished;
          ++texts;
        }
      }
    }
  }
  EXPECT_GT(finished, texts / 8);
  EXPECT_LT(finished, texts * 7 / 8);
}

TEST_F(BeamSearching, FewBeamsFindWhatTheDefinitionFinds) {
  for (const uint64_t seed : {4, 5, 6}) {
    Make(seed);
    for (const double penalty : kPenalties) {
      for (const int64_t beams : {1, 2, 3, 5, 8}) {
        for (const Tokens& stops : {Tokens{}, Tokens{2}, Tokens{0, 5, 7}}) {
          BeamSearchOptions options = {.beams = beams,
                                       .length_penalty = penalty,
                                       .max_tokens = 20,  // the context ends before
                                       .stop_tokens = stops};
          for (options.n = 1; options.n <= beams; options.n += 2) {
            SCOPED_TRACE(testing::Message() << seed << " " << penalty << " " << beams << " "
                                            << stops.size() << " " << options.n);
            ExpectTexts(Search({3, 1}, options), Plainly({3, 1}, options));
          }
        }
      }
    }
  }
}

// The definition goes on to the longest texts; the search must stop as soon as they cannot matter,
// and not before.
TEST_F(BeamSearching, EndsAsSoonAsNothingBetterCanCome) {
  int64_t early = 0;
  for (const uint64_t seed : {4, 5, 6, 7, 8, 9}) {
    Make(seed);
    for (float& x : Elements<float>(weights_->params().wte)) x *= 2;  // some are likely indeed
    for (const double penalty : kPenalties) {
      for (const int64_t n : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << seed << " " << penalty << " " << n);
        const BeamSearchOptions options = {.beams = 4,
                                           .length_penalty = penalty,
                                           .max_tokens = 7,
                                           .stop_tokens = {0, 2, 5},
                                           .n = n};
        int64_t steps = 0;
        ExpectTexts(Search({3, 1}, options), Plainly({3, 1}, options, &steps));
        TimedBackend timed(MakeBackend("cpu"));
        Decoder decoder(timed, *weights_, {.pages = BeamSearchPages(config_, 2, options)});
        timed.Reset();
        BeamSearch(decoder, Tokens{3, 1}, options);
        const std::vector<OpTime> times = timed.Times();
        const auto embedding = std::ranges::find(times, "embedding_forward", &OpTime::name);
        ASSERT_NE(embedding, times.end());
        EXPECT_EQ(embedding->calls, steps);
        early += steps < 7;
      }
    }
  }
  EXPECT_GT(early, 10);
}

TEST_F(BeamSearching, OneBeamIsGreedySearch) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    Make(seed);
    for (const Tokens& stops : {Tokens{}, Tokens{2, 5}}) {
      BeamSearchOptions options = {.beams = 1, .max_tokens = 6, .stop_tokens = stops};
      BeamText expected;
      while (std::ssize(expected.ids) < 6) {
        const std::vector<double> next = LogProbabilities(Joined({7, 7}, expected.ids), options);
        const auto likeliest = std::ranges::max_element(next);
        const auto id = static_cast<int32_t>(likeliest - next.begin());
        expected.log_probability += *likeliest;
        expected.finished = Stops(id, options);
        if (expected.finished) break;
        expected.ids.push_back(id);
      }
      for (const double penalty : kPenalties) {
        options.length_penalty = penalty;
        expected.score =
            Score(expected.log_probability, std::ssize(expected.ids) + expected.finished, options);
        ExpectTexts(Search({7, 7}, options), {expected});
      }
    }
  }
}

// Pages of 128 tokens: beams part before, at and behind the border of the first and second.
TEST_F(BeamSearching, BeamsPartAcrossBordersOfPages) {
  Make(3, 270);
  for (const int64_t length : {125, 127, 128, 129, 254, 256, 266}) {
    const Tokens prompt = RandomTokens(length, config_.vocab_size, 5);
    for (const Tokens& stops : {Tokens{}, Tokens{2}}) {
      SCOPED_TRACE(testing::Message() << length << " " << stops.size());
      const BeamSearchOptions options = {.beams = 5, .max_tokens = 7, .stop_tokens = stops, .n = 5};
      ExpectTexts(Search(prompt, options), Plainly(prompt, options));
    }
  }
}

TEST_F(BeamSearching, ChoosesUsableTokensOnly) {
  Make(1);
  const BeamSearchOptions options = {.beams = 6,
                                     .max_tokens = 5,
                                     .stop_tokens = {0, 6},
                                     .usable = Only(10, {2, 6, 9}),  // no id behind
                                     .n = 6};
  const std::vector<BeamText> texts = Search({3}, options);
  ExpectTexts(texts, Plainly({3}, options));
  for (const BeamText& text : texts) {
    for (const int32_t id : text.ids) EXPECT_TRUE(id == 2 || id == 9) << id;
  }
}

TEST_F(BeamSearching, GivesWhatThereIs) {
  Make(1);
  BeamSearchOptions options = {.beams = 4,
                               .max_tokens = 1,
                               .stop_tokens = {6},
                               .usable = Only(config_.vocab_size, {2, 6, 9}),
                               .n = 4};
  EXPECT_EQ(Search({3}, options).size(), 3u);
  options.max_tokens = 0;
  ExpectTexts(Search({3}, options), {{}});
  options.max_tokens = 9;
  options.usable = Only(config_.vocab_size, {6});
  const std::vector<BeamText> texts = Search({3}, options);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].finished && texts[0].ids.empty());
  options.usable = Only(config_.vocab_size, {});
  EXPECT_TRUE(Contains(ErrorOf([&] { Search({3}, options); }, ErrorKind::kUsage),
                       "no token is allowed next"));
}

// All rows of the model are the same token's, so that every token is as likely as any other.
TEST_F(BeamSearching, OfEqualsTheEarlierBeamAndTheLowerToken) {
  Make(1);
  const std::span<float> wte = Elements<float>(weights_->params().wte);
  for (size_t i = 0; i < wte.size(); ++i) wte[i] = wte[i % size_t(config_.n_embd)];
  const std::vector<BeamText> texts = Search({3}, {.beams = 4, .max_tokens = 2, .n = 4});
  ASSERT_EQ(texts.size(), 4u);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(texts[size_t(i)].ids, (Tokens{0, i}));
}

TEST_F(BeamSearching, DependsNeitherOnThreadsNorOnTheCache) {
  Make(2, 140);
  const Tokens prompt = RandomTokens(131, config_.vocab_size, 7);
  const BeamSearchOptions options = {.beams = 7, .max_tokens = 9, .stop_tokens = {5}, .n = 7};
  SetThreads(1);
  const std::vector<BeamText> once = Search(prompt, options);
  for (const int threads : {2, 5}) {
    SetThreads(threads);
    Decoder decoder(*backend_, *weights_, {.pages = BeamSearchPages(config_, 131, options) + 2});
    CachedSequence other(decoder.cache());
    decoder.Append(other, std::span(prompt).first(130));
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::vector<BeamText> again = BeamSearch(decoder, prompt, options);
      ASSERT_EQ(again.size(), once.size());
      for (size_t i = 0; i < again.size(); ++i) {
        EXPECT_EQ(again[i].ids, once[i].ids);
        EXPECT_EQ(again[i].score, once[i].score) << "bit for bit";
      }
      EXPECT_EQ(decoder.cache().free_pages(), decoder.cache().pages() - 2) << "all given back";
    }
  }
}

TEST_F(BeamSearching, PagesThatThePromptFillsCountOnce) {
  Make(1, 1024);
  EXPECT_EQ(BeamSearchPages(config_, 256, {.beams = 4, .max_tokens = 128}), 2 + 4);
  EXPECT_EQ(BeamSearchPages(config_, 256, {.beams = 4, .max_tokens = 130}), 2 + 4 * 2);
  EXPECT_EQ(BeamSearchPages(config_, 257, {.beams = 4, .max_tokens = 1}), 2 + 4);
  EXPECT_EQ(BeamSearchPages(config_, 128, {.beams = 4, .max_tokens = 0}), 1);
  EXPECT_EQ(BeamSearchPages(config_, 1, {.beams = 32, .max_tokens = 5000}), 32 * 8);
  const BeamSearchOptions options = {.beams = 4, .max_tokens = 200};
  Decoder decoder(*backend_, *weights_, {.pages = BeamSearchPages(config_, 130, options) - 1});
  EXPECT_DEATH(BeamSearch(decoder, RandomTokens(130, config_.vocab_size, 1), options),
               "too few pages");
}

TEST_F(BeamSearching, RefusesWhatItCannotDo) {
  Make(1);
  const auto refused = [&](const BeamSearchOptions& options, const Tokens& prompt = {1}) {
    return ErrorOf([&] { Search(prompt, options); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refused({.beams = 0}), "beams: 0 is not between 1 and 32"));
  EXPECT_TRUE(Contains(refused({.beams = 33}), "beams: 33 is not between 1 and 32"));
  EXPECT_TRUE(
      Contains(refused({.beams = 3, .n = 4}), "beam search: 4 texts is not between 1 and 3"));
  EXPECT_TRUE(Contains(refused({.n = 0}), "beam search: 0 texts is not between 1 and"));
  EXPECT_TRUE(Contains(refused({.length_penalty = NAN}), "length penalty: nan"));
  EXPECT_TRUE(Contains(refused({.max_tokens = -1}), "beam search: negative number of tokens -1"));
  EXPECT_TRUE(
      Contains(refused({}, Tokens(10, 1)), "longer than the context: 10 tokens of at most"));
  EXPECT_EQ(Search(Tokens(9, 1), {}).at(0).ids.size(), 1u) << "of a full context";
  EXPECT_TRUE(Contains(ErrorOf([&] { Search({}, {}); }, ErrorKind::kUsage), "no tokens"));
  EXPECT_TRUE(Contains(refused({}, {-1}), "no token -1"));
  EXPECT_TRUE(
      Contains(refused({}, {static_cast<int32_t>(config_.vocab_size)}), "the model has no token"));
}

}  // namespace
}  // namespace folio
