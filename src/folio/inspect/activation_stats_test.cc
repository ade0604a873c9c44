#include "folio/inspect/activation_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/model/test_models.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

ActivationStats Of(std::vector<float>& values, int64_t T, int64_t width) {
  return StatisticsOf(Tensor(values.data(), {T, width}));
}

TEST(ActivationStats, OfAFewNumbers) {
  std::vector<float> values = {3, 4, 0, 0, 6, -8};
  const ActivationStats stats = Of(values, 3, 2);
  EXPECT_EQ(stats.width, 2);
  EXPECT_NEAR(stats.mean, 5.0 / 6, 1e-15);
  EXPECT_NEAR(stats.rms, std::sqrt(125.0 / 6), 1e-14);
  EXPECT_NEAR(stats.std, std::sqrt(125.0 / 6 - 25.0 / 36), 1e-14);
  EXPECT_EQ(stats.min, -8);
  EXPECT_EQ(stats.max, 6);
  EXPECT_EQ(stats.norm_median, 5);
  EXPECT_EQ(stats.norm_max, 10);
  EXPECT_EQ(stats.norm_max_position, 2);
  EXPECT_EQ(stats.outlier_count, 0);
  std::vector<float> even = {1, 9, 2, 4};
  EXPECT_EQ(Of(even, 4, 1).norm_median, 3);
}

TEST(ActivationStats, Kurtosis) {
  std::vector<float> coin = {-1, 1, 1, -1}, rare = {0, 0, 0, 0, 5}, same = {2, 2, 2};
  EXPECT_NEAR(Of(coin, 2, 2).kurtosis, 1, 1e-15);
  // A value with probability p has the kurtosis (1 - 3 p (1 - p)) / (p (1 - p)).
  EXPECT_NEAR(Of(rare, 5, 1).kurtosis, (1 - 3 * 0.16) / 0.16, 1e-13);
  EXPECT_EQ(Of(same, 3, 1).kurtosis, 0);
  EXPECT_EQ(Of(same, 3, 1).std, 0);
  std::vector<float> normal;
  for (uint64_t i = 0; i < 20000; ++i) {
    normal.push_back(static_cast<float>(7 + 2 * CounterRng(1, 1).Normal(i)));
  }
  EXPECT_NEAR(Of(normal, 100, 200).kurtosis, 3, 0.15);
  EXPECT_EQ(Of(normal, 100, 200).outlier_count, 0);
}

TEST(ActivationStats, OutliersAreFoundWhereTheyAre) {
  const int64_t T = 20, width = 50;
  std::vector<float> values;
  for (uint64_t i = 0; i < 1000; ++i) values.push_back(i % 2 == 0 ? 3.0f : 1.0f);
  values[3 * 50 + 7] = 100;
  values[11 * 50 + 49] = -200;
  values[0] = 90;
  const ActivationStats stats = Of(values, T, width);
  EXPECT_EQ(stats.outlier_count, 3);
  ASSERT_EQ(stats.outliers.size(), 3u);
  EXPECT_EQ(stats.outliers[0].value, -200);
  EXPECT_EQ(stats.outliers[0].position, 11);
  EXPECT_EQ(stats.outliers[0].channel, 49);
  EXPECT_EQ(stats.outliers[1].value, 100);
  EXPECT_EQ(stats.outliers[1].position, 3);
  EXPECT_EQ(stats.outliers[1].channel, 7);
  EXPECT_EQ(stats.outliers[2].value, 90);
}

TEST(ActivationStats, OutliersLieBeyondSixDeviationsOfTheMean) {
  // One of n equal values moved away lies sqrt(n-1) deviations from the mean.
  for (const int64_t n : {36, 38}) {
    std::vector<float> values(static_cast<size_t>(n), 4);
    values[5] = 5;
    EXPECT_EQ(Of(values, n, 1).outlier_count, n == 38) << n;
  }
}

TEST(ActivationStats, EightOutliersAreShownAndAllCounted) {
  std::vector<float> values(2000, 1);
  for (size_t i = 0; i < 12; ++i) values[i * 100 + i] = 50 + static_cast<float>(i * 7 % 12);
  const ActivationStats stats = Of(values, 20, 100);
  EXPECT_EQ(stats.outlier_count, 12);
  ASSERT_EQ(stats.outliers.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(stats.outliers[i].value, 61 - static_cast<double>(i));
    EXPECT_EQ(stats.outliers[i].position, stats.outliers[i].channel);
  }
}

TEST(ActivationStats, DeadUnitsAreOffEverywhere) {
  std::vector<float> values = {0, 1, 0,     -9e-7f, 0,  //
                               0, 0, 1e-5f, 9e-7f,  -1};
  EXPECT_EQ(DeadUnits(Tensor(values.data(), {2, 5})), 2);
  values[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(DeadUnits(Tensor(values.data(), {2, 5})), 1);
}

TEST(ActivationStats, WhatIsNoNumberDoesNoHarm) {
  std::vector<float> values(64, 1);
  for (size_t i = 0; i < 64; i += 5) values[i] = std::numeric_limits<float>::quiet_NaN();
  values[7] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(Of(values, 32, 2).mean));
  EXPECT_EQ(Of(values, 32, 2).outlier_count, 0);
}

TEST(ActivationStats, OfATrace) {
  GptConfig config = TinyConfig();
  config.activation_function = Activation::kRelu;
  GptWeights weights(config);
  Scatter(weights, 1);
  // Channel 2 of block 0's result is always 0, but no unit; unit 3 of block 1 never rises above 0.
  weights.params().h[0].mlp.c_proj.bias.data<float>()[2] = 0;
  for (int64_t f = 0; f < 24; ++f) {
    weights.params().h[0].mlp.c_proj.weight.data<float>()[f * 6 + 2] = 0;
  }
  weights.params().h[1].mlp.c_fc.bias.data<float>()[3] = -1000;
  const std::unique_ptr<Backend> backend = MakeBackend("reference");
  const std::vector<int32_t> ids = RandomTokens(5, config.vocab_size, 2);
  const Trace trace(*backend, weights, ids, Trace::AllPoints());
  const std::vector<ActivationStats> all = ActivationStatistics(trace);
  ASSERT_EQ(all.size(), 22u);
  EXPECT_EQ(all[0].point, TracePoint::kEmbedded);
  EXPECT_EQ(all[21].point, TracePoint::kFinal);
  for (size_t i = 1; i < 21; ++i) {
    EXPECT_EQ(all[i].layer, static_cast<int64_t>((i - 1) / 10));
    EXPECT_EQ(static_cast<size_t>(all[i].point), (i - 1) % 10 + 1);
    const Tensor x = trace.At(all[i].point, all[i].layer);
    EXPECT_EQ(all[i].width, x.dim(1));
    EXPECT_EQ(all[i].max, *std::max_element(x.data<float>(), x.data<float>() + x.count()));
    EXPECT_TRUE(all[i].point == TracePoint::kActivated || all[i].dead == 0);
  }
  EXPECT_EQ(all[8].dead, DeadUnits(trace.At(TracePoint::kActivated, 0)));
  EXPECT_EQ(all[18].dead, DeadUnits(trace.At(TracePoint::kActivated, 1)));
  EXPECT_GE(all[18].dead, 1);
  const Trace some(*backend, weights, ids, std::vector{TracePoint::kFinal, TracePoint::kUp});
  ASSERT_EQ(ActivationStatistics(some).size(), 3u);
  EXPECT_EQ(ActivationStatistics(some)[0].point, TracePoint::kUp);
  EXPECT_EQ(ActivationStatistics(some)[2].point, TracePoint::kFinal);
}

}  // namespace
}  // namespace folio
