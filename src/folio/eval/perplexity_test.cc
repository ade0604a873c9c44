#include "folio/eval/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "folio/base/math.h"
#include "folio/base/strings.h"
#include "folio/data/dataset.h"
#include "folio/data/shard_writer.h"
#include "folio/eval/test_measured_model.h"
#include "folio/io/safetensors.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/compressed.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class Perplexities : public MeasureTest {
 protected:
  PerplexityOptions Options(int64_t context, int64_t stride, int64_t batch = 3) const {
    return {.reading = {.shape = {context, stride}, .positions = batch * context}};
  }
  std::vector<TextPerplexity> Measure(const std::vector<std::string>& paths,
                                      const PerplexityOptions& options) const {
    return MeasurePerplexity(model_, FindMeasuredTexts(paths, options.reading.text).texts, options,
                             hooks_);
  }
  // -ln p of each token of a text of bytes that something comes before, by a loop over places.
  std::vector<double> PlainNats(const std::string& text, int64_t context, int64_t stride) const {
    const std::vector<int32_t> ids = model_.tokenizer->Encode(text);
    const auto before = model_.tokenizer->before();
    const int64_t room = context - std::ssize(before);
    stride = std::min(stride, room);
    std::vector<double> nats;
    for (int64_t t = before.empty() ? 1 : 0; t < std::ssize(ids); ++t) {
      const int64_t windows = t <= room ? 0 : (t - room + stride - 1) / stride;
      std::vector<int32_t> seen(before.begin(), before.end());
      seen.insert(seen.end(), ids.begin() + windows * stride, ids.begin() + t);
      nats.push_back(-PlainLogProbabilities(*model_.weights, seen)[size_t(ids[size_t(t)])]);
    }
    return nats;
  }
  static double Sum(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }

  OpenedModel model_ = ByteModel(1);
  std::vector<std::string> notes_;
  MeasureHooks hooks_ = {.on_note = [this](const std::string& note) { notes_.push_back(note); }};
};

TEST_F(Perplexities, AreThoseOfAPlainLoop) {
  const std::string text = SomeText(60);
  const std::string path = Put("a.txt", text);
  for (const auto& [context, stride] :
       {std::pair<int64_t, int64_t>{13, 13}, {13, 6}, {13, 1}, {5, 5}, {5, 2}, {1, 1}}) {
    const TextPerplexity found = Measure({path}, Options(context, stride))[0];
    const double nats = Sum(PlainNats(text, context, stride));
    EXPECT_NEAR(found.nats / nats, 1, 1e-5) << context << " " << stride;
    EXPECT_EQ(found.tokens, 59);
    EXPECT_EQ(found.bytes, 59);
    EXPECT_EQ(found.documents, 1);
    // By hand.
    EXPECT_DOUBLE_EQ(found.perplexity(), std::exp(found.nats / 59));
    EXPECT_DOUBLE_EQ(found.bits_per_byte(), found.nats / std::numbers::ln2 / 59);
    EXPECT_DOUBLE_EQ(found.word_perplexity(), std::exp(found.nats / double(found.words)));
  }
}

// A tokenizer of bytes that puts <s>, 256, before texts, once.
std::unique_ptr<Tokenizer> BytesBehindBeginning() {
  BpeVocab vocab = ByteVocab();
  vocab.before = {AddSpecial(vocab, "<s>")};
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

TEST_F(Perplexities, EachWindowBeginsAsTheTokenizerSaysTextsDo) {
  model_.tokenizer = BytesBehindBeginning();
  for (const auto& [context, stride] :
       {std::pair<int64_t, int64_t>{13, 13}, {13, 6}, {13, 1}, {5, 2}, {2, 1}}) {
    for (const size_t bytes : {1u, 2u, 12u, 13u, 14u, 15u, 60u}) {
      const std::string text = SomeText(bytes);
      PerplexityOptions options = Options(context, stride);
      options.csv = At("t.csv");
      const TextPerplexity found = Measure({Put("a.txt", text)}, options)[0];
      EXPECT_NEAR(found.nats / Sum(PlainNats(text, context, stride)), 1, 1e-5)
          << context << " " << stride << " " << bytes;
      EXPECT_EQ(found.tokens, std::ssize(text));
      EXPECT_EQ(found.bytes, std::ssize(text));
      EXPECT_TRUE(Split(ReadFile(At("t.csv")), '\n')[1].starts_with("0,0,0,"));
    }
  }
  // A text that has it already says the same, but for where its windows begin.
  PerplexityOptions options = Options(13, 6);
  options.reading.special = SpecialRule::Allow();
  const double plain = Measure({Put("a.txt", SomeText(12))}, options)[0].nats;
  const TextPerplexity begun = Measure({Put("b.txt", "<s>" + SomeText(12))}, options)[0];
  EXPECT_EQ(begun.nats, plain);
  EXPECT_EQ(begun.tokens, 12);
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Measure({At("a.txt").string()}, Options(1, 1)); }, ErrorKind::kUsage),
               "no room for a text"));
}

// Its loss is that of the ids behind the first, which all of them see.
TEST_F(Perplexities, BehindABeginningAreThoseOfTransformers) {
  for (const char* family : {"llama", "gemma2"}) {
    const auto dir = Fixture("families") / family;
    const SafetensorsFile expected(dir / "expected.safetensors");
    const auto ids = expected.ReadAs<int32_t>("ids");
    model_.weights = ReadWeights(OpenModelDir(dir));
    BpeVocab vocab;
    const auto letter = [](int32_t id) { return std::string(1, static_cast<char>('@' + id)); };
    for (int32_t id = 0; id < 256; ++id) AddToken(vocab, letter(id));
    vocab.before = {ids[0]};
    model_.tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab));
    std::string text;
    for (size_t t = 1; t < ids.size(); ++t) text += letter(ids[t]);
    const TextPerplexity found = Measure({Put("a.txt", text)}, Options(64, 32))[0];
    EXPECT_EQ(found.tokens, std::ssize(text));
    EXPECT_NEAR(found.nats_per_token(), expected.ReadAs<double>("loss")[0], 2e-5) << family;
  }
}

TEST_F(Perplexities, ShorterAndLongerTextsThanAWindow) {
  for (const size_t bytes : {2u, 3u, 13u, 14u, 15u, 27u}) {
    const std::string text = SomeText(bytes);
    const TextPerplexity found = Measure({Put("a.txt", text)}, Options(13, 6))[0];
    EXPECT_NEAR(found.nats / Sum(PlainNats(text, 13, 6)), 1, 1e-5) << bytes;
  }
}

TEST_F(Perplexities, NoBitDependsOnBatchesOrThreads) {
  GptConfig config = ByteModelConfig();
  config.n_positions = 150;
  config.n_embd = 96;
  config.n_head = 4;
  model_ = ByteModel(3, config);
  const std::string path = Put("a.txt", SomeText(3000));
  for (const WindowShape& shape : {WindowShape{150, 75}, {70, 70}, {40, 7}}) {
    const double first = Measure({path}, Options(shape.context, shape.stride, 1))[0].nats;
    for (const int64_t batch : {2, 5, 100}) {
      EXPECT_EQ(Measure({path}, Options(shape.context, shape.stride, batch))[0].nats, first)
          << batch;
    }
    ExpectSameOnThreads(
        [&] { return Measure({path}, Options(shape.context, shape.stride, 4))[0].nats; });
  }
}

TEST_F(Perplexities, DocumentsAreByThemselves) {
  const std::string one = SomeText(40), other = "x y", single = "z";
  std::string lines;
  for (const std::string& text : {one, single, other}) {
    lines += "{\"text\":" + std::string(text == one ? "\"" : "\"");
    for (const char c : text) {
      lines += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
    }
    lines += "\"}\n";
  }
  const auto found = Measure({Put("a.jsonl", lines), Put("b.txt", other)}, Options(13, 6));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].documents, 3);
  EXPECT_EQ(found[0].tokens, 39 + 0 + 2);
  const double b = Measure({At("b.txt").string()}, Options(13, 6))[0].nats;
  EXPECT_EQ(found[1].nats, b);
  const double a = Measure({Put("one.txt", one)}, Options(13, 6))[0].nats;
  EXPECT_NEAR(found[0].nats, a + b, 1e-9);
  const TextPerplexity total = TotalPerplexity(found);
  EXPECT_EQ(total.tokens, 43);
  EXPECT_EQ(total.nats, found[0].nats + found[1].nats);
  // Compressed it is the same text.
  EXPECT_EQ(Measure({Put("a.gz", Compressed(lines, "gzip"))}, Options(13, 6))[0].nats,
            found[0].nats);
}

// As if the texts ended there, wherever that is.
TEST_F(Perplexities, OfTheFirstTokensAreThoseOfShorterTexts) {
  const std::string one = SomeText(60), other = SomeText(90);
  const std::vector<std::string> paths = {Put("a.txt", one), Put("b.txt", other)};
  for (const int64_t most : {2, 13, 14, 59, 60, 61, 62, 100, 149, 150, 200}) {
    PerplexityOptions options = Options(13, 6);
    options.reading.max_tokens = most;
    const auto found = Measure(paths, options);
    const size_t behind = static_cast<size_t>(std::max<int64_t>(0, most - 60));
    const auto a =
        Measure({Put("c.txt", one.substr(0, static_cast<size_t>(most)))}, Options(13, 6))[0];
    EXPECT_EQ(found[0].nats, a.nats) << most;
    EXPECT_EQ(found[0].words, a.words) << most;
    EXPECT_EQ(found[0].bytes, a.bytes) << most;
    ASSERT_EQ(found.size(), behind < 2 ? 1u : 2u) << most;
    if (behind < 2) continue;
    const auto b = Measure({Put("d.txt", other.substr(0, behind))}, Options(13, 6))[0];
    EXPECT_EQ(found[1].nats, b.nats) << most;
    EXPECT_EQ(found[1].tokens, b.tokens) << most;
  }
}

TEST_F(Perplexities, OfADataSetIsThatOfItsHeldOutPart) {
  const std::string text = SomeText(50);
  const std::string train = "other";
  std::filesystem::create_directories(At("data"));
  const auto put = [&](const char* name, const std::string& bytes) {
    std::string ids;
    for (const unsigned char byte : bytes) ids += {static_cast<char>(byte), '\0'};
    WriteFileAtomically(At("data") / name, ids);
  };
  put(kTrainFile, train);
  put(kValFile, text);
  const double expected = Measure({Put("a.txt", text)}, Options(13, 4))[0].nats;
  const TextPerplexity found = Measure({At("data").string()}, Options(13, 4))[0];
  EXPECT_EQ(found.nats, expected);
  EXPECT_EQ(found.bytes, 49);
  model_.tokenizer.reset();  // its tokens are known, their bytes are not
  const TextPerplexity bare = Measure({At("data").string()}, Options(13, 4))[0];
  EXPECT_EQ(bare.nats, expected);
  EXPECT_EQ(bare.bytes, 0);
  EXPECT_TRUE(std::isnan(bare.bits_per_byte()));
  EXPECT_TRUE(std::isnan(bare.word_perplexity()));
}

TEST_F(Perplexities, TheTableHasARowForEachPredictedToken) {
  const std::string text = "a\"\n\\\x01\xFFz é";
  PerplexityOptions options = Options(5, 2);
  options.csv = At("t.csv");
  const TextPerplexity found = Measure({Put("a.txt", text)}, options)[0];
  const std::vector<std::string> lines = Split(ReadFile(At("t.csv")), '\n');
  EXPECT_EQ(lines[0], "document,index,byte,id,token,nats,rank");
  EXPECT_EQ(lines.size(), 1 + 9 + 1u);
  const std::vector<double> plain = PlainNats(text, 5, 2);
  const char* kTokens[] = {"\"\"\"\"", "\"\\n\"", "\"\\\\\"",  "\"\\x01\"", "\"\\xff\"",
                           "\"z\"",    "\" \"",   "\"\\xc3\"", "\"\\xa9\""};
  double sum = 0;
  for (size_t i = 0; i < 9; ++i) {
    const std::string head = "0," + std::to_string(i + 1) + "," + std::to_string(i + 1) + "," +
                             std::to_string(static_cast<unsigned char>(text[i + 1])) + "," +
                             kTokens[i] + ",";
    ASSERT_TRUE(lines[i + 1].starts_with(head)) << lines[i + 1];
    const std::vector<std::string> rest = Split(lines[i + 1].substr(head.size()), ',');
    EXPECT_NEAR(std::stod(rest[0]), plain[i], 1e-4);
    EXPECT_GE(std::stoi(rest[1]), 1);
    sum += std::stod(rest[0]);
  }
  EXPECT_EQ(sum, found.nats);
}

// Wherever a call stopped, also in the middle of a line.
TEST_F(Perplexities, GoOnWhereACallWasInterrupted) {
  PerplexityOptions options = Options(13, 6, 2);
  options.csv = At("t.csv");
  const std::vector<std::string> texts = {Put("a.txt", SomeText(70)), Put("b.txt", SomeText(30))};
  const auto whole = Measure(texts, options);
  const std::string csv = ReadFile(At("t.csv"));
  std::filesystem::remove(At("t.csv"));

  int passes = 0;
  struct Interrupted {};
  MeasureHooks interrupted;
  interrupted.on_progress = [&](const MeasureProgress&) {
    if (++passes == 2) throw Interrupted();
  };
  const auto found = FindMeasuredTexts(texts, {}).texts;
  EXPECT_THROW(MeasurePerplexity(model_, found, options, interrupted), Interrupted);
  ASSERT_EQ(Names().size(), 3u);
  const std::string part = Names()[0];
  ASSERT_TRUE(part.starts_with(".t.csv.") && part.ends_with(".part")) << part;
  const std::string left = ReadFile(At(part));
  EXPECT_TRUE(csv.starts_with(left) && left.size() < csv.size());

  for (size_t size = 0; size <= csv.size(); size += 53) {
    std::filesystem::remove(At("t.csv"));
    Put(part, csv.substr(0, size));
    const auto again = Measure(texts, options);
    EXPECT_EQ(ReadFile(At("t.csv")), csv) << size;
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(again[i].nats, whole[i].nats);
    EXPECT_EQ(Names().size(), 3u);
  }
  EXPECT_EQ(notes_, std::vector<std::string>());

  // All but what is missing is taken from there: one number that was changed stays changed.
  const std::string first = csv.substr(0, csv.find('\n', csv.find('\n') + 1) + 1);
  const std::string changed = first.substr(0, first.rfind(',') + 1) + "77\n";
  Put(part, changed + left.substr(first.size()));
  Measure(texts, options);
  EXPECT_EQ(ReadFile(At("t.csv")), changed + csv.substr(first.size()));
  EXPECT_EQ(notes_.size(), 0u);
}

TEST_F(Perplexities, WhatDoesNotFitIsMeasuredAgainWithANote) {
  PerplexityOptions options = Options(13, 6, 2);
  options.csv = At("t.csv");
  const std::vector<std::string> texts = {Put("a.txt", SomeText(70))};
  Measure(texts, options);
  const std::string csv = ReadFile(At("t.csv"));
  MeasureHooks interrupted;
  interrupted.on_progress = [](const MeasureProgress&) { throw 1; };
  EXPECT_THROW(MeasurePerplexity(model_, FindMeasuredTexts(texts, {}).texts, options, interrupted),
               int);
  const std::string part = Names()[0];
  const std::string middle = csv.substr(csv.find("\n0,20,") + 1);
  for (const std::string& damaged :
       {"x" + csv, std::string("\n\n\n"), csv + "0,1,1,1,\"\",1,1\n",
        csv.substr(0, csv.size() - middle.size()) + "0,21" + middle.substr(4),
        Replaced(csv, "document", "index"), csv.substr(0, 200) + "\n" + csv.substr(200)}) {
    notes_.clear();
    Put(part, damaged);
    Measure(texts, options);
    EXPECT_EQ(ReadFile(At("t.csv")), csv);
    EXPECT_EQ(notes_.size(), 1u) << damaged;
  }
  // Other windows are another measurement.
  notes_.clear();
  Put(part, csv);
  options.reading.shape.stride = 5;
  Measure(texts, options);
  EXPECT_NE(ReadFile(At("t.csv")), csv);
  EXPECT_EQ(notes_.size(), 0u);
}

TEST_F(Perplexities, WhatCannotBeMeasuredIsRefused) {
  const auto refusal = [&](const std::string& path) {
    return ErrorOf([&] { Measure({path}, Options(13, 6)); });
  };
  EXPECT_TRUE(Contains(refusal(Put("empty.txt", "")), "empty.txt: empty"));
  EXPECT_TRUE(
      Contains(refusal(Put("one.txt", "x")), "one.txt: nothing to predict", "a single token"));
  EXPECT_TRUE(Contains(refusal(Put("ones.jsonl", "{\"text\":\"x\"}\n{\"text\":\"y\"}\n")),
                       "nothing to predict", "each document has a single token"));
  EXPECT_TRUE(Contains(refusal(At("none.txt").string()), "none.txt"));
  GptConfig config = ByteModelConfig();
  config.causal = false;
  model_ = ByteModel(1, config);
  EXPECT_TRUE(Contains(refusal(Put("a.txt", "some text")),
                       "the model is bidirectional and cannot predict text"));
}

std::vector<int32_t> Counted(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

TEST(Windows, PredictEveryTokenButTheFirstOnce) {
  for (const int64_t tokens : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 40}) {
    for (const int64_t context : {1, 2, 5, 8}) {
      for (int64_t stride = 1; stride <= context; ++stride) {
        const std::vector<int32_t> ids = Counted(tokens);
        int64_t next = 1;
        for (const TextWindow& w : CutWindows(ids, {context, stride})) {
          ASSERT_LE(std::ssize(w.ids), context);
          ASSERT_FALSE(w.targets.empty());
          EXPECT_EQ(w.begin, next);
          const int64_t base = w.begin - 1 - w.first;
          EXPECT_EQ(base % stride, 0);
          for (size_t i = 0; i < w.ids.size(); ++i) {
            EXPECT_EQ(w.ids[i], 100 + base + static_cast<int64_t>(i));
          }
          for (const int32_t target : w.targets) EXPECT_EQ(target, 100 + next++);
          EXPECT_LE(w.first + std::ssize(w.targets), std::ssize(w.ids));
          if (base > 0) {
            EXPECT_GE(w.first + 1, context - stride + 1);
          }
        }
        EXPECT_EQ(next, std::max<int64_t>(tokens, 1)) << tokens << " " << context << " " << stride;
      }
    }
  }
}

TEST(Windows, DoNotDependOnThePiecesOfTheText) {
  const std::vector<int32_t> ids = Counted(53);
  const std::vector<TextWindow> whole = CutWindows(ids, {8, 3});
  for (const size_t piece : {1u, 2u, 7u, 8u, 9u, 50u}) {
    std::vector<TextWindow> windows;
    WindowCutter cutter({8, 3}, [&](TextWindow w) { windows.push_back(std::move(w)); });
    for (int text = 0; text < 2; ++text) {  // a cutter begins anew
      windows.clear();
      for (size_t at = 0; at < ids.size(); at += piece) {
        cutter.Add(std::span(ids).subspan(at, std::min(piece, ids.size() - at)));
      }
      cutter.Finish();
      ASSERT_EQ(windows.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(windows[i].ids, whole[i].ids);
        EXPECT_EQ(windows[i].targets, whole[i].targets);
        EXPECT_EQ(windows[i].begin, whole[i].begin);
      }
    }
  }
}

TEST(Windows, WhatCannotBeIsRefused) {
  EXPECT_EQ(ChooseWindows(0, 0, 1024).context, 1024);
  EXPECT_EQ(ChooseWindows(0, 0, 1024).stride, 512);
  EXPECT_EQ(ChooseWindows(0, 0, 1).stride, 1);
  EXPECT_EQ(ChooseWindows(64, 64, 1024).stride, 64);
  EXPECT_TRUE(
      Contains(ErrorOf([] { ChooseWindows(65, 0, 64); }, ErrorKind::kUsage), "--context 65"));
  EXPECT_TRUE(
      Contains(ErrorOf([] { ChooseWindows(32, 33, 64); }, ErrorKind::kUsage), "--stride 33"));
}

// Python's len(re.split(r"\s+", text)), of which each number was asked there.
TEST(Words, AreThoseOfPythonsSplit) {
  const std::pair<std::string, int64_t> kTexts[] = {{"", 1},
                                                    {"a", 1},
                                                    {" ", 2},
                                                    {"a b", 2},
                                                    {"  a \n b\t", 4},
                                                    {"a\u00A0b", 2},
                                                    {"a\u3000\u2003b", 2},
                                                    {"a\u200Bb", 1},
                                                    {"a\x1C\x1D"
                                                     "b",
                                                     2},
                                                    {"a\u0085b", 2},
                                                    {"a\xFF b", 2}};
  for (const auto& [text, words] : kTexts) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      WordCounter counter;
      counter.Add(text.substr(0, cut));
      counter.Add(text.substr(cut));
      EXPECT_EQ(counter.Finish(), words) << text;
      EXPECT_EQ(counter.Finish(), 1);
    }
  }
}

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
                       "the vocabularies have 257 and 260 tokens"));
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
