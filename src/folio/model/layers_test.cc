#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "folio/model/layers/embedding.h"
#include "folio/model/layers/head.h"
#include "folio/model/test_models.h"
#include "tests/kit/near.h"

namespace folio {

namespace {

TEST(Sinusoids, AlternateSineAndCosineOfOneAngle) {
  constexpr int64_t P = 9, C = 6;
  std::vector<double> table(P * C, -7);
  FillSinusoids(Tensor(table.data(), {P, C}));
  const auto at = [&](int64_t p, int64_t c) { return table[static_cast<size_t>(p * C + c)]; };
  for (int64_t p = 0; p < P; ++p) {
    EXPECT_DOUBLE_EQ(at(p, 0), std::sin(double(p)));
    EXPECT_DOUBLE_EQ(at(p, 1), std::cos(double(p)));
    EXPECT_NEAR(at(p, 2), std::sin(double(p) / 21.544346900318838), 1e-15);  // 10000^(1/3)
    EXPECT_NEAR(at(p, 5), std::cos(double(p) / 464.15888336127773), 1e-15);  // 10000^(2/3)
  }
}

TEST(Sinusoids, Float32IsTheRoundedTable) {
  std::vector<double> exact(7 * 4);
  std::vector<float> rounded(7 * 4);
  FillSinusoids(Tensor(exact.data(), {7, 4}));
  FillSinusoids(Tensor(rounded.data(), {7, 4}));
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], static_cast<float>(exact[i]));
}

}  // namespace

namespace {

TEST(LossChunkRows, AreAtMostAllAndNeverNone) {
  EXPECT_EQ(LossChunkRows(1, 50257), 1);
  EXPECT_EQ(LossChunkRows(768, 65), 768);
  EXPECT_EQ(LossChunkRows(1 << 20, 50257), 256);
  EXPECT_EQ(LossChunkRows(1 << 20, 1 << 30), 256);
  EXPECT_EQ(LossChunkRows(1 << 20, 4096), 1024);
  EXPECT_EQ(LossChunkRows(1 << 20, 1), 1 << 20);
  EXPECT_EQ(LossChunkRows(1, 50257, Dtype::kBF16), 1);
  EXPECT_EQ(LossChunkRows(4096, 50257, Dtype::kBF16), 512);
  EXPECT_EQ(LossChunkRows(1 << 20, 65, Dtype::kBF16), LossChunkRows(1 << 20, 65));
}

// Everything that the head makes.
struct HeadResult {
  std::vector<double> losses, d_norm_f, d_params;
};

HeadResult RunHead(int64_t chunk, bool tied) {
  constexpr int64_t N = 7;
  GptConfig config = TinyConfig();
  config.tie_word_embeddings = tied;
  config.lm_head_bias = true;
  const int64_t C = config.n_embd, V = config.vocab_size;
  const GptWeights weights(config, Dtype::kF64), grads(config, Dtype::kF64);
  Scatter(weights, 1);
  const auto backend = MakeReferenceBackend();
  const PassContext pass{.backend = *backend, .config = config, .B = 1, .T = N};
  std::vector<double> x(N * C), logits(static_cast<size_t>(chunk * V)), losses(N), lse(N);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
  std::vector<double> d_x(N * C);
  std::vector<int32_t> targets = {3, -1, 0, 10, 5, 5, -1};
  HeadActivations acts;
  acts.norm_f.out = Tensor(x.data(), {N, C});
  acts.chunk = Tensor(logits.data(), {chunk, V});
  acts.losses.device = Tensor(losses.data(), {N});
  acts.loss_lse = Tensor(lse.data(), {N});
  const GptGradients flow{.d_branch = Tensor(d_x.data(), {N, C}), .d_logits = acts.chunk};
  double sum = 0;
  const Tensor loss_sum(&sum, {1});
  HeadForwardBackward(pass, weights.params(), acts, Tensor(targets.data(), {N}), 0.5,
                      grads.params(), flow, loss_sum);
  const std::vector<double> with_backward = losses;
  EXPECT_EQ(sum, std::accumulate(losses.begin(), losses.end(), 0.0));
  sum = 0;
  HeadForward(pass, weights.params(), acts, Tensor(targets.data(), {N}), loss_sum);
  EXPECT_EQ(losses, with_backward);
  EXPECT_EQ(sum, std::accumulate(losses.begin(), losses.end(), 0.0));
  const auto d = Elements<double>(grads.flat());
  return {losses, d_x, {d.begin(), d.end()}};
}

class HeadInChunks : public testing::TestWithParam<int64_t> {};

TEST_P(HeadInChunks, EqualsTheHeadInOnePiece) {
  for (const bool tied : {true, false}) {
    const HeadResult whole = RunHead(7, tied), parts = RunHead(GetParam(), tied);
    EXPECT_EQ(parts.losses, whole.losses);
    EXPECT_EQ(parts.d_norm_f, whole.d_norm_f);
    ExpectNear(parts.d_params, whole.d_params, 1e-13);
    EXPECT_EQ(whole.losses[1], 0);
    EXPECT_GT(whole.losses[0], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, HeadInChunks, testing::Values(1, 2, 3, 6));

}  // namespace

}  // namespace folio
