#include "folio/eval/cloze.h"

#include <gtest/gtest.h>

#include <cmath>

#include "folio/eval/perplexity.h"
#include "folio/eval/test_measured_model.h"
#include "folio/io/json.h"
#include "folio/model/transformer.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

// A model whose next byte depends on nothing: ln p is what we say, up to a constant. The position
// and the blocks add nothing to a last LayerNorm of weight 0, whose bias is the first unit vector.
OpenedModel KnownModel(const std::vector<std::pair<char, float>>& logits) {
  GptConfig config = ByteModelConfig();
  config.tie_word_embeddings = false;
  OpenedModel model = ByteModel(1, config);
  const GptParams& params = model.weights->params();
  for (int64_t c = 0; c < config.n_embd; ++c) {
    params.ln_f.weight.data<float>()[c] = 0;
    params.ln_f.bias.data<float>()[c] = c == 0;
  }
  for (int64_t v = 0; v < config.vocab_size; ++v) {
    for (int64_t c = 0; c < config.n_embd; ++c) {
      params.lm_head_weight.data<float>()[v * config.n_embd + c] = 0;
    }
  }
  for (const auto& [byte, logit] : logits) {
    params.lm_head_weight.data<float>()[static_cast<unsigned char>(byte) * config.n_embd] = logit;
  }
  return model;
}

class Cloze : public MeasureTest {
 protected:
  ClozeResult Measure(const std::string& file, const ClozeOptions& options = {.positions = 26}) {
    return MeasureCloze(model_, file, options, hooks_);
  }
  std::string Refusal(const std::string& line, ClozeText text = ClozeText::kAsIs) {
    return ErrorOf([&] { Measure(Put("x.jsonl", line), {.text = text, .positions = 26}); });
  }

  OpenedModel model_ = ByteModel(2);
  std::vector<std::string> notes_;
  MeasureHooks hooks_ = {.on_note = [this](const std::string& note) { notes_.push_back(note); }};
};

// Three ways of choosing that choose differently: ln p of a byte is its logit less ln Z.
TEST_F(Cloze, AccuraciesByHand) {
  model_ = KnownModel({{' ', 4.45f}, {'b', 3.45f}, {'a', 4.25f}, {'\xC3', 4.55f}, {'\xA9', 4.55f}});
  const double ln_z =
      std::log(252 + std::exp(4.45) + std::exp(3.45) + std::exp(4.25) + 2 * std::exp(4.55));
  const double space = 4.45 - ln_z, b = 3.45 - ln_z, a = 4.25 - ln_z, accent = 2 * (4.55 - ln_z);
  // Sums, sums for each character, for each token (the space is a token, and no character).
  const double sums[] = {space + b, space + 3 * a, space + 2 * accent};
  const double norms[] = {sums[0] / 1, sums[1] / 3, sums[2] / 2};
  const double tokens[] = {sums[0] / 2, sums[1] / 4, sums[2] / 5};
  const auto best = [](const double(&x)[3]) { return std::max_element(x, x + 3) - x; };
  ASSERT_EQ(best(sums), 0);
  ASSERT_EQ(best(norms), 1);
  ASSERT_EQ(best(tokens), 2);
  const std::string file =
      Put("a.jsonl",
          "{\"ctx\":\"So\",\"endings\":[\"b\",\"aaa\",\"éé\"],\"label\":0}\n"
          "{\"query\":\"So\",\"choices\":[\"b\",\"aaa\",\"éé\"],\"gold\":1}\n\n"
          "{\"ctx\":\"So \",\"endings\":[\"b\",\"aaa\",\"éé\"],\"label\":\"0\",\"ind\":7}\n"
          "{\"ctx\":\"So\",\"endings\":[\"aaa\",\"aaa\"],\"label\":1}\n");
  const ClozeResult found = Measure(file, {.positions = 26, .out = At("out.jsonl")});
  const std::string out = ReadFile(At("out.jsonl"));
  const Json line = ParseJson(out.substr(0, out.find('\n')), "out");
  for (size_t e = 0; e < 3; ++e) {
    const Json& ending = line.at("endings").at(e);
    EXPECT_NEAR(ending.at("log_probability").get<double>(), sums[e], 1e-5);
    EXPECT_EQ(ending.at("characters").get<int64_t>(), std::to_array({1, 3, 2})[e]);
    EXPECT_EQ(ending.at("tokens").get<int64_t>(), std::to_array({2, 4, 5})[e]);
  }
  EXPECT_EQ(line.at("choice").get<int>(), 0);
  EXPECT_EQ(line.at("choice_norm").get<int>(), 1);
  EXPECT_EQ(line.at("choice_token").get<int>(), 2);
  // The first of equal endings is chosen.
  EXPECT_EQ(found.acc.items, 4);
  EXPECT_EQ(found.acc.right, 2);
  EXPECT_EQ(found.acc_norm.right, 1);
  EXPECT_EQ(found.acc_token.right, 0);
  // The deviation of 1, 0, 1, 0 from their mean, of 3 in 4, over the root of 4.
  EXPECT_NEAR(found.acc.standard_error(), std::sqrt(4 * 0.25 / 3) / 2, 1e-12);
}

TEST_F(Cloze, EndingsAreScoredAsAPlainLoopDoes) {
  const std::string contexts[] = {"A", "some words", "much longer than the context is, "};
  std::string lines;
  for (const std::string& context : contexts) {
    lines += "{\"ctx\":\"" + context + "\",\"endings\":[\"x\",\"yes it is\"],\"label\":1}\n";
  }
  Measure(Put("a.jsonl", lines), {.positions = 26, .out = At("out.jsonl")});
  const std::string out = ReadFile(At("out.jsonl"));
  size_t at = 0;
  for (const std::string& context : contexts) {
    const Json line = ParseJson(out.substr(at, out.find('\n', at) - at), "out");
    at = out.find('\n', at) + 1;
    for (size_t e = 0; e < 2; ++e) {
      std::vector<int32_t> ids = model_.tokenizer->Encode(context + (e == 0 ? " x" : " yes it is"));
      const size_t tokens = (e == 0 ? 2 : 10) + (context.ends_with(' ') ? 1 : 0);
      if (ids.size() > 14) ids.erase(ids.begin(), ids.end() - 14);
      double sum = 0;
      for (size_t t = ids.size() - tokens; t < ids.size(); ++t) {
        sum += PlainLogProbabilities(*model_.weights, std::span(ids).first(t))[size_t(ids[t])];
      }
      EXPECT_NEAR(line.at("endings").at(e).at("log_probability").get<double>(), sum, 1e-4)
          << context;
    }
  }
}

TEST_F(Cloze, NothingDependsOnBatchesThreadsOrInterruptions) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += "{\"ctx\":\"" + std::string(size_t(i % 9) + 1, char('a' + i % 7)) +
             "\",\"endings\":[\"one\",\"to\",\"" + std::string(size_t(i % 4) + 1, 'q') +
             "\"],\"label\":" + std::to_string(i % 3) + "}\n";
  }
  const std::string file = Put("a.jsonl", lines);
  const auto out_of = [&](int64_t positions) {
    Measure(file, {.positions = positions, .out = At("out.jsonl")});
    return ReadFile(At("out.jsonl"));
  };
  const std::string out = out_of(1);
  EXPECT_EQ(Count(out, "\n"), 40u);
  for (const int64_t positions : {13, 100, 100000}) EXPECT_EQ(out_of(positions), out);
  ExpectSameOnThreads([&] { return out_of(50); });

  std::filesystem::remove(At("out.jsonl"));
  MeasureHooks interrupted;
  interrupted.on_progress = [](const MeasureProgress&) { throw 1; };
  EXPECT_THROW(MeasureCloze(model_, file, {.positions = 26, .out = At("out.jsonl")}, interrupted),
               int);
  const std::string part = Names()[0];
  ASSERT_TRUE(out.starts_with(ReadFile(At(part)))) << part;
  const ClozeResult whole = Measure(file);
  for (size_t size = 0; size <= out.size(); size += 397) {
    Put(part, out.substr(0, size));
    const ClozeResult again = Measure(file, {.positions = 26, .out = At("out.jsonl")});
    EXPECT_EQ(ReadFile(At("out.jsonl")), out);
    EXPECT_EQ(again.acc.right, whole.acc.right);
    EXPECT_EQ(again.acc_token.items, 40);
  }
  EXPECT_EQ(notes_.size(), 0u);
  Put(part, Replaced(out, "\"index\":3,", "\"index\":4,"));
  EXPECT_EQ(out_of(26), out);
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(Cloze, AnEmptyContextStandsForTheTokenBetweenTexts) {
  const ClozeItem item{.context = "", .endings = {"x", "y"}, .label = 0, .where = "here"};
  const std::vector<TextWindow> windows = ClozeWindows(item, *model_.tokenizer, 13);
  EXPECT_EQ(windows[0].ids, (std::vector<int32_t>{256, ' '}));
  EXPECT_EQ(windows[0].targets, (std::vector<int32_t>{' ', 'x'}));
  EXPECT_EQ(windows[0].first, 0);
}

// However much of the context does not fit.
TEST_F(Cloze, WhatTheTokenizerPutsBeforeTextsComesFirst) {
  BpeVocab vocab = ByteVocab();
  vocab.before = {AddSpecial(vocab, "<s>")};
  const BpeTokenizer tokenizer(std::move(vocab));
  const auto ids = [&](const std::string& context, int64_t n_positions) {
    const ClozeItem item{.context = context, .endings = {"xy", "z"}, .where = "a:1"};
    const TextWindow window = ClozeWindows(item, tokenizer, n_positions)[0];
    EXPECT_EQ(window.targets, (std::vector<int32_t>{' ', 'x', 'y'}));
    EXPECT_EQ(window.first, std::ssize(window.ids) - 3);
    return window.ids;
  };
  EXPECT_EQ(ids("abc", 13), (std::vector<int32_t>{256, 'a', 'b', 'c', ' ', 'x'}));
  EXPECT_EQ(ids("abc", 5), (std::vector<int32_t>{256, 'b', 'c', ' ', 'x'}));
  EXPECT_EQ(ids("abc", 3), (std::vector<int32_t>{256, ' ', 'x'}));
  EXPECT_EQ(ids("", 13), (std::vector<int32_t>{256, ' ', 'x'}));
  EXPECT_TRUE(Contains(ErrorOf([&] { ids("abc", 2); }), "ending 0 is too long"));
}

// The expected texts are those of Python's preprocess of lm-eval's task.
TEST_F(Cloze, HellaSwagIsCleanedAsTheHarnessDoes) {
  EXPECT_EQ(CleanHellaSwag("  How to [title] Do it [step] now. [substeps] Then  go.\n"),
            "How to. Do it now. Then go.");
  EXPECT_EQ(CleanHellaSwag("a [b"), "a [b");
  EXPECT_EQ(CleanHellaSwag("[x]a   b"), "a  b");
  EXPECT_EQ(CleanHellaSwag(" \n "), "");
  const ClozeItem item = ParseClozeItem(
      "{\"activity_label\":\"Roof\",\"ctx_a\":\"A man sits.\",\"ctx_b\":\"he LOOKS\",\"ctx\":\"A "
      "man "
      "sits. he LOOKS\",\"endings\":[\"up [x]\",\" down\"],\"label\":1}",
      [] { return std::string("a:1"); }, ClozeText::kHellaSwag);
  EXPECT_EQ(item.context, "Roof: A man sits. He looks");
  EXPECT_EQ(item.endings, (std::vector<std::string>{"up ", "down"}));
}

TEST_F(Cloze, WhatIsNoQuestionIsRefusedWithItsLine) {
  const std::string good = "{\"ctx\":\"A\",\"endings\":[\"b\",\"c\"],\"label\":0}";
  EXPECT_TRUE(Contains(Refusal(good + "\n" + Replaced(good, "0}", "2}")), "x.jsonl:2",
                       "\"label\" is 2, the endings are 0 to 1"));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "0}", "-1}")), "\"label\" is -1"));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "0}", "9223372036854775808}")),
                       "\"label\" is 9223372036854775808"));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "0}", "\"x\"}")), "\"label\" is \"x\""));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, ",\"label\":0", "")), "no \"label\""));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "ctx", "text")), "it has no string \"query\""));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "\"b\",", "")),
                       "it has no array \"endings\" of two strings or more"));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "\"b\"", "7")), "ending 7 is not a string"));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "\"b\"", "\"\"")), "ending 0 is empty"));
  EXPECT_TRUE(
      Contains(Refusal(good, ClozeText::kHellaSwag), "it has no string \"activity_label\""));
  EXPECT_TRUE(Contains(Refusal(Replaced(good, "\"b\"", "\"" + std::string(20, 'b') + "\"")),
                       "ending 0 is too long", "21 tokens"));
  EXPECT_TRUE(Contains(Refusal(""), "x.jsonl: empty"));
  EXPECT_TRUE(Contains(ErrorOf([&] { Measure(Put("a.txt", "Some text\n")); }),
                       ": no multiple-choice questions"));
  model_.tokenizer.reset();
  EXPECT_TRUE(Contains(Refusal(good), "no tokenizer"));
}

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
                 "the logits of the model are not finite", "token 5 of document 0"));
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
