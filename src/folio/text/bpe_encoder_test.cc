#include "folio/text/bpe_encoder.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/text/test_vocab.h"
#include "folio/text/vocab_files.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

Ids ByScan(const BpeModel& model, std::string_view pretoken) {
  Ids ids(pretoken.size());
  ids.resize(MergeByScan(model, pretoken, ids.data()));
  return ids;
}

Ids ByHeap(const BpeModel& model, std::string_view pretoken) {
  MergeScratch scratch;
  Ids ids;
  MergeByHeap(model, pretoken, scratch, ids);
  return ids;
}

Ids ByWindows(const BpeModel& model, std::string_view pretoken, size_t window) {
  MergeScratch scratch;
  Ids ids;
  EXPECT_EQ(MergeByWindows(model, pretoken, window, true, scratch, ids), pretoken.size());
  return ids;
}

Ids ByAnyWay(const BpeModel& model, std::string_view pretoken) {
  MergeScratch scratch;
  Ids ids;
  MergePretoken(model, pretoken, scratch, ids);
  return ids;
}

std::string RandomPretoken(TestRng& rng, size_t length) {
  static const std::vector<std::string> kFew = {"a", "a", "b", "b", "c", "e", "ab", "ж", "中"};
  const size_t letters = 1 + rng.Below(kFew.size());
  std::string pretoken;
  while (pretoken.size() < length) pretoken += kFew[rng.Below(letters)];
  return pretoken.substr(0, length);
}

class BpeMerger : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceSimdTarget(GetParam()); }
  void TearDown() override { ForceSimdTarget(""); }
};

TEST_P(BpeMerger, ScanAndHeapMergeAsDefined) {
  for (const BpeVocab& vocab : {LearntVocab(1, 400), LearntVocab(2, 700), ImproperVocab(false)}) {
    const BpeModel model(vocab);
    TestRng rng(3);
    for (int i = 0; i < 600; ++i) {
      const std::string pretoken = RandomPretoken(rng, 1 + rng.Below(kScanBytes));
      const Ids expected = MergedAsDefined(vocab, pretoken);
      ASSERT_EQ(ByScan(model, pretoken), expected) << pretoken;
      ASSERT_EQ(ByHeap(model, pretoken), expected) << pretoken;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BpeMerger, testing::ValuesIn(SimdTargets()),
                         [](const auto& target) { return target.param; });

TEST(BpeMergerWindows, WindowsAreOneEncoding) {
  for (const uint64_t seed : {1, 2, 3}) {
    const BpeModel model(LearntVocab(seed, 600));
    ASSERT_TRUE(model.proper());
    size_t longest = 0;
    for (size_t id = 0; id < model.vocab().tokens.size(); ++id) {
      longest = std::max(longest, model.vocab().tokens[id].size());
    }
    TestRng rng(seed);
    for (int i = 0; i < (kSanitized ? 60 : 300); ++i) {
      const std::string pretoken = RandomPretoken(rng, 1 + rng.Below(3000));
      const size_t window = 2 * longest + rng.Below(200);
      ASSERT_EQ(ByWindows(model, pretoken, window), ByHeap(model, pretoken));
    }
  }
}

TEST(BpeMergerWindows, TheEndMayDecideTheBeginning) {
  const auto [word, vocab] = ChainVocab();
  const BpeModel model(vocab);
  ASSERT_TRUE(model.proper());
  for (const size_t length : {2400, 2401, 2498, 2499, 2500, 2501, 2702, 2703}) {
    const std::string_view pretoken = std::string_view(word).substr(0, length);
    ASSERT_EQ(ByAnyWay(model, pretoken), ByHeap(model, pretoken)) << length;
    for (const size_t window : {4, 5, 64}) {
      ASSERT_EQ(ByWindows(model, pretoken, window), ByHeap(model, pretoken)) << length;
    }
    for (const size_t known : {length - 1, length - 2, length - 100}) {
      MergeScratch scratch;
      Ids ids;
      const size_t decided = MergeDecided(model, pretoken.substr(0, known), scratch, ids);
      const Ids rest = ByHeap(model, pretoken.substr(decided));
      ids.insert(ids.end(), rest.begin(), rest.end());
      ASSERT_EQ(ids, ByHeap(model, pretoken)) << length << " " << known;
    }
  }
}

TEST(BpeMergerWindows, NotWhereTokensAreNotTheirOwnEncoding) {
  for (const BpeVocab& vocab : {ImproperVocab(false), LearntVocab(6, 500)}) {
    const BpeModel model(vocab);
    TestRng rng(6);
    for (int i = 0; i < 30; ++i) {
      const std::string pretoken = RandomPretoken(rng, 1 + rng.Below(9000));
      ASSERT_EQ(ByAnyWay(model, pretoken), ByHeap(model, pretoken));
    }
  }
}

TEST(BpeModelProper, OnlyWhereEveryTokenIsItsOwnEncoding) {
  EXPECT_TRUE(BpeModel(LearntVocab(4, 900)).proper());
  EXPECT_FALSE(BpeModel(ImproperVocab(false)).proper());
  // "bc" is merged before "ab" and "c" could make "abc".
  BpeVocab vocab = ByteVocab();
  const int32_t ab = AddToken(vocab, "ab"), bc = AddToken(vocab, "bc"),
                abc = AddToken(vocab, "abc");
  vocab.merges = {{'a', 'b', ab}, {'b', 'c', bc}};
  EXPECT_TRUE(BpeModel(vocab).proper());
  vocab.merges = {{'b', 'c', bc}, {'a', 'b', ab}, {ab, 'c', abc}};
  EXPECT_FALSE(BpeModel(vocab).proper());
}

// Random merges of two letters and of their results, in any order.
BpeVocab RandomMerges(TestRng& rng) {
  BpeVocab vocab;
  std::map<std::string, int32_t> ids;
  const auto add = [&](const std::string& bytes) {
    const auto [at, is_new] = ids.emplace(bytes, static_cast<int32_t>(vocab.tokens.size()));
    if (is_new) vocab.tokens.Add(bytes);
    return at->second;
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  std::vector<int32_t> few = {'a', 'b'};
  if (rng.Below(4) == 0) few.push_back(add("ba"));  // perhaps without a merge
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (size_t merges = 1 + rng.Below(6); merges > 0; --merges) {
    const int32_t left = few[rng.Below(few.size())], right = few[rng.Below(few.size())];
    if (!pairs.emplace(left, right).second) continue;
    const int32_t made = add(std::string(vocab.tokens[static_cast<size_t>(left)]) +
                             std::string(vocab.tokens[static_cast<size_t>(right)]));
    few.push_back(made);
    vocab.merges.push_back({left, right, made});
  }
  if (rng.Below(4) == 0) std::swap(vocab.merges.front(), vocab.merges.back());
  return vocab;
}

// By the definition: every token comes from its own bytes, by the only merge that makes it, which
// follows those that make its halves.
bool IsProper(const BpeModel& model) {
  const BpeVocab& vocab = model.vocab();
  std::map<int32_t, size_t> made;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const auto [left, right, merged] = vocab.merges[rank];
    if (!made.emplace(merged, rank).second) return false;
    if (ByHeap(model, vocab.tokens[static_cast<size_t>(merged)]) != Ids{merged}) return false;
    for (const int32_t half : {left, right}) {
      if (half >= 256 && !made.contains(half)) return false;
    }
  }
  return true;
}

TEST(BpeModelProper, OfRandomMergesThoseThatAre) {
  constexpr int kTimes = kSanitized ? 600 : 3000;
  TestRng rng(7);
  int proper = 0;
  for (int i = 0; i < kTimes; ++i) {
    const BpeVocab vocab = RandomMerges(rng);
    CheckBpeVocab(vocab, "random merges");
    const BpeModel model(vocab);
    ASSERT_EQ(model.proper(), IsProper(model));
    if (!model.proper()) continue;
    ++proper;
    std::string pretoken;
    for (size_t length = 100 + rng.Below(100); length > 0; --length) {
      pretoken += rng.Below(2) == 0 ? 'a' : 'b';
    }
    ASSERT_EQ(ByWindows(model, pretoken, 2 * model.longest_token()), ByHeap(model, pretoken))
        << pretoken;
  }
  EXPECT_GT(proper, kTimes / 6);
  EXPECT_LT(proper, kTimes * 5 / 6);
}

TEST(BpeModelProper, Gpt2IsAndEveryTokenEncodesToItself) {
  const std::string merges = TestData("gpt2/vocab.bpe");
  if (merges.empty()) GTEST_SKIP() << "vocabulary not here";
  const BpeModel model(ReadVocabAndMerges(TestData("gpt2/encoder.json"), merges, {.name = "gpt2"}));
  EXPECT_TRUE(model.proper());
  for (int32_t id = 0; id < 50256; ++id) {
    ASSERT_EQ(ByHeap(model, model.vocab().tokens[static_cast<size_t>(id)]), Ids{id});
  }
}

}  // namespace
}  // namespace folio
