#include "folio/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/io/file.h"
#include "folio/text/pair_merger.h"
#include "folio/text/test_split_pretokens.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

TEST(MergeQueue, PopsTheBestWhileCountsFallAndPairsCome) {
  const CounterRng rng(2, 0);
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(draws++, n)); };
  PairCounts counts;
  MergeQueue queue(2);
  std::vector<MergeCandidate> all;  // with their current counts
  int32_t next = 0;
  const auto add = [&](int64_t count) {
    // Scrambled, so that pairs are not in order; 7919 is prime.
    const int32_t left = next++ * 5003 % 7919;
    const MergeCandidate candidate{count, left, left % 7, 0, 0};
    counts.Reserve(1);
    counts.Insert(PairKey(candidate.left, candidate.right), count);
    queue.Push(candidate);
    all.push_back(candidate);
  };
  for (int i = 0; i < 500; ++i) add(1 + below(i % 3 == 0 ? 3000 : 40));
  int popped = 0;
  for (;; ++popped) {
    const auto better = [](const MergeCandidate& a, const MergeCandidate& b) {
      if (a.count != b.count) return a.count > b.count;
      return PairKey(a.left, a.right) < PairKey(b.left, b.right);
    };
    const auto expected = std::min_element(all.begin(), all.end(), better);
    const auto best = queue.Pop(counts);
    if (expected == all.end() || expected->count < 2) {
      EXPECT_FALSE(best);
      break;
    }
    ASSERT_TRUE(best);
    ASSERT_EQ(best->count, expected->count);
    ASSERT_EQ(best->left, expected->left);
    all.erase(expected);
    for (MergeCandidate& candidate : all) {
      if (below(60) != 0) continue;
      const int64_t fall = below(static_cast<uint64_t>(candidate.count) + 1);
      candidate.count -= fall;
      counts.Subtract(PairKey(candidate.left, candidate.right), fall);
    }
    if (popped < 2000) add(1 + below(static_cast<uint64_t>(best->count)));
  }
  EXPECT_GT(popped, 400);
}

TEST(PairCounts, AnswersZeroForPairsThatAreNotThere) {
  PairCounts counts;
  counts.Reserve(1);
  counts.Insert(PairKey(3, 4), 5);
  counts.Subtract(PairKey(4, 3), 2);
  EXPECT_EQ(counts.Count(PairKey(4, 3)), 0);
  EXPECT_EQ(counts.Count(PairKey(3, 4)), 5);
}

using Bytes = BpeTrainerOptions::Bytes;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

BpeTrainerOptions Raw(int64_t merges) {
  return {.vocab_size = 256 + merges, .specials = {}, .bytes = Bytes::kRaw};
}

BpeVocab TrainOn(const std::vector<std::string>& texts, const BpeTrainerOptions& options) {
  BpeTrainer trainer(options);
  for (const std::string& text : texts) trainer.AddText(text);
  return trainer.Train();
}

Pairs PairsOf(const BpeVocab& vocab) {
  Pairs pairs;
  for (const BpeMerge& merge : vocab.merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

// The rule itself: counts all pairs again for each merge.
Pairs NaiveMerges(const std::vector<std::string>& texts, int64_t merges, int64_t min_count,
                  SplitPattern pattern = SplitPattern::kGpt2) {
  std::vector<std::vector<int64_t>> pretokens;
  for (const std::string& text : texts) {
    for (const std::string_view pretoken : PretokensOf(pattern, text)) {
      pretokens.emplace_back();
      for (const char byte : pretoken) pretokens.back().push_back(static_cast<uint8_t>(byte));
    }
  }
  Pairs made;
  for (int64_t id = 256; id < 256 + merges; ++id) {
    std::map<std::pair<int64_t, int64_t>, int64_t> counts;
    for (const auto& pretoken : pretokens) {
      for (size_t i = 0; i + 1 < pretoken.size(); ++i) ++counts[{pretoken[i], pretoken[i + 1]}];
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
      return a.second < b.second;  // the first of equal ones is the smallest pair
    });
    if (best == counts.end() || best->second < min_count) break;
    made.push_back(best->first);
    for (auto& pretoken : pretokens) {
      std::vector<int64_t> merged;
      for (size_t i = 0; i < pretoken.size(); ++i) {
        const bool here =
            i + 1 < pretoken.size() && std::pair(pretoken[i], pretoken[i + 1]) == best->first;
        merged.push_back(here ? id : pretoken[i]);
        i += here ? 1 : 0;
      }
      pretoken = std::move(merged);
    }
  }
  return made;
}

// `length` letters of `alphabet`, the last of which is rarer.
std::string RandomText(uint64_t seed, size_t length, const std::string& alphabet) {
  const CounterRng rng(seed, 0);
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    size_t letter = rng.Below(i, alphabet.size());
    if (letter + 1 == alphabet.size()) letter = rng.Below(length + i, alphabet.size());
    text += alphabet[letter];
  }
  return text;
}

void ExpectUsageError(const BpeTrainerOptions& options) {
  Refused([&] { BpeTrainer trainer(options); }, ErrorKind::kUsage);
}

TEST(BpeTrainer, MergesAsARecountDoesOnRandomTextsFullOfTies) {
  const std::vector<std::string> alphabets = {"a", "ab", "ab ", "abc ", "aab\n ", "abcdefgh  "};
  for (uint64_t seed = 0; seed < (kSanitized ? 50 : 150); ++seed) {
    const std::string& alphabet = alphabets[seed % alphabets.size()];
    const std::vector<std::string> texts = {RandomText(seed, 1 + seed * 3, alphabet),
                                            RandomText(seed + 1000, 97, alphabet)};
    const int64_t min_count = 1 + static_cast<int64_t>(seed % 7) / 3;
    BpeTrainerOptions options = Raw(60);
    options.min_count = min_count;
    EXPECT_EQ(PairsOf(TrainOn(texts, options)), NaiveMerges(texts, 60, min_count))
        << "seed " << seed << ": " << texts[0];
  }
}

TEST(BpeTrainer, UsesThePatternItIsGiven) {
  const std::vector<std::string> texts = {RandomText(5, 700, "aB1'\n s./")};
  for (const SplitPattern pattern :
       {SplitPattern::kGpt2, SplitPattern::kCl100k, SplitPattern::kO200k}) {
    BpeTrainerOptions options = Raw(80);
    options.pattern = pattern;
    const BpeVocab vocab = TrainOn(texts, options);
    EXPECT_EQ(PairsOf(vocab), NaiveMerges(texts, 80, 1, pattern)) << SplitPatternName(pattern);
    EXPECT_EQ(vocab.pattern, pattern);
  }
}

TEST(BpeTrainer, CountsOverlapsAndMergesFromTheLeft) {
  // aaa counts 2 of (a, a), as many as bcbc has of (b, c); the smaller pair comes first, and leaves
  // (aa, a), which is not (a, aa).
  const Pairs expected = {{'a', 'a'}, {'b', 'c'}, {256, 'a'}, {257, 257}};
  EXPECT_EQ(PairsOf(TrainOn({"aaa", "bcbc"}, Raw(9))), expected);
}

TEST(BpeTrainer, OneMillionEqualLettersDouble) {
  const BpeVocab vocab = TrainOn({std::string(1'000'000, 'a')}, Raw(19));
  ASSERT_EQ(vocab.merges.size(), 19u);
  EXPECT_EQ(vocab.merges[1], (BpeMerge{256, 256, 257}));
  EXPECT_EQ(vocab.tokens[256 + 5], std::string(64, 'a'));
}

TEST(BpeTrainer, OnePretokenOfAMillionLettersIsTrainedLikeAny) {
  const std::string text = RandomText(3, kSanitized ? 100'001 : 1'000'001, "abcdefghijklmnop");
  const BpeVocab vocab = TrainOn({text}, Raw(3000));
  const Pairs naive = NaiveMerges({text}, 5, 1);
  const Pairs pairs = PairsOf(vocab);
  EXPECT_EQ(pairs.size(), 3000u);
  EXPECT_EQ(Pairs(pairs.begin(), pairs.begin() + 5), naive);
}

TEST(BpeTrainer, DoesNotDependOnThreadsOrOnTheOrderOfTexts) {
  std::string words;
  for (uint64_t i = 0; words.size() < 5'000'000; ++i) {
    words += " " + RandomText(i % 30'011, 1 + i % 23, "etaoin");
  }
  std::vector<std::string> texts = {words, RandomText(1, 50'000, "abc \n"), "x"};
  ExpectSameOnThreads([&] {
    std::rotate(texts.begin(), texts.begin() + 1, texts.end());
    return PairsOf(TrainOn(texts, Raw(2000)));
  });
}

TEST(BpeTrainer, PretokensDoNotReachFromOneTextIntoTheNext) {
  EXPECT_TRUE(TrainOn({"a", "b"}, Raw(1)).merges.empty());
  EXPECT_EQ(TrainOn({"ab"}, Raw(1)).merges.size(), 1u);
}

TEST(BpeTrainer, CountsPretokens) {
  BpeTrainer trainer(Raw(1));
  trainer.AddText("to be or not to be");
  trainer.AddText("to be");
  trainer.AddText("");
  trainer.Train();
  EXPECT_EQ(trainer.pretokens(), 8);
  EXPECT_EQ(trainer.distinct_pretokens(), 5);  // "to", " be", " or", " not", " to"
}

TEST(BpeTrainer, CountsTheTokensOfTheTexts) {
  BpeTrainer trainer(Raw(3));
  trainer.AddText("aaaaa aaaaa b");
  trainer.AddText("zaaz");
  EXPECT_EQ(PairsOf(trainer.Train()), (Pairs{{'a', 'a'}, {256, 'a'}, {256, 257}}));
  EXPECT_EQ(trainer.tokens(), 1 + 2 + 2 + 3);  // aaaaa, " " aaaaa, " " b, z aa z
}

TEST(BpeTrainer, StopsWhereNoPairIsLeft) {
  EXPECT_TRUE(TrainOn({}, Raw(10)).merges.empty());
  EXPECT_TRUE(TrainOn({"", "a", "\xff"}, Raw(10)).merges.empty());
  const BpeVocab vocab = TrainOn({"abc"}, {.vocab_size = 1000});
  EXPECT_EQ(vocab.merges.size(), 2u);
  ASSERT_EQ(vocab.tokens.size(), 259u);
  EXPECT_EQ(vocab.specials, (std::vector<SpecialToken>{{"<|endoftext|>", 258}}));
}

TEST(BpeTrainer, LeavesOutRarePairs) {
  BpeTrainerOptions options = Raw(100);
  options.min_count = 3;
  EXPECT_EQ(PairsOf(TrainOn({"ab", "ab", "ab", "cd", "cd"}, options)), (Pairs{{'a', 'b'}}));
}

TEST(BpeTrainer, PlacesSpecialTokensLastOrFirst) {
  BpeTrainerOptions options{.vocab_size = 260, .specials = {"<|b|>", "<|a|>"}};
  const BpeVocab last = TrainOn({"hello"}, options);
  EXPECT_EQ(last.specials, (std::vector<SpecialToken>{{"<|b|>", 258}, {"<|a|>", 259}}));
  EXPECT_EQ(last.tokens[0], "!");
  EXPECT_EQ(last.merges.front(), (BpeMerge{'e' - '!', 'l' - '!', 256}));
  options.specials_first = true;
  const BpeVocab first = TrainOn({"hello"}, options);
  EXPECT_EQ(first.specials, (std::vector<SpecialToken>{{"<|b|>", 0}, {"<|a|>", 1}}));
  EXPECT_EQ(first.tokens[2], "!");
  EXPECT_EQ(first.merges.front(), (BpeMerge{'e' - '!' + 2, 'l' - '!' + 2, 258}));
  EXPECT_NO_THROW(CheckBpeVocab(last, "last"));
  EXPECT_NO_THROW(CheckBpeVocab(first, "first"));
}

TEST(BpeTrainer, NeverMergesIntoASpecialToken) {
  BpeTrainerOptions options{.vocab_size = 300, .specials = {"the"}, .bytes = Bytes::kRaw};
  const BpeVocab vocab = TrainOn({"the", "the", "then"}, options);
  EXPECT_EQ(PairsOf(vocab), (Pairs{{'h', 'e'}, {256, 'n'}, {'t', 257}}));
  EXPECT_NO_THROW(CheckBpeVocab(vocab, "vocabulary"));
}

TEST(BpeTrainer, RefusesOptionsThatMakeNoVocabulary) {
  EXPECT_EQ(TrainOn({"ab"}, {.vocab_size = 257}).merges.size(), 0u);
  ExpectUsageError({.vocab_size = 256});
  ExpectUsageError({.vocab_size = 255, .specials = {}});
  ExpectUsageError({.vocab_size = (int64_t{1} << 21) + 1});
  ExpectUsageError({.specials = {""}});
  ExpectUsageError({.specials = {"x"}});
  ExpectUsageError({.specials = {"<\xff>"}});
  ExpectUsageError({.specials = {"<a>", "<b>", "<a>"}});
  ExpectUsageError({.min_count = 0});
}

TEST(BpeTrainer, ReportsProgressAndStopsWhereItThrows) {
  BpeTrainer trainer(Raw(10));
  trainer.AddText("abcdef");
  Pairs seen;
  trainer.Train([&](int64_t done, int64_t total) { seen.emplace_back(done, total); });
  EXPECT_EQ(seen.front(), (std::pair<int64_t, int64_t>{0, 10}));
  EXPECT_EQ(seen.back(), (std::pair<int64_t, int64_t>{5, 5}));

  BpeTrainer stopped(Raw(10));
  stopped.AddText("abcdef");
  EXPECT_THROW(stopped.Train([](int64_t done, int64_t) {
    if (done == 2) throw RuntimeError("stop");
  }),
               Error);
}

TEST(PairMerger, CountsBeyond32Bits) {
  CountedPretokens pretokens;
  const int64_t many = (int64_t{1} << 40) + 1;
  pretokens.pretokens.Add("ab");
  pretokens.pretokens.Add("xyab");
  pretokens.counts = {many, 3};
  std::array<int32_t, 256> symbols;
  std::iota(symbols.begin(), symbols.end(), 0);
  PairMerger merger(TrainingText({pretokens}, symbols), 258, 1);
  const auto best = merger.Best();
  ASSERT_TRUE(best);
  EXPECT_EQ(best->count, many + 3);
  EXPECT_EQ(std::pair(best->left, best->right), std::pair('a' + 0, 'b' + 0));
  merger.Merge(*best, 256);
  EXPECT_EQ(merger.Best()->count, 3);
}

class TrainGolden : public testing::TestWithParam<std::pair<const char*, Bytes>> {};

TEST_P(TrainGolden, Tinyshakespeare) {
  const std::string golden = GoldenFile(std::string("tokenizer/") + GetParam().first);
  const std::string text = TestData("tinyshakespeare/input.txt");
  if (golden.empty() || text.empty()) GTEST_SKIP() << "tinyshakespeare or its merges not here";
  const auto expected = nlohmann::json::parse(ReadFile(golden)).at("merges").get<Pairs>();
  BpeTrainerOptions options = Raw(std::ssize(expected));
  options.bytes = GetParam().second;
  EXPECT_EQ(PairsOf(TrainOn({ReadFile(text)}, options)), expected);
}

INSTANTIATE_TEST_SUITE_P(, TrainGolden,
                         testing::Values(std::pair("train_golden_gpt2byte.json", Bytes::kGpt2),
                                         std::pair("train_golden_rawbyte.json", Bytes::kRaw)),
                         [](const auto& param_info) {
                           return param_info.param.second == Bytes::kGpt2 ? "gpt2_bytes"
                                                                          : "raw_bytes";
                         });

}  // namespace

}  // namespace folio
