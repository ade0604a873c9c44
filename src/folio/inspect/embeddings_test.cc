#include "folio/inspect/embeddings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/near.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

std::vector<float> RandomTable(int64_t V, int64_t C) {
  std::vector<float> table(static_cast<size_t>(V * C));
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<float>(CounterRng(6, 0).Normal(i));
  }
  return table;
}

std::vector<int64_t> AllRows(int64_t V) {
  std::vector<int64_t> rows(static_cast<size_t>(V));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

double SlowCosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double(a[i]) * b[i];
    aa += double(a[i]) * a[i];
    bb += double(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? product / std::sqrt(aa * bb) : 0;
}

std::vector<int64_t> Rows(const std::vector<Neighbour>& neighbours) {
  std::vector<int64_t> rows;
  for (const Neighbour& n : neighbours) rows.push_back(n.row);
  return rows;
}

TEST(NearestRows, AgreeWithLookingAtAllOfThem) {
  for (const auto& sizes : std::vector<std::pair<int64_t, int64_t>>{{1009, 19}, {257, 8}, {5, 1}}) {
    const int64_t V = sizes.first, C = sizes.second;
    std::vector<float> values = RandomTable(V, C);
    const Tensor table(values.data(), {V, C});
    const auto row = [&](int64_t v) { return std::span(values).subspan(size_t(v * C), size_t(C)); };
    std::vector<int64_t> order = AllRows(V);
    order.erase(order.begin() + 3);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return SlowCosine(row(a), row(3)) > SlowCosine(row(b), row(3)) + 1e-12;
    });
    const size_t k = std::min<size_t>(11, order.size());
    order.resize(k);
    const std::vector<Neighbour> found = NearestRows(table, row(3), 11, 3);
    EXPECT_EQ(Rows(found), order);
    for (const Neighbour& n : found)
      EXPECT_NEAR(n.cosine, SlowCosine(row(n.row), row(3)), kFloat64Chain);
  }
}

TEST(NearestRows, EqualsComeInOrderAndZerosAreNearNothing) {
  std::vector<float> values = {0, 0, 1, 0, -2, 0, 3, 0, 0, 1, 5, 0};
  const Tensor table(values.data(), {6, 2});
  const std::vector<float> right = {0.5f, 0}, zero = {0, 0};
  const std::vector<Neighbour> found = NearestRows(table, right, 9);
  EXPECT_EQ(Rows(found), (std::vector<int64_t>{1, 3, 5, 0, 4, 2}));
  EXPECT_EQ(found[0].cosine, 1);
  EXPECT_EQ(found[3].cosine, 0);
  EXPECT_EQ(found[5].cosine, -1);
  EXPECT_EQ(Rows(NearestRows(table, right, 2, 1)), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(Rows(NearestRows(table, zero, 2)), (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(NearestRows(table, right, 0).empty());
}

TEST(NearestRows, RowsThatHoldNoNumbersAreNearNothing) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {Limits::quiet_NaN(), 1, 1, 0, 2, 1, Limits::infinity(), 0};
  const std::vector<float> right = {1, 0};
  const std::vector<Neighbour> found = NearestRows(Tensor(values.data(), {4, 2}), right, 4);
  EXPECT_EQ(Rows(found), (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(found[2].cosine, 0);
  EXPECT_EQ(found[3].cosine, 0);
  EXPECT_EQ(CosineSimilarity(Tensor(values.data(), {4, 2}), 4)[13], 0);
}

TEST(CosineSimilarity, IsThatOfEachPair) {
  const int64_t V = 13, C = 11, n = 9;
  std::vector<float> values = RandomTable(V, C);
  std::fill_n(values.begin() + 4 * C, C, 0.0f);
  const auto row = [&](int64_t v) { return std::span(values).subspan(size_t(v * C), size_t(C)); };
  const std::vector<float> found = CosineSimilarity(Tensor(values.data(), {V, C}), n);
  ASSERT_EQ(found.size(), static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_NEAR(found[static_cast<size_t>(i * n + j)], SlowCosine(row(i), row(j)), kFloat32Row);
    }
  }
  EXPECT_TRUE(CosineSimilarity(Tensor(values.data(), {V, C}), 0).empty());
}

TEST(PositionTables, AreLearnedOrSinusoids) {
  GptConfig config = TinyConfig();
  GptWeights learned(config);
  Scatter(learned, 1);
  const auto wpe = Elements<float>(learned.params().wpe);
  EXPECT_EQ(PositionTable(learned), std::vector<float>(wpe.begin(), wpe.end()));
  config.position_embedding = PositionKind::kSinusoidal;
  const std::vector<float> table = PositionTable(GptWeights(config));
  ASSERT_EQ(table.size(), 30u);
  for (size_t i = 0; i < 30; ++i) {
    const double angle = double(i / 6) / std::pow(10000.0, double(i % 6 / 2 * 2) / 6);
    EXPECT_NEAR(table[i], i % 2 == 0 ? std::sin(angle) : std::cos(angle), kFloat32Row);
  }
}

class Projections : public testing::Test {
 protected:
  Projection Project(std::vector<float>& values, int64_t V, int64_t C) {
    return ProjectRows(*backend_, Tensor(values.data(), {V, C}), 2);
  }

  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
};

// Three lengths along (3,4)/5, one and a half across it, about (10,20).
TEST_F(Projections, OfAnExampleByHand) {
  std::vector<float> values = {13, 24, 7, 16, 9.2f, 20.6f, 10.8f, 19.4f};
  const Projection p = Project(values, 4, 2);
  const std::vector<double> x = {5, -5, 0, 0}, y = {0, 0, -1, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(p.along[0][i], x[i], kFloat32Row) << i;
    EXPECT_NEAR(p.along[1][i], y[i], kFloat32Row)
        << i;  // across, (4,-3)/5: its largest entry is positive
  }
  EXPECT_NEAR(p.explained[0], 50.0 / 52, kFloat32Once);
  EXPECT_NEAR(p.explained[1], 2.0 / 52, kFloat32Once);
}

// Columns are scaled, so the covariance is nearly diagonal with known entries.
TEST_F(Projections, FindTheDirectionsOfMostVariance) {
  const int64_t V = 5003, C = 70;
  std::vector<float> values = RandomTable(V, C);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i % 70;
    values[i] = values[i] * (c == 41 ? 9.0f : c == 7 ? 5.0f : 0.5f) + static_cast<float>(c);
  }
  const Projection p = Project(values, V, C);
  const double total = 81 + 25 + 68 * 0.25;
  EXPECT_NEAR(p.explained[0], 81 / total, 0.02);
  EXPECT_NEAR(p.explained[1], 25 / total, 0.02);
  double xx = 0, yy = 0, xy = 0;
  for (size_t v = 0; v < static_cast<size_t>(V); ++v) {
    EXPECT_NEAR(p.along[0][v], values[v * 70 + 41] - 41, 1.5);
    EXPECT_NEAR(p.along[1][v], values[v * 70 + 7] - 7, 1.5);
    xx += p.along[0][v] * p.along[0][v];
    yy += p.along[1][v] * p.along[1][v];
    xy += p.along[0][v] * p.along[1][v];
  }
  EXPECT_NEAR(xy / std::sqrt(xx * yy), 0, kFloat32Chain);  // components are at right angles
}

TEST_F(Projections, OfTablesWithNothingToSee) {
  std::vector<float> one = RandomTable(1, 7), same(5 * 70, 0.1f), column = {1, 2, 6};
  for (const Projection& p : {Project(one, 1, 7), Project(same, 5, 70)}) {
    EXPECT_EQ(p.along[0], std::vector<double>(p.along[0].size()));
    EXPECT_EQ(p.along[1], std::vector<double>(p.along[0].size()));
    EXPECT_EQ(p.explained[0], 0);
    EXPECT_EQ(p.explained[1], 0);
  }
  const Projection p = Project(column, 3, 1);
  EXPECT_EQ(p.along[0], (std::vector<double>{-2, -1, 3}));
  EXPECT_EQ(p.along[1], std::vector<double>(3));
  EXPECT_NEAR(p.explained[0], 1, kFloat64Chain);
  EXPECT_EQ(p.explained[1], 0);
}

TEST_F(Projections, DoNotDependOnThreads) {
  std::vector<float> values = RandomTable(301, 67);
  const Tensor table(values.data(), {301, 67});
  const auto row = std::span<const float>(values).first(67);
  ExpectSameOnThreads([&] {
    const Projection projection = Project(values, 301, 67);
    EXPECT_EQ(NearestRows(table, row, 2)[1].cosine, NearestRows(table, row, 1, 0)[0].cosine);
    return std::tuple(projection.along, CosineSimilarity(table, 300));
  });
}

}  // namespace
}  // namespace folio
