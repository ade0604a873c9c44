#include "folio/eval/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "folio/base/math.h"
#include "folio/eval/test_measured_model.h"
#include "folio/model/transformer.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class Comparisons : public MeasureTest {
 protected:
  ModelComparison Compare(const OpenedModel& b, int64_t batch = 3) const {
    const ReadingOptions reading{.shape = {7, 4}, .positions = 7 * batch};
    return CompareModels(a_, b, FindMeasuredTexts({path_}, {}).texts, reading);
  }

  OpenedModel a_ = ByteModel(1);
  std::string text_ = SomeText(45), path_ = Put("a.txt", text_);
};

TEST_F(Comparisons, OfAModelWithItselfHaveNoDifference) {
  const ModelComparison same = Compare(ByteModel(1));
  EXPECT_EQ(same.tokens, 44);
  for (const double zero : {same.kl_mean, same.kl_max, same.kl_median, same.kl_95, same.kl_99,
                            same.log_probability_difference}) {
    EXPECT_EQ(zero, 0);
  }
  EXPECT_EQ(same.same_top, 1);
  EXPECT_EQ(same.perplexity_a, same.perplexity_b);
}

TEST_F(Comparisons, AreThoseOfAPlainLoop) {
  OpenedModel b = ByteModel(1);
  const Tensor wte = b.weights->params().wte;
  for (int64_t i = 0; i < wte.count(); i += 3) wte.data<float>()[i] += 0.05f;
  const std::vector<int32_t> ids = a_.tokenizer->Encode(text_);
  std::vector<double> kls;
  double nats_a = 0, nats_b = 0, kl_sum = 0, differences = 0, same = 0;
  for (int64_t t = 1; t < std::ssize(ids); ++t) {
    const int64_t begin = t <= 7 ? 0 : (t - 7 + 3) / 4 * 4;
    const auto seen = std::span(ids).subspan(size_t(begin), size_t(t - begin));
    const std::vector<double> p = PlainLogProbabilities(*a_.weights, seen);
    const std::vector<double> q = PlainLogProbabilities(*b.weights, seen);
    double kl = 0;
    for (size_t v = 0; v < p.size(); ++v) kl += std::exp(p[v]) * (p[v] - q[v]);
    kls.push_back(kl);
    kl_sum += kl;
    const auto id = static_cast<size_t>(ids[size_t(t)]);
    nats_a -= p[id];
    nats_b -= q[id];
    differences += std::abs(p[id] - q[id]);
    same += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  }
  const ModelComparison found = Compare(b);
  EXPECT_NEAR(found.kl_mean, kl_sum / 44, 1e-6);
  EXPECT_NEAR(found.kl_max, std::ranges::max(kls), 1e-5);
  EXPECT_NEAR(found.kl_median, Percentile(kls, 0.5), 1e-5);
  EXPECT_NEAR(found.kl_95, Percentile(kls, 0.95), 1e-5);
  EXPECT_NEAR(found.kl_99, Percentile(kls, 0.99), 1e-5);
  EXPECT_GT(found.kl_99, found.kl_95);
  EXPECT_GT(found.kl_95, found.kl_median);
  EXPECT_DOUBLE_EQ(found.same_top, same / 44);
  EXPECT_NEAR(found.perplexity_a / std::exp(nats_a / 44), 1, 1e-5);
  EXPECT_NEAR(found.perplexity_b / std::exp(nats_b / 44), 1, 1e-5);
  EXPECT_NE(found.perplexity_a, found.perplexity_b);
  EXPECT_NEAR(found.log_probability_difference, differences / 44, 1e-5);
  ExpectSameOnThreads([&] { return Compare(b, 2).kl_mean; });
  EXPECT_EQ(Compare(b, 1).kl_mean, found.kl_mean);
}

TEST_F(Comparisons, OfDifferentVocabulariesAreRefused) {
  GptConfig config = ByteModelConfig();
  config.vocab_size = 260;
  EXPECT_TRUE(Contains(ErrorOf([&] { Compare(ByteModel(1, config)); }), "cannot be compared",
                       "257 and 260 tokens"));
  OpenedModel other = ByteModel(1);
  const std::string more[] = {"<|user|>"};
  config = ByteModelConfig();
  config.vocab_size = 258;
  a_ = ByteModel(1, config);
  other = ByteModel(1, config);
  other.tokenizer = other.tokenizer->WithSpecials(more);
  EXPECT_TRUE(Contains(ErrorOf([&] { Compare(other); }), "tokenizers are different"));
  // A shorter context is no difference.
  config.n_positions = 9;
  EXPECT_NO_THROW(Compare(ByteModel(1, config)));
}

}  // namespace
}  // namespace folio
