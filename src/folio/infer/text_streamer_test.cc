#include "folio/infer/text_streamer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "folio/base/utf8.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/test_small_model.h"
#include "folio/model/test_models.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

struct Seen {
  std::string text;
  bool found = false;
  bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << '"' << seen.text << '"' << (seen.found ? " found" : "");
}

Seen Through(const Strings& stops, const Strings& pieces) {
  StopStrings finder(stops);
  Seen seen;
  for (const std::string& piece : pieces) seen.text += finder.Add(piece);
  seen.found = finder.found();
  seen.text += finder.Flush();
  return seen;
}

// Whole characters.
Strings Characters(const std::string& text) {
  Strings characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

// Every way to cut the text between characters shows the same.
void ExpectAnywayCut(const Strings& stops, const std::string& text, const Seen& expected) {
  const Strings characters = Characters(text);
  ASSERT_LE(characters.size(), 14u);
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (characters.size() - 1); ++cuts) {
    Strings pieces(1);
    for (size_t i = 0; i < characters.size(); ++i) {
      if (i > 0 && (cuts >> (i - 1) & 1) != 0) pieces.emplace_back();
      pieces.back() += characters[i];
    }
    ASSERT_EQ(Through(stops, pieces), expected) << text << " cut by " << cuts;
  }
}

TEST(StopStrings, AreFoundHoweverTheTextIsCut) {
  ExpectAnywayCut({"END"}, "one END two", {"one ", true});
  ExpectAnywayCut({"END"}, "EENENDx", {"EEN", true});
  ExpectAnywayCut({"aab"}, "aaaab", {"aa", true});
  ExpectAnywayCut({"END"}, "an EN", {"an EN", false});
  ExpectAnywayCut({"\n\n", "END"}, "a\nEN\n\nEND", {"a\nEN", true});
  ExpectAnywayCut({"жи\U0001F600"}, "я жи жи\U0001F600", {"я жи ", true});
  ExpectAnywayCut({"x"}, "xyz", {"", true});
  ExpectAnywayCut({}, "nothing", {"nothing", false});
}

TEST(StopStrings, TheOneThatIsWholeFirstCounts) {
  ExpectAnywayCut({"abcd", "bc"}, "1abcd", {"1a", true});
  ExpectAnywayCut({"bc", "abc"}, "1abcd", {"1", true});
  ExpectAnywayCut({"abx", "bcd"}, "1abcd", {"1a", true});
}

TEST(StopStrings, HoldBackOnlyWhatCouldBecomeOne) {
  StopStrings finder({"stop", "\n\n"});
  EXPECT_EQ(finder.Add("a st"), "a ");
  EXPECT_EQ(finder.Add("ar"), "star");
  EXPECT_EQ(finder.Add("sst\n"), "sst");
  EXPECT_EQ(finder.Add("s"), "\n");
  EXPECT_EQ(finder.Add("t"), "");
  EXPECT_EQ(finder.Flush(), "st");
  EXPECT_FALSE(finder.found());
  EXPECT_EQ(finder.Add("op"), "op");
}

TEST(StopStrings, NothingComesAfterThem) {
  StopStrings finder({"."});
  EXPECT_EQ(finder.Add("a.b"), "a");
  EXPECT_EQ(finder.Add("c"), "");
  EXPECT_EQ(finder.Flush(), "");
  EXPECT_TRUE(finder.found());
}

TEST(StopStrings, MustBeTexts) {
  EXPECT_TRUE(Contains(ErrorOf([] { StopStrings({"a", ""}); }, ErrorKind::kUsage), "is empty"));
  EXPECT_TRUE(Contains(ErrorOf([] { StopStrings({"\xC3"}); }, ErrorKind::kUsage), "not UTF-8"));
}

std::unique_ptr<Tokenizer> Letters() {
  CharSetBuilder characters;
  characters.Add("abc");
  return characters.Build();
}

TEST(TextStreamer, ShowsTokensThatTheTokenizerLacksAsUnknown) {
  EXPECT_EQ(TextOf(*Letters(), std::vector<int32_t>{0, 17, 2}), "a\uFFFDc");
}

TEST(PromptTokens, BeginOnceWithWhatTheTokenizerPutsBeforeTexts) {
  BpeVocab vocab = ByteVocab();
  const int32_t begin = AddSpecial(vocab, "<s>");
  const BpeTokenizer plain(vocab);
  vocab.before = {begin};
  const BpeTokenizer tokenizer(std::move(vocab));
  EXPECT_EQ(PromptTokens(plain, "ab"), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(PromptTokens(plain, ""), (std::vector<int32_t>{'\n'}));
  EXPECT_EQ(PromptTokens(tokenizer, "ab"), (std::vector<int32_t>{begin, 'a', 'b'}));
  EXPECT_EQ(PromptTokens(tokenizer, "<s>ab"), (std::vector<int32_t>{begin, 'a', 'b'}));
  EXPECT_EQ(PromptTokens(tokenizer, ""), (std::vector<int32_t>{begin}));
}

TEST(ForTokens, StopAtAllThatAnyPlaceNames) {
  BpeVocab vocab = ByteVocab();
  const int32_t end = AddSpecial(vocab, "<|endoftext|>"), named = AddSpecial(vocab, "</s>");
  OpenedModel model;
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab));
  tokenizer->set_chat_source({.eos_token = "</s>"});  // of a directory without a template
  model.tokenizer = std::move(tokenizer);
  GptConfig config = TinyConfig();
  config.vocab_size = 300;
  config.eos_token_id = 5;
  config.more_eos_token_ids = {7, 9};
  model.weights = std::make_unique<GptWeights>(config);
  const GenerateOptions options = ForTokens(model, {.stop_tokens = {3}});
  const std::set<int32_t> ends(options.stop_tokens.begin(), options.stop_tokens.end());
  EXPECT_EQ(ends, (std::set<int32_t>{3, 5, 7, 9, end, named}));
  EXPECT_EQ(options.usable, IdsWithTokens(*model.tokenizer));
}

// Models whose vocabulary is padded, continued after their last id, which has no token.
void ExpectOnlyTokens(const Tokenizer& tokenizer, int64_t vocab_size) {
  GptConfig config = TinyConfig();
  config.vocab_size = vocab_size;
  GptWeights weights(config);
  Scatter(weights, 1);
  const auto backend = MakeBackend("cpu");
  Generator generator(*backend, weights);
  const std::vector<bool> with = IdsWithTokens(tokenizer);
  for (const double temperature : {0.0, 3.0}) {
    std::string shown;
    const GeneratedText written =
        GenerateText(generator, tokenizer, {static_cast<int32_t>(vocab_size - 1)},
                     {.sampling = {.temperature = temperature, .seed = 1}, .max_tokens = 20}, 0,
                     [&](std::string_view text) {
                       shown += text;
                       return true;
                     });
    EXPECT_TRUE(written.ids.size() == 20u || written.reason == FinishReason::kStop);
    for (const int32_t id : written.ids) {
      ASSERT_LT(static_cast<size_t>(id), with.size());
      EXPECT_TRUE(with[static_cast<size_t>(id)]) << id;
    }
    EXPECT_EQ(written.text, TextOf(tokenizer, written.ids));
    EXPECT_EQ(shown, written.text);
  }
}

TEST(TextStreamer, NoTurnIsBegunInsideOfOne) {
  const auto tokenizer = WithChatTokens(*Letters());
  const ChatFormat chat = FindChatFormat(*tokenizer).value();
  GptConfig config = TinyConfig();
  config.vocab_size = tokenizer->vocab_size();
  GptWeights weights(config);
  Scatter(weights, 1);
  const auto backend = MakeBackend("cpu");
  Generator generator(*backend, weights);
  GenerateOptions options{.sampling = {.seed = 1}, .max_tokens = 50};
  // As a model would that has learnt little but that turns are frequent.
  for (const int32_t role : {chat.system, chat.user, chat.assistant}) {
    options.sampling.penalties.bias.push_back({role, 50});
  }
  options.sampling.penalties.bias.push_back({chat.end, -50});
  const GeneratedText written = GenerateText(generator, *tokenizer, {chat.user, 0, chat.end},
                                             options, 0, [](auto) { return true; });
  EXPECT_FALSE(written.ids.empty());
  EXPECT_EQ(written.text.find('|'), std::string::npos) << written.text;
}

TEST(TextStreamer, IdsBeyondTheTokenizerAreNeverChosen) {
  ExpectOnlyTokens(*Letters(), 20);
}

TEST(TextStreamer, IdsWithoutATokenAmongOthersAreNeverChosen) {
  BpeVocab vocab = MakeTestVocab({}, {});
  for (int i = 0; i < 500; ++i) vocab.tokens.Add("");
  vocab.tokens.Add("<end>");
  vocab.specials.push_back({"<end>", static_cast<int32_t>(vocab.tokens.size()) - 1});
  CheckBpeVocab(vocab, "test");
  ExpectOnlyTokens(BpeTokenizer(vocab), static_cast<int64_t>(vocab.tokens.size()) + 11);
}

// A model of bytes that is made to write a text, and what is shown of it.
class Written : public testing::Test {
 protected:
  Written() {
    GptConfig config = TinyConfig();
    config.vocab_size = tokenizer_.vocab_size();
    config.n_positions = 64;
    weights_ = std::make_unique<GptWeights>(config);
    Scatter(*weights_, 1);
  }

  GeneratedText Write(const std::string& text, std::vector<std::string> stops,
                      int64_t min_tokens = 0) {
    std::vector<int32_t> forced;
    tokenizer_.EncodePrefix(text, forced);
    Generator generator(*backend_, *weights_);
    shown_.clear();
    return GenerateText(generator, tokenizer_, {1},
                        {.sampling = {.penalties = {.min_tokens = min_tokens}, .forced = forced},
                         .max_tokens = std::ssize(forced),
                         .stop_strings = std::move(stops)},
                        0, [&](std::string_view some) {
                          EXPECT_EQ(ReplaceInvalidUtf8(some), some);
                          shown_ += some;
                          return true;
                        });
  }

  ByteTokenizer tokenizer_;
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
  std::string shown_;
};

// Tokens are bytes: the characters of the stop string are cut too.
TEST_F(Written, AStopStringEndsTheTextAndIsNeverShown) {
  const GeneratedText written = Write("ein Stück: Bär und Bären", {"ä€", "Bären"});
  EXPECT_EQ(written.reason, FinishReason::kStop);
  EXPECT_EQ(written.text, "ein Stück: Bär und ");
  EXPECT_EQ(shown_, written.text);
  EXPECT_EQ(written.ids.size(), std::string("ein Stück: Bär und Bären").size());
  const GeneratedText early = Write("ein Stück: Bär", {"ü"});
  EXPECT_EQ(early.text, "ein St");
  EXPECT_EQ(early.ids.size(), 8u) << "nothing is written after it";
}

TEST_F(Written, WhatBeganLikeAStopStringIsShownInTheEnd) {
  const GeneratedText written = Write("ein St", {"Stop"});
  EXPECT_EQ(written.reason, FinishReason::kLength);
  EXPECT_EQ(shown_, "ein St");
  EXPECT_EQ(Write("a\xC3", {"Stop"}).text, "a\uFFFD");
}

TEST_F(Written, NoStopStringCountsBeforeTheLeastLength) {
  EXPECT_EQ(Write("a.b.c.d", {"."}, 3).text, "a.b");
  EXPECT_EQ(Write("a.b.c.d", {"."}, 4).text, "a.b.c");
  EXPECT_EQ(Write("a.b.c.d", {"."}, 7).reason, FinishReason::kLength);
}

TEST_F(Written, ProbabilitiesComeWithEveryToken) {
  Generator generator(*backend_, *weights_);
  const GeneratedText written = GenerateText(
      generator, tokenizer_, {1}, {.sampling = {.temperature = 0}, .max_tokens = 5, .likeliest = 2},
      0, [](std::string_view) { return true; });
  ASSERT_EQ(written.ids.size(), 5u);
  ASSERT_EQ(written.probabilities.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const ModelProbabilities& one = written.probabilities[i];
    EXPECT_EQ(one.likeliest.at(0).id, written.ids[i]) << "greedy";
    EXPECT_EQ(one.likeliest[0].log_probability, one.log_probability);
    EXPECT_LT(one.likeliest.at(1).log_probability, one.log_probability);
  }
}

TEST(ModelsTexts, EndWhereTheTokenizersFilesSaySo) {
  OpenedModel model = SmallModel(/*chat=*/true), fewer_rows = SmallModel();
  const std::shared_ptr<Tokenizer> tokenizer =
      ByteTokenizer().WithSpecials(std::vector<std::string>{"</s>"});
  model.tokenizer = fewer_rows.tokenizer = tokenizer;
  const int32_t end = tokenizer->special_tokens().back().id;
  EXPECT_EQ(std::ranges::count(ForTokens(model, {}).stop_tokens, end), 0);
  tokenizer->set_chat_source({.eos_token = "</s>"});
  EXPECT_EQ(std::ranges::count(ForTokens(model, {}).stop_tokens, end), 1);
  EXPECT_EQ(std::ranges::count(ForTokens(fewer_rows, {}).stop_tokens, end), 0);
}

}  // namespace
}  // namespace folio
