#include "folio/inspect/lens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "folio/model/test_models.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class Lens : public testing::TestWithParam<std::string> {
 protected:
  Lens() {
    config_.n_positions = 40;
    config_.n_layer = 3;
    config_.n_embd = 8;
    config_.vocab_size = 53;
    config_.norm_position = GetParam() == "post" ? NormPosition::kPost : NormPosition::kPre;
    config_.tie_word_embeddings = GetParam() != "untied";
    config_.lm_head_bias = GetParam() == "untied";
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
  }

  Trace Run(int64_t T) {
    return Trace(*backend_, *weights_, RandomTokens(T, config_.vocab_size, 5),
                 std::vector{TracePoint::kEmbedded, TracePoint::kOutput});
  }
  // The probabilities of every token after `layer` blocks, in double.
  std::vector<double> Predict(const Trace& trace, int64_t layer, int64_t position) {
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    trace.Logits(trace.Stream(layer), position, position + 1,
                 Tensor(logits.data(), {1, config_.vocab_size}));
    std::vector<double> p(logits.begin(), logits.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x);
    for (double& x : p) x /= sum;
    return p;
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
};

TEST_P(Lens, EndsWithTheModelsOwnPrediction) {
  const Trace trace = Run(7);
  const std::vector<int32_t> ids(trace.ids().begin(), trace.ids().end());
  GptPass pass(*backend_, config_, 1, 7, PassKind::kForward);
  pass.Forward(weights_->params(), ids);
  const std::vector<int64_t> positions = {6, 2};
  const std::vector<LensCell> cells = LogitLens(trace, positions, 3);
  ASSERT_EQ(cells.size(), 8u);
  for (const size_t at : {3, 7}) {
    EXPECT_EQ(cells[at].layer, 3);
    EXPECT_EQ(cells[at].position, positions[at / 4]);
    EXPECT_EQ(cells[at].kl, 0);
    EXPECT_EQ(cells[at].final_rank, 0);
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    pass.Logits(weights_->params(), cells[at].position, cells[at].position + 1,
                Tensor(logits.data(), {1, config_.vocab_size}));
    const std::vector<TokenProbability> top = TopTokens(logits, 3);
    ASSERT_EQ(cells[at].top.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(cells[at].top[i].id, top[i].id);
      EXPECT_NEAR(cells[at].top[i].probability, top[i].probability, 1e-6);
    }
  }
}

TEST_P(Lens, EachCellIsWhatItsDefinitionSays) {
  const Trace trace = Run(5);
  const std::vector<int64_t> positions = {0, 4, 3};
  const std::vector<LensCell> cells = LogitLens(trace, positions, 1);
  ASSERT_EQ(cells.size(), 12u);
  for (size_t i = 0; i < cells.size(); ++i) {
    const LensCell& cell = cells[i];
    EXPECT_EQ(cell.layer, static_cast<int64_t>(i % 4));
    EXPECT_EQ(cell.position, positions[i / 4]);
    const std::vector<double> here = Predict(trace, cell.layer, cell.position);
    const std::vector<double> final = Predict(trace, 3, cell.position);
    double entropy = 0, kl = 0;
    size_t first = 0, likelier = 0;
    for (size_t v = 0; v < here.size(); ++v) {
      entropy -= here[v] * std::log(here[v]);
      kl += final[v] * (std::log(final[v]) - std::log(here[v]));
      if (final[v] > final[first]) first = v;
    }
    for (const double p : here) likelier += p > here[first];
    EXPECT_NEAR(cell.entropy, entropy, 1e-5) << i;
    EXPECT_NEAR(cell.kl, kl, 1e-5) << i;
    EXPECT_EQ(cell.final_rank, static_cast<int64_t>(likelier)) << i;
    EXPECT_EQ(cell.top[0].id, std::max_element(here.begin(), here.end()) - here.begin()) << i;
    EXPECT_EQ(cell.kl > 1e-3, cell.layer < 3) << i;
  }
}

TEST_P(Lens, ThreadsDoNotMatter) {
  const Trace trace = Run(33);
  const std::vector<int64_t> positions = {0, 32, 31, 7, 7, 15, 4};
  ExpectSameOnThreads([&] {
    std::vector<double> seen;
    for (const LensCell& cell : LogitLens(trace, positions, 1)) {
      seen.insert(seen.end(), {cell.kl, cell.entropy, cell.top[0].probability});
    }
    return seen;
  });
}

TEST(LensChunks, EveryPositionIsThere) {
  GptConfig config = TinyConfig();
  config.vocab_size = 13109;
  config.n_positions = 260;
  config.n_layer = 1;
  ASSERT_EQ(LossChunkRows(260, config.vocab_size), 256);
  GptWeights weights(config);
  Scatter(weights, 1);
  const std::unique_ptr<Backend> backend = MakeBackend("cpu");
  const Trace trace(*backend, weights, RandomTokens(260, config.vocab_size, 5),
                    std::vector{TracePoint::kEmbedded, TracePoint::kOutput});
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < 260; ++i) positions.push_back((i * 7) % 260);
  const std::vector<LensCell> cells = LogitLens(trace, positions, 1);
  ASSERT_EQ(cells.size(), 520u);
  for (const size_t i : {0, 255, 256, 259}) {
    const std::vector<LensCell> alone = LogitLens(trace, std::vector{positions[i]}, 1);
    for (const size_t layer : {0, 1}) {
      const LensCell& cell = cells[2 * i + layer];
      EXPECT_EQ(cell.position, positions[i]);
      EXPECT_EQ(cell.layer, static_cast<int64_t>(layer));
      EXPECT_NEAR(cell.kl, alone[layer].kl, 1e-5);
      EXPECT_NEAR(cell.entropy, alone[layer].entropy, 1e-5);
      EXPECT_EQ(cell.top[0].id, alone[layer].top[0].id);
    }
  }
}

TEST_P(Lens, RefusesPositionsThatAreNotThere) {
  const Trace trace = Run(5);
  EXPECT_TRUE(LogitLens(trace, {}, 3).empty());
  EXPECT_DEATH(LogitLens(trace, std::vector<int64_t>{5}, 3), "no such position");
  EXPECT_DEATH(LogitLens(trace, std::vector<int64_t>{-1}, 3), "no such position");
}

INSTANTIATE_TEST_SUITE_P(Models, Lens, testing::Values("pre", "post", "untied"));

}  // namespace
}  // namespace folio
