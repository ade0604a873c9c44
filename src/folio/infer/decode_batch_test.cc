#include "folio/infer/decode_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <random>

#include "folio/base/thread_pool.h"
#include "folio/infer/speculation.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

// Returns how many texts ran at once.
int64_t RunToEnd(DecodeBatch& batch) {
  int64_t most = 0, steps = 0;
  for (; batch.Step() && steps < 100'000; ++steps) most = std::max(most, batch.running());
  EXPECT_LT(steps, 100'000) << "it goes on forever";
  return most;
}

// A model with pages of 128 tokens, three to a context.
class Batching : public testing::TestWithParam<std::string> {
 protected:
  Batching() {
    config_.n_positions = 330;
    config_.n_embd = 64;
    config_.n_head = 2;
    config_.vocab_size = 37;
    MakeModel();
  }

  void MakeModel() {
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
    const std::map<std::string, MatrixDtype> dtypes = {{"fp32", {}},
                                                       {"bf16", {Dtype::kBF16, false}},
                                                       {"int8", {Dtype::kQ8_0, false}},
                                                       {"int4", {Dtype::kQ4_0, false}},
                                                       {"bf16_cache", {Dtype::kBF16, false}}};
    model_ = MapWeights(AsStored(*weights_), dtypes.at(GetParam()));
    if (GetParam() == "bf16_cache") cache_ = Dtype::kBF16;
  }

  // Texts of many kinds: short and long, beyond the context, alike and not.
  std::vector<TextRequest> Requests() const {
    std::vector<TextRequest> requests;
    const Tokens common = RandomTokens(290, config_.vocab_size, 7);
    const int64_t lengths[] = {1, 3, 31, 32, 33, 127, 128, 129, 200, 257, 290, 290, 140, 12, 320};
    for (const int64_t length : lengths) {
      const auto i = static_cast<int64_t>(requests.size());
      TextRequest request;
      request.prompt = i % 3 == 1 || length > 290
                           ? RandomTokens(length, config_.vocab_size, static_cast<uint64_t>(i))
                           : Tokens(common.begin(), common.begin() + length);
      request.options.max_tokens = 5 + 7 * (i % 4);
      request.options.sampling = {.temperature = i % 2 == 0 ? 0 : 1.2,
                                  .top_k = i % 5,
                                  .seed = 11,
                                  .penalties = {.repetition = i % 4 == 3 ? 1.3 : 1}};
      request.rng_stream = static_cast<uint64_t>(i);
      requests.push_back(request);
    }
    return requests;
  }

  // With `probabilities` the bits of its log-probability follow each token.
  static std::function<bool(const NewToken&)> IntoText(Tokens& text, bool probabilities) {
    return [&text, probabilities](const NewToken& token) {
      text.push_back(token.id);
      const auto log = static_cast<float>(token.probabilities.log_probability);
      if (probabilities) text.push_back(std::bit_cast<int32_t>(log));
      return true;
    };
  }

  // Returns the tokens of each text, with so many at once.
  std::vector<Tokens> Write(std::vector<TextRequest> requests, DecodeBatchOptions options) {
    std::vector<Tokens> texts(requests.size());
    options.cache = cache_;
    DecodeBatch batch(*backend_, *model_, options);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].on_token = IntoText(texts[i], requests[i].options.likeliest.has_value());
      batch.Add(std::move(requests[i]));
    }
    most_ = std::max(most_, RunToEnd(batch));
    return texts;
  }

  // The same where texts are parked and resumed now and then.
  std::vector<Tokens> WriteAndPark(std::vector<TextRequest> requests, DecodeBatchOptions options) {
    std::vector<Tokens> texts(requests.size());
    std::vector<bool> parked(requests.size());
    options.cache = cache_;
    DecodeBatch batch(*backend_, *model_, options);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].on_token = IntoText(texts[i], requests[i].options.likeliest.has_value());
      EXPECT_EQ(batch.Add(std::move(requests[i])), i);
    }
    std::minstd_rand random(3);
    for (int64_t step = 0;; ++step) {
      const bool any = batch.Step();
      if (!any && std::ranges::count(parked, true) == 0) return texts;
      if (step > 100'000) {
        ADD_FAILURE() << "it goes on forever";
        return texts;
      }
      for (size_t i = 0; i < parked.size(); ++i) {
        if (parked[i] ? any && random() % 7 != 0 : !any || random() % 9 != 0) continue;
        parked[i] = !parked[i];
        parked[i] ? batch.Park(i) : batch.Resume(i);
        parks_ += parked[i] ? 1 : 0;
      }
    }
  }

  std::vector<Tokens> Alone(const std::vector<TextRequest>& requests) {
    std::vector<Tokens> texts;
    for (const TextRequest& request : requests) texts.push_back(Write({request}, {})[0]);
    return texts;
  }

  const KeptThreads threads_;
  GptConfig config_ = TinyConfig();
  std::unique_ptr<GptWeights> weights_, model_;
  std::optional<Dtype> cache_;
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  int64_t most_ = 0;   // texts that ran at once
  int64_t parks_ = 0;  // how often one was parked
};

TEST_P(Batching, ATextDoesNotDependOnWhoIsBesideIt) {
  const std::vector<TextRequest> requests = Requests();
  const std::vector<Tokens> alone = Alone(requests);
  for (const int64_t texts : {1, 2, 5, 40}) {
    EXPECT_EQ(Write(requests, {.texts = texts}), alone) << texts;
  }
  EXPECT_EQ(most_, std::ssize(requests));
  SetThreads(1);
  EXPECT_EQ(Write(requests, {.texts = 40}), alone);
}

TEST_P(Batching, ATextDoesNotDependOnHowFullTheCacheIs) {
  const std::vector<TextRequest> requests = Requests();
  const std::vector<Tokens> plenty = Write(requests, {.texts = 40});
  for (const int64_t pages : {3, 4, 7, 11}) {
    most_ = 0;
    EXPECT_EQ(Write(requests, {.texts = 40, .pages = pages}), plenty) << pages;
    EXPECT_LE(most_, pages) << "each has a page at least";
  }
}

// Texts leave and come back at any time, while their prompts are read too, with pages for all, and
// with so few that who comes back has to be read anew.
TEST_P(Batching, ATextThatIsParkedBecomesTheSame) {
  for (const bool windows : {false, true}) {
    if (windows) {
      config_.layer_kinds = LayerKindsOf("wf");
      config_.sliding_window = 100;
      MakeModel();
    }
    std::vector<TextRequest> requests = Requests();
    requests[3].options = {.sampling = {.seed = 5}, .max_tokens = 500, .stride = 90};
    for (TextRequest& request : requests) {
      request.options.max_tokens = std::max<int64_t>(request.options.max_tokens, 40);
      request.options.likeliest = 0;
    }
    const std::vector<Tokens> alone = Alone(requests);
    for (const int64_t pages : {100, 9, 3}) {
      SCOPED_TRACE(pages);
      EXPECT_EQ(WriteAndPark(requests, {.texts = 3, .pages = pages}), alone) << windows;
    }
  }
  EXPECT_GT(parks_, 100);
}

TEST_P(Batching, APromptThatIsObservedIsShownOnce) {
  std::vector<TextRequest> requests = Requests();
  std::vector<int64_t> shown(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_norm = [&shown, i](int64_t first, const Tensor& norm) {
      EXPECT_EQ(first, shown[i]);
      shown[i] += norm.dim(0);
    };
  }
  WriteAndPark(requests, {.texts = 3, .pages = 4});
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(shown[i], std::ssize(requests[i].prompt)) << i;
  }
}

TEST_P(Batching, AShortPromptDoesNotWaitForLongOnes) {
  DecodeBatch batch(*backend_, *model_, {.texts = 8, .cache = cache_});
  for (uint64_t i = 0; i < 7; ++i) {
    batch.Add({.prompt = RandomTokens(320, config_.vocab_size, i),
               .on_token = [](const NewToken&) { return true; }});
  }
  bool written = false;
  batch.Add({.prompt = RandomTokens(40, config_.vocab_size, 8),
             .on_token = [&](const NewToken&) { return written = true; }});
  for (int step = 0; step < 2; ++step) batch.Step();
  EXPECT_TRUE(written);
}

TEST_P(Batching, ALongPromptDoesNotWaitForShortOnes) {
  DecodeBatch batch(*backend_, *model_, {.texts = 3, .cache = cache_});
  bool written = false;
  batch.Add({.prompt = RandomTokens(320, config_.vocab_size, 1),
             .on_token = [&](const NewToken&) { return written = true; }});
  for (uint64_t step = 0; step < 6; ++step) {
    batch.Add({.prompt = RandomTokens(40, config_.vocab_size, 2 + step),
               .options = {.max_tokens = 1},
               .on_token = [](const NewToken&) { return true; }});
    batch.Step();
  }
  EXPECT_TRUE(written) << "every other of six steps reads one of its three pages";
}

TEST_P(Batching, TextsThatBeginAlikeShareTheirPages) {
  TextRequest request;
  request.prompt = RandomTokens(300, config_.vocab_size, 3);
  request.options = {.sampling = {.temperature = 0}, .max_tokens = 4};
  std::vector<GenerateStats> stats;
  request.on_end = [&](FinishReason, const GenerateStats& one) { stats.push_back(one); };
  TextRequest shorter = request;
  shorter.prompt.resize(256);  // logits come of a token that is read
  TextRequest other = request;
  other.prompt[130] = (other.prompt[130] + 1) % 37;
  const std::vector<Tokens> texts = Write({request, request, shorter, other}, {});
  EXPECT_EQ(texts[0], texts[1]);
  ASSERT_EQ(stats.size(), 4u);
  EXPECT_EQ(stats[0].shared, 0);
  EXPECT_EQ(stats[1].shared, 256);
  EXPECT_EQ(stats[2].shared, 128);
  EXPECT_EQ(stats[3].shared, 128);
  EXPECT_EQ(Write({other}, {})[0], texts[3]);
}

TEST_P(Batching, EveryTextSlidesByItself) {
  std::vector<TextRequest> requests = Requests();
  for (TextRequest& request : requests) {
    request.options.max_tokens = 60;
    request.options.stride = 20;
  }
  requests.erase(requests.begin(), requests.begin() + 8);
  const std::vector<Tokens> alone = Alone(requests);
  EXPECT_EQ(Write(requests, {.texts = 5}), alone);
}

// Guesses from a list of texts, wrongly now and then.
class Oracle final : public Draft {
 public:
  explicit Oracle(Tokens text) : text_(std::move(text)) {}
  void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) override {
    ids.clear();
    for (size_t at = text.size(); at < text_.size() && std::ssize(ids) < count; ++at) {
      ids.push_back(at % 5 == 3 ? (text_[at] + 1) % 37 : text_[at]);
    }
  }

 private:
  Tokens text_;
};

TEST_P(Batching, GuessesChangeNothingButTheNumberOfPasses) {
  NgramDraft ngrams;
  GptWeights other(config_);
  Scatter(other, 2);
  const std::unique_ptr<GptWeights> small = MapWeights(AsStored(other), {});
  ModelDraft model(*backend_, *small, 37), itself(*backend_, *model_, 37);
  GenerateStats stats;
  int64_t right = 0;
  for (TextRequest request : Requests()) {
    request.options.max_tokens = 70;  // some slide
    request.options.stride = 30;
    if (request.rng_stream % 3 == 2) request.options.stop_tokens = {5};
    if (request.rng_stream == 4) request.options.when_full = WhenFull::kStop;
    const Tokens alone = Write({request}, {})[0];
    Tokens whole = request.prompt;
    whole.insert(whole.end(), alone.begin(), alone.end());
    Oracle oracle(whole);
    request.on_end = [&](FinishReason, const GenerateStats& one) { stats = one; };
    for (Draft* draft : std::initializer_list<Draft*>{&ngrams, &model, &itself, &oracle}) {
      request.draft = draft;
      EXPECT_EQ(Write({request}, {})[0], alone) << request.rng_stream;
      EXPECT_LE(stats.accepted, stats.proposed);
      if (draft == &oracle) right += stats.accepted;
    }
  }
  EXPECT_GT(right, 0);
}

TEST_P(Batching, ADraftRestsWhileOthersAreBeside) {
  std::vector<TextRequest> requests = Requests();
  const std::vector<Tokens> alone = Alone(requests);
  NgramDraft ngrams;
  for (TextRequest& request : requests) request.draft = &ngrams;
  EXPECT_EQ(Write(requests, {.texts = 4}), alone);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Batching,
                         testing::Values("fp32", "bf16", "int8", "int4", "bf16_cache"));

class DecodeBatches : public testing::Test {
 protected:
  DecodeBatches() {
    config_.n_positions = 20;
    Scatter(weights_, 1);
  }
  TextRequest Request(int64_t max_tokens) {
    TextRequest request;
    request.prompt = {1, 2};
    request.options.max_tokens = max_tokens;
    request.on_token = [](const NewToken&) { return true; };
    request.on_end = [&](FinishReason reason, const GenerateStats&) { ends_.push_back(reason); };
    return request;
  }

  GptConfig config_ = TinyConfig();
  GptWeights weights_{config_};
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::vector<FinishReason> ends_;
};

TEST_F(DecodeBatches, TextsJoinAndLeaveBetweenSteps) {
  DecodeBatch batch(*backend_, weights_, {.texts = 2});
  batch.Add(Request(3));
  batch.Add(Request(1));
  batch.Add(Request(2));
  EXPECT_TRUE(batch.Step());
  EXPECT_EQ(batch.running(), 2);
  EXPECT_EQ(batch.waiting(), 1);
  EXPECT_TRUE(batch.Step()) << "the second has ended, the third joins";
  EXPECT_EQ(ends_.size(), 1u);
  RunToEnd(batch);
  EXPECT_EQ(ends_, std::vector(3, FinishReason::kLength));
  EXPECT_FALSE(batch.Step());
}

TEST_F(DecodeBatches, APromptOfSeveralPassesSaysHowFarItIs) {
  config_.n_positions = 300;
  const GptWeights weights(config_);
  DecodeBatch batch(*backend_, weights, {.texts = 1});
  TextRequest request = Request(3);
  request.prompt = RandomTokens(290, config_.vocab_size, 3);
  Tokens told;
  request.on_read = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 290);
    told.push_back(static_cast<int32_t>(done));
  };
  batch.Add(std::move(request));
  RunToEnd(batch);
  EXPECT_EQ(told, (Tokens{128, 256, 290}));
}

TEST_F(DecodeBatches, ATextMayAskForAnother) {
  DecodeBatch batch(*backend_, weights_, {.texts = 1});
  TextRequest first = Request(1);
  first.on_end = [&](FinishReason, const GenerateStats&) { batch.Add(Request(2)); };
  batch.Add(std::move(first));
  RunToEnd(batch);
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(DecodeBatches, ATextCanBeCancelledWhereverItIs) {
  DecodeBatch batch(*backend_, weights_, {.texts = 1});
  const DecodeBatch::Id running = batch.Add(Request(9)), waiting = batch.Add(Request(9));
  batch.Step();
  batch.Cancel(waiting);
  EXPECT_EQ(batch.waiting(), 0);
  batch.Cancel(running);
  batch.Cancel(running);
  EXPECT_EQ(ends_, std::vector(2, FinishReason::kCancelled));
  EXPECT_FALSE(batch.Step());
  int calls = 0;
  TextRequest other = Request(9);
  DecodeBatch::Id id = 0;
  other.on_token = [&](const NewToken&) {
    batch.Cancel(id);
    return ++calls < 9;
  };
  id = batch.Add(std::move(other));
  RunToEnd(batch);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ends_.size(), 3u);
}

TEST_F(DecodeBatches, ATextThatCancelsItselfHearsOfNoMoreGuesses) {
  const auto write = [&](Draft* draft, size_t most) {
    DecodeBatch batch(*backend_, weights_, {.texts = 1});
    TextRequest request = Request(12);
    DecodeBatch::Id id = 0;
    Tokens text;
    request.draft = draft;
    request.on_token = [&](const NewToken& token) {
      text.push_back(token.id);
      if (text.size() == most) batch.Cancel(id);
      return true;
    };
    id = batch.Add(std::move(request));
    RunToEnd(batch);
    return text;
  };
  const Tokens alone = write(nullptr, 99);
  ASSERT_EQ(alone.size(), 12u);
  Tokens whole = Request(12).prompt;
  whole.insert(whole.end(), alone.begin(), alone.end());
  Oracle oracle(whole);
  for (size_t most = 1; most < 12; ++most) {
    EXPECT_EQ(write(&oracle, most),
              Tokens(alone.begin(), alone.begin() + static_cast<ptrdiff_t>(most)));
  }
  EXPECT_EQ(std::ranges::count(ends_, FinishReason::kCancelled), 11);
}

// The cancelled text is in a later pass of the same step.
TEST_F(DecodeBatches, ATextMayCancelAnother) {
  config_.n_positions = 60;
  const GptWeights weights(config_);
  DecodeBatch batch(*backend_, weights, {.texts = 40});
  std::vector<DecodeBatch::Id> ids;
  std::vector<int> written(40);
  for (int& count : written) {
    TextRequest request = Request(40);
    request.on_token = [&](const NewToken&) {
      if (++count == 36) batch.Cancel(ids.back());
      return true;
    };
    ids.push_back(batch.Add(std::move(request)));
  }
  RunToEnd(batch);
  EXPECT_EQ(written.back(), 35);
  EXPECT_EQ(std::ranges::count(ends_, FinishReason::kCancelled), 1);
  EXPECT_EQ(std::ranges::count(ends_, FinishReason::kLength), 39);
}

TEST_F(DecodeBatches, ATextThatCanNeverFitIsRefused) {
  config_.n_positions = 300;
  const GptWeights weights(config_);
  DecodeBatch batch(*backend_, weights, {.texts = 4, .pages = 2});
  TextRequest request = Request(255);
  EXPECT_TRUE(Contains(ErrorOf([&] { batch.Add(request); }, ErrorKind::kUsage),
                       "the text needs 384 tokens in the KV cache, which has room for 256"));
  request.options.max_tokens = 254;
  batch.Add(request);
}

TEST_F(DecodeBatches, ASamplerThatFindsNothingIsHeard) {
  DecodeBatch batch(*backend_, weights_, {.texts = 2});
  TextRequest request = Request(3);
  for (int32_t id = 0; id < config_.vocab_size; ++id) request.options.sampling.banned.push_back(id);
  batch.Add(Request(3));
  batch.Add(request);
  EXPECT_TRUE(
      Contains(ErrorOf([&] { batch.Step(); }, ErrorKind::kUsage), "no token is allowed next"));
}

}  // namespace
}  // namespace folio
