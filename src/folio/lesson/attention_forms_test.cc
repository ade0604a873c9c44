// The numbers of the forms of attention, without and with PyTorch's draws.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/test_walks.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class ExplainAttentionTest : public testing::Test {
 protected:
  Report Form(const std::string& form, bool torch = true) {
    return ExplainAttention(*backend_, {.form = form, .torch_rng = torch});
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

// Rows of numbers, or one row; a batch's first sequence where there is one too many.
std::vector<double> Flat(const nlohmann::json& json) {
  std::vector<double> flat;
  if (json.is_number()) return {json.get<double>()};
  const bool batch = json.at(0).is_array() && json.at(0).at(0).is_array();
  for (const nlohmann::json& part : batch ? json.at(0) : json) {
    for (const double number : Flat(part)) flat.push_back(number);
  }
  return flat;
}

// Masked ones as zeros.
std::vector<double> Unmasked(const Matrix& values) {
  std::vector<double> numbers = values.values;
  for (double& number : numbers) {
    if (std::isnan(number)) number = 0;
  }
  return numbers;
}

std::vector<double> Columns(const Matrix& values, int64_t first, int64_t count) {
  std::vector<double> part;
  for (int64_t r = 0; r < values.rows(); ++r) {
    const std::vector<double> row = RowOf(values, r);
    part.insert(part.end(), row.begin() + first, row.begin() + first + count);
  }
  return part;
}

TEST_F(ExplainAttentionTest, WithoutWeightsTheNumbersOfTheSixVectors) {
  const Report walk = Form("no-weights");
  ExpectNear(RowOf(walk, "scores", 1), {0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865},
             QuotedTo(4));
  ExpectNear(RowOf(walk, "weights", 1), {0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581},
             QuotedTo(4));
  ExpectNear(NumbersOf(walk, "context of “journey”"), {0.4419, 0.6515, 0.5683}, QuotedTo(4));
  ExpectNear(NumbersOf(walk, "what both answer"), {0.1, 0.9, 0.2, 0.8}, kFloat32Row);
}

TEST_F(ExplainAttentionTest, FourWeightingsDifferInTheirSums) {
  const Matrix ways = ValuesOf(Form("no-weights"), "weights of “journey”, made in four ways");
  ASSERT_EQ(ways.rows(), 4);
  for (int64_t way = 0; way < 4; ++way) {
    const std::vector<double> row = RowOf(ways, way);
    double sum = 0;
    for (size_t i = 0; i + 1 < row.size(); ++i) sum += row[i];
    EXPECT_NEAR(row.back(), sum, kFloat32Chain);
    if (way > 0) {
      EXPECT_NEAR(sum, 1, kFloat32Row);
    }
  }
  EXPECT_GT(RowOf(ways, 0).back(), 6);
  ExpectNear(RowOf(ways, 2), RowOf(ways, 3), kFloat32Row);
  EXPECT_GT(std::abs(RowOf(ways, 1)[0] - RowOf(ways, 3)[0]), 1e-3);
}

TEST_F(ExplainAttentionTest, TheNaiveSoftmaxReallyOverflows) {
  const Matrix rows = ValuesOf(Form("no-weights"), "why the naive softmax overflows");
  EXPECT_FALSE(rows.masks);
  EXPECT_TRUE(std::isnan(RowOf(rows, 1)[0]));
  ExpectNear(RowOf(rows, 2), {1, 0, 0}, kFloat64Chain);
}

TEST_F(ExplainAttentionTest, ScalingBringsTheVarianceBackToOne) {
  for (const bool torch : {false, true}) {
    const Report walk = Form("single-head", torch);
    const Matrix moments = ValuesOf(walk, "products of random vectors of 512 elements");
    EXPECT_NEAR(RowOf(moments, 0)[1], 512, 15);
    EXPECT_NEAR(RowOf(moments, 1)[1], 1, 0.03);
    EXPECT_NEAR(RowOf(moments, 1)[1], RowOf(moments, 0)[1] / 512, 1e-4);
    const Matrix softmax = ValuesOf(walk, "softmax of large scores");
    ExpectNear(RowOf(softmax, 0), {2.0611e-9, 4.5398e-5, 0.999955}, 5e-7);
    EXPECT_NEAR(RowOf(softmax, 0)[0], 2.0611e-9, 1e-13);
    ExpectNear(RowOf(softmax, 1), {0.2010, 0.3126, 0.4864}, QuotedTo(4));
  }
}

TEST_F(ExplainAttentionTest, BothMaskOrdersAgreeAndSeeNoFuture) {
  const Report walk = Form("causal", /*torch=*/false);
  const Matrix after = ValuesOf(walk, "renormalised weights");
  const Matrix before = ValuesOf(walk, "weights");
  ExpectNear(Unmasked(after), Unmasked(before), kFloat32Row);
  for (int64_t t = 0; t < 6; ++t) {
    double sum = 0, struck = 0;
    for (int64_t s = 0; s < 6; ++s) {
      const auto at = static_cast<size_t>(t * 6 + s);
      EXPECT_EQ(std::isnan(before.values[at]), s > t);
      EXPECT_EQ(std::isinf(NumbersOf(walk, "masked scores")[at]), s > t);
      sum += s > t ? 0 : before.values[at];
      struck += s > t ? 0 : NumbersOf(walk, "weights with the future struck out")[at];
    }
    EXPECT_NEAR(sum, 1, kFloat32Row);
    if (t < 5) {
      EXPECT_LT(struck, 0.95);
    }
  }
}

TEST_F(ExplainAttentionTest, DropoutScalesWhatItKeeps) {
  const Report walk =
      ExplainAttention(*backend_, {.form = "causal", .torch_rng = true, .dropout = 0.25});
  const Matrix kept = ValuesOf(walk, "weights after dropout");
  const Matrix whole = ValuesOf(walk, "weights");
  int dropped = 0;
  for (size_t i = 0; i < kept.values.size(); ++i) {
    if (std::isnan(kept.values[i])) continue;
    if (kept.values[i] == 0) {
      ++dropped;
    } else {
      EXPECT_NEAR(kept.values[i], whole.values[i] / 0.75, kFloat32Row);
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, 15);
}

TEST_F(ExplainAttentionTest, StackAndSplitLayerAgree) {
  const Matrix both =
      ValuesOf(Form("split", /*torch=*/false), "“step” by the stack and by the split layer");
  ExpectNear(RowOf(both, 0), RowOf(both, 1), kFloat32Row);
  EXPECT_NE(RowOf(both, 0)[0], 0);
}

TEST_F(ExplainAttentionTest, PaddingGetsAndGivesNothing) {
  const Report walk = Form("cross");
  for (int64_t t = 0; t < 6; ++t) {
    const std::vector<double> row = RowOf(walk, "weights", t);
    EXPECT_NEAR(row[0] + row[1] + row[2], 1, kFloat32Row);
    EXPECT_TRUE(std::isnan(row[3]) && std::isnan(row[4]));
  }
  const Matrix weights = ValuesOf(walk, "weights under both masks");
  ExpectNear(RowOf(weights, 0), {0, 0, 0, 0, 0, 0}, 0);
  ExpectNear(RowOf(weights, 1), {0, 0, 0, 0, 0, 0}, 0);
  ExpectNear(RowOf(weights, 2), {0, 0, 1, 0, 0, 0}, 0);
  ExpectNear(RowOf(walk, "context under both masks", 1), {0, 0}, 0);
}

TEST_F(ExplainAttentionTest, SharedKeysMeanFewerNumbers) {
  const Report walk = Form("grouped");
  EXPECT_EQ(ValuesOf(walk, "queries of 4 heads").shape, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(ValuesOf(walk, "keys and values of 2 groups").shape, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(NumbersOf(walk, "numbers to keep for each token"), (std::vector<double>{16, 8, 4}));
  const Matrix weights = ValuesOf(walk, "weights of “step” in each head");
  EXPECT_NE(RowOf(weights, 0), RowOf(weights, 1));
}

TEST_F(ExplainAttentionTest, DrawsAreThoseOfPyTorch) {
  const std::string path = GoldenFile("attention/expected.json");
  if (path.empty()) GTEST_SKIP() << "no golden numbers here";
  const nlohmann::json golden = nlohmann::json::parse(ReadFile(path));

  Report walk = Form("no-weights");
  ExpectNear(NumbersOf(walk, "scores"), Flat(golden["no_weights"]["scores"]), kFloat32Row);
  ExpectNear(NumbersOf(walk, "weights"), Flat(golden["no_weights"]["weights"]), kFloat32Row);
  ExpectNear(NumbersOf(walk, "context"), Flat(golden["no_weights"]["context"]), kFloat32Row);

  walk = Form("single-head");
  const nlohmann::json& single = golden["single_head_rand_seed_123"];
  const Matrix drawn = ValuesOf(walk, "weights W_q, W_k and W_v");
  ExpectNear(Columns(drawn, 0, 2), Flat(single["W_query"]), 0);
  ExpectNear(Columns(drawn, 2, 2), Flat(single["W_key"]), 0);
  ExpectNear(Columns(drawn, 4, 2), Flat(single["W_value"]), 0);
  ExpectNear(NumbersOf(walk, "weights"), Flat(single["weights"]), kFloat32Row);
  ExpectNear(NumbersOf(walk, "context"), Flat(single["context"]), kFloat32Row);

  walk = Form("causal");
  const nlohmann::json& causal = golden["causal"];
  ExpectNear(NumbersOf(walk, "weights of all on all"),
             Flat(golden["single_head_linear_seed_789"]["weights"]), kFloat32Row);
  ExpectNear(Unmasked(ValuesOf(walk, "renormalised weights")),
             Flat(causal["mask_after_softmax_renormalised"]), kFloat32Row);
  ExpectNear(Unmasked(ValuesOf(walk, "weights")), Flat(causal["mask_before_softmax"]), kFloat32Row);
  ExpectNear(NumbersOf(walk, "context"), Flat(causal["context"]), kFloat32Row);

  ExpectNear(NumbersOf(Form("stacked"), "contexts of both, side by side"),
             Flat(golden["stacked_heads_seed_123"]["context"]), kFloat32Row);
  ExpectNear(NumbersOf(Form("split"), "output"), Flat(golden["split_heads_seed_123"]["context"]),
             kFloat32Row);
}

TEST_F(ExplainAttentionTest, SeedAndGeneratorChangeTheDraws) {
  const auto drawn = [&](const AttentionTopic& topic) {
    return NumbersOf(ExplainAttention(*backend_, topic), "weights W_q, W_k and W_v");
  };
  const auto usual = drawn({.form = "single-head"});
  EXPECT_EQ(usual, drawn({.form = "single-head", .seed = 123}));
  EXPECT_NE(usual, drawn({.form = "single-head", .seed = 124}));
  EXPECT_NE(usual, drawn({.form = "single-head", .torch_rng = true}));
}

TEST_F(ExplainAttentionTest, AllFormsInTheirOrderOnBothBackends) {
  const Report all = ExplainAttention(*backend_, {});
  size_t steps = 0;
  for (const std::string& form : AttentionForms()) {
    const Report walk = Form(form, /*torch=*/false);
    ASSERT_LE(steps + walk.parts.size(), all.parts.size());
    EXPECT_FALSE(walk.parts.front().heading.empty());
    for (const ReportPart& step : walk.parts) {
      EXPECT_EQ(step.name, all.parts[steps++].name);
      EXPECT_FALSE(step.text.empty() || step.formula.empty()) << step.name;
      int64_t count = 1;
      for (const int64_t size : step.values.shape) count *= size;
      EXPECT_EQ(static_cast<int64_t>(step.values.values.size()), count) << step.name;
    }
  }
  EXPECT_EQ(steps, all.parts.size());

  const auto reference = MakeReferenceBackend();
  const Report slow = ExplainAttention(*reference, {});
  for (size_t i = 0; i < steps; ++i) {
    const Matrix &a = all.parts[i].values, &b = slow.parts[i].values;
    for (size_t n = 0; n < a.values.size(); ++n) {
      if (!std::isfinite(a.values[n])) continue;
      EXPECT_NEAR(a.values[n], b.values[n], 1e-5 * std::max(1.0, std::abs(a.values[n])))
          << all.parts[i].name;
    }
  }
}

TEST_F(ExplainAttentionTest, AnUnknownFormNamesTheKnownOnes) {
  EXPECT_TRUE(Contains(Refused([&] { Form("ring"); }, ErrorKind::kUsage).help(),
                       "no-weights, single-head"));
}

}  // namespace
}  // namespace folio
