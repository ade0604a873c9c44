// Measures are the same where a model lies in memory that the host cannot touch.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/backend/test_fenced_orders.h"
#include "folio/eval/cloze.h"
#include "folio/eval/perplexity.h"
#include "folio/eval/test_measured_model.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

const ReadingOptions kReading{.shape = {13, 6}, .positions = 39};

class FencedMeasures : public MeasureTest, public testing::WithParamInterface<FencedOrder> {
 protected:
  OpenedModel Fenced(const OpenedModel& source) const {
    return OnBackend(MakeFencedBackend(GetParam()), source);
  }
  std::vector<double> Perplexity(const OpenedModel& model, const std::string& csv,
                                 Group* group = nullptr) const {
    std::vector<double> nats;
    for (const TextPerplexity& text :
         MeasurePerplexity(model, FindMeasuredTexts({text_}, {}).texts,
                           {.reading = kReading, .csv = At(csv), .group = group})) {
      nats.push_back(text.nats);
    }
    return nats;
  }

  const OpenedModel source_ = ByteModel(3), other_ = ByteModel(4);
  const std::string text_ = Put("text.txt", SomeText(300));
};

TEST_P(FencedMeasures, OfTextsAreThoseOfTheCpu) {
  const std::vector<double> expected = Perplexity(source_, "cpu.csv");
  ASSERT_EQ(expected.size(), 1u);
  EXPECT_EQ(Perplexity(Fenced(source_), "fenced.csv"), expected);
  EXPECT_EQ(ReadFile(At("fenced.csv")), ReadFile(At("cpu.csv")));
  RunOnThreads(2, [&](Group& group) {
    const std::vector<double> found = Perplexity(Fenced(source_), "ranks.csv", &group);
    EXPECT_EQ(found, group.first() ? expected : std::vector<double>());
  });
  EXPECT_EQ(ReadFile(At("ranks.csv")), ReadFile(At("cpu.csv")));
}

TEST_P(FencedMeasures, OfChoicesAreThoseOfTheCpu) {
  const std::string items = Put("items.jsonl",
                                "{\"ctx\":\"So\",\"endings\":[\"b\",\"aaa\",\"cd\"],\"label\":0}\n"
                                "{\"ctx\":\"The\",\"endings\":[\"fox\",\"dog\"],\"label\":1}\n");
  const auto measure = [&](const OpenedModel& model, const std::string& out) {
    return MeasureCloze(model, items, {.positions = 26, .out = At(out)}).acc.right;
  };
  EXPECT_EQ(measure(Fenced(source_), "fenced.jsonl"), measure(source_, "cpu.jsonl"));
  EXPECT_EQ(ReadFile(At("fenced.jsonl")), ReadFile(At("cpu.jsonl")));
}

TEST_P(FencedMeasures, OfTwoModelsAreThoseOfTheCpu) {
  const auto compare = [&](const OpenedModel& a, const OpenedModel& b) {
    const ModelComparison found =
        CompareModels(a, b, FindMeasuredTexts({text_}, {}).texts, kReading);
    return std::vector<double>{found.kl_mean,      found.kl_99,        found.same_top,
                               found.perplexity_a, found.perplexity_b, found.kl_max};
  };
  const std::vector<double> expected = compare(source_, other_);
  EXPECT_GT(expected.front(), 0);
  EXPECT_EQ(compare(Fenced(source_), Fenced(other_)), expected);
  EXPECT_EQ(compare(source_, Fenced(other_)), expected);
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedMeasures, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
