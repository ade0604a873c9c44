// Measures on several ranks are those of one.
#include <gtest/gtest.h>

#include "folio/eval/cloze.h"
#include "folio/eval/compare.h"
#include "folio/eval/test_measured_model.h"
#include "folio/model/transformer.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

class MeasuresOnRanks : public MeasureTest {
 protected:
  const std::string a_ = Put("a.txt", SomeText(300)), b_ = Put("b.txt", SomeText(20));
};

TEST_F(MeasuresOnRanks, PerplexitiesAndTheirRowsAreTheSame) {
  const auto measure = [&](Group& group, const std::string& csv) {
    const PerplexityOptions options{
        .reading = {.shape = {13, 6}, .positions = 39}, .csv = At(csv), .group = &group};
    return MeasurePerplexity(ByteModel(1), FindMeasuredTexts({a_, b_}, {}).texts, options);
  };
  Group alone;
  const auto one = measure(alone, "t1.csv");
  for (const int ranks : {2, 3, 5}) {
    const std::string csv = "t" + std::to_string(ranks) + ".csv";
    RunOnThreads(ranks, [&](Group& group) {
      const auto found = measure(group, csv);
      if (!group.first()) {
        EXPECT_TRUE(found.empty());
        return;
      }
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(found[i].nats, one[i].nats) << ranks;
        EXPECT_EQ(found[i].tokens, one[i].tokens);
      }
    });
    EXPECT_EQ(ReadFile(At(csv)), ReadFile(At("t1.csv"))) << ranks;
  }
}

TEST_F(MeasuresOnRanks, ComparisonsAreTheSame) {
  const auto compare = [&](Group& group) {
    const ReadingOptions reading{.shape = {7, 4}, .positions = 21};
    return CompareModels(ByteModel(1), ByteModel(2), FindMeasuredTexts({a_}, {}).texts, reading, {},
                         &group);
  };
  Group alone;
  const ModelComparison one = compare(alone);
  RunOnThreads(3, [&](Group& group) {
    const ModelComparison found = compare(group);
    if (!group.first()) return;
    EXPECT_EQ(found.tokens, one.tokens);
    EXPECT_EQ(found.kl_mean, one.kl_mean);
    EXPECT_EQ(found.kl_99, one.kl_99);
    EXPECT_EQ(found.same_top, one.same_top);
    EXPECT_EQ(found.perplexity_b, one.perplexity_b);
    EXPECT_EQ(found.log_probability_difference, one.log_probability_difference);
  });
}

// Endings of every length, so that ranks have different ones.
TEST_F(MeasuresOnRanks, ChoicesAndTheirLinesAreTheSame) {
  std::string items;
  for (int i = 0; i < 40; ++i) {
    items += R"({"ctx":"ab","endings":[")" + std::string(1 + i % 7, 'c') + R"(","d"],"label":)" +
             std::to_string(i % 2) + "}\n";
  }
  const std::string file = Put("items.jsonl", items);
  const auto measure = [&](Group& group, const std::string& out) {
    return MeasureCloze(ByteModel(2), file, {.positions = 26, .out = At(out), .group = &group});
  };
  Group alone;
  const ClozeResult one = measure(alone, "1");
  RunOnThreads(3, [&](Group& group) {
    const ClozeResult found = measure(group, "3");
    if (group.first()) {
      EXPECT_EQ(found.acc_norm.right, one.acc_norm.right);
    }
  });
  EXPECT_EQ(one.acc.items, 40);
  EXPECT_EQ(ReadFile(At("3")), ReadFile(At("1")));
}

// Whichever rank had the prediction, the first one names it.
TEST_F(MeasuresOnRanks, LogitsThatAreNotFiniteAreToldByTheFirst) {
  RunOnThreads(3, [&](Group& group) {
    const OpenedModel model = ByteModel(1);
    model.weights->params().wpe.data<float>()[12 * 4] = NAN;  // from position 4 on
    const PerplexityOptions options{.reading = {.shape = {13, 6}, .positions = 39},
                                    .group = &group};
    const auto texts = FindMeasuredTexts({a_, b_}, {}).texts;
    if (!group.first()) {
      MeasurePerplexity(model, texts, options);
      return;
    }
    EXPECT_TRUE(
        Contains(ErrorOf([&] { MeasurePerplexity(model, texts, options); }, ErrorKind::kDiverged),
                 "logits that are not finite", "token 5 of document 0"));
  });
}

// An error that the first rank finds is its alone, and the others go home.
TEST_F(MeasuresOnRanks, AnErrorOfTheFirstRankEndsThemAll) {
  int home = 0;
  RunOnThreads(2, [&](Group& group) {
    const PerplexityOptions options{.reading = {.shape = {13, 6}, .positions = 39},
                                    .group = &group};
    if (!group.first()) {
      MeasurePerplexity(ByteModel(1), {}, options);
      ++home;
      return;
    }
    const std::string single = Put("single.txt", "x");
    EXPECT_TRUE(Contains(
        ErrorOf([&] {
          MeasurePerplexity(ByteModel(1), FindMeasuredTexts({a_, single}, {}).texts, options);
        }),
        "single.txt: nothing to predict"));
  });
  EXPECT_EQ(home, 1);
}

}  // namespace
}  // namespace folio
