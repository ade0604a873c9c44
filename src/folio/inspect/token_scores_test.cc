#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "folio/inspect/probabilities.h"
#include "folio/model/test_models.h"
#include "tests/kit/near.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class TokenScoresTest : public testing::Test {
 protected:
  TokenScoresTest() {
    config_.vocab_size = 13109;  // so that 300 predictions take more than one chunk
    config_.n_positions = 301;
    config_.n_embd = 4;
    config_.n_head = 1;
    config_.n_layer = 1;
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
  }

  std::vector<TokenScore> Scores(const std::vector<int32_t>& ids, int64_t top) {
    return ScoreTokens(*backend_, *weights_, nullptr, {.name = "", .ids = ids}, top).tokens;
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
};

TEST_F(TokenScoresTest, EqualASoftmaxOfThePassesLogits) {
  const int64_t T = 301, V = config_.vocab_size;
  ASSERT_LT(LossChunkRows(T - 1, V), T - 1);
  const std::vector<int32_t> ids = RandomTokens(T, V, 5);
  const std::vector<TokenScore> scores = Scores(ids, 2);
  ASSERT_EQ(scores.size(), 300u);
  GptPass pass(*backend_, config_, 1, T, PassKind::kForward);
  pass.Forward(weights_->params(), ids);
  std::vector<float> logits(static_cast<size_t>(V));
  for (const int64_t t : {0, 1, 208, 255, 256, 257, 299}) {
    pass.Logits(weights_->params(), t, t + 1, Tensor(logits.data(), {1, V}));
    const TokenScore& score = scores[static_cast<size_t>(t)];
    const int32_t id = ids[static_cast<size_t>(t + 1)];
    double sum = 0, entropy = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (const float logit : logits) {
      const double p = std::exp(static_cast<double>(logit)) / sum;
      entropy -= p * std::log(p);
    }
    const double p = std::exp(static_cast<double>(logits[static_cast<size_t>(id)])) / sum;
    EXPECT_EQ(score.id, id);
    EXPECT_NEAR(score.probability, p, 1e-5 * p) << t;
    EXPECT_NEAR(score.surprise, -std::log(p), kFloat32Chain);
    EXPECT_NEAR(score.entropy, entropy, kFloat32Chain);
    ASSERT_EQ(score.top.size(), 2u);
    EXPECT_EQ(score.top[0].id, std::max_element(logits.begin(), logits.end()) - logits.begin());
    EXPECT_GE(score.top[0].probability, score.top[1].probability);
  }
}

TEST_F(TokenScoresTest, RankIsThePlaceInTheList) {
  const std::vector<int32_t> ids = RandomTokens(6, config_.vocab_size, 5);
  for (const TokenScore& score : Scores(ids, config_.vocab_size)) {
    ASSERT_EQ(score.top.size(), static_cast<size_t>(config_.vocab_size));
    EXPECT_EQ(score.top[static_cast<size_t>(score.rank)].id, score.id);
    EXPECT_EQ(score.top[static_cast<size_t>(score.rank)].probability, score.probability);
    double sum = 0;
    for (const TokenProbability& token : score.top) sum += token.probability;
    EXPECT_NEAR(sum, 1, kFloat64Chain);
  }
}

TEST_F(TokenScoresTest, DoNotDependOnThreads) {
  const std::vector<int32_t> ids = RandomTokens(33, config_.vocab_size, 5);
  ExpectSameOnThreads([&] {
    std::vector<double> seen;
    for (const TokenScore& score : Scores(ids, 1)) {
      seen.insert(seen.end(), {score.surprise, score.entropy, score.top[0].probability});
    }
    return seen;
  });
}

}  // namespace
}  // namespace folio
