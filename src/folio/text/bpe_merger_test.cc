#include "folio/text/bpe_merger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/text/bpe_test_vocab.h"
#include "folio/text/test_data.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

// The definition: look for the lowest rank among all pairs, merge the leftmost, again and again.
Ids Plain(const BpeVocab& vocab, std::string_view piece) {
  Ids ids;
  for (const char byte : piece) {
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
      if (vocab.tokens[id] == std::string_view(&byte, 1)) ids.push_back(static_cast<int32_t>(id));
    }
  }
  for (bool merged = true; merged;) {
    merged = false;
    for (const BpeMerge& merge : vocab.merges) {
      for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.merged;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  return ids;
}

Ids ByScan(const BpeModel& model, std::string_view piece) {
  Ids ids(piece.size());
  ids.resize(MergeByScan(model, piece, ids.data()));
  return ids;
}

Ids ByHeap(const BpeModel& model, std::string_view piece) {
  MergeScratch scratch;
  Ids ids;
  MergeByHeap(model, piece, scratch, ids);
  return ids;
}

std::string RandomPiece(TestRng& rng, size_t length) {
  static const std::vector<std::string> kFew = {"a", "a", "b", "b", "c", "e", "ab", "ж", "中"};
  const size_t letters = 1 + rng.Below(kFew.size());
  std::string piece;
  while (piece.size() < length) piece += kFew[rng.Below(letters)];
  return piece.substr(0, length);
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
      const std::string piece = RandomPiece(rng, 1 + rng.Below(kScanBytes));
      const Ids expected = Plain(vocab, piece);
      ASSERT_EQ(ByScan(model, piece), expected) << piece;
      ASSERT_EQ(ByHeap(model, piece), expected) << piece;
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
    for (int i = 0; i < 300; ++i) {
      const std::string piece = RandomPiece(rng, 1 + rng.Below(3000));
      MergeScratch scratch;
      Ids ids;
      const size_t window = 2 * longest + rng.Below(200);
      EXPECT_EQ(MergeByWindows(model, piece, window, true, scratch, ids), piece.size());
      ASSERT_EQ(ids, ByHeap(model, piece));
    }
  }
}

TEST(BpeMergerWindows, NotWhereTokensAreNotTheirOwnEncoding) {
  for (const BpeVocab& vocab : {ImproperVocab(false), LearntVocab(6, 500)}) {
    const BpeModel model(vocab);
    TestRng rng(6);
    for (int i = 0; i < 30; ++i) {
      const std::string piece = RandomPiece(rng, 1 + rng.Below(9000));
      MergeScratch scratch;
      Ids ids;
      MergePiece(model, piece, scratch, ids);
      ASSERT_EQ(ids, ByHeap(model, piece));
    }
  }
}

TEST(BpeModelProper, OnlyWhereEveryTokenIsItsOwnEncoding) {
  EXPECT_TRUE(BpeModel(LearntVocab(4, 900)).proper());
  EXPECT_FALSE(BpeModel(ImproperVocab(false)).proper());
  // "bc" is merged before "abc" could come about from "ab" and "c".
  BpeVocab vocab = LearntVocab(5, 257);
  const auto byte = [&](char b) {
    for (size_t id = 0;; ++id) {
      if (vocab.tokens[id] == std::string_view(&b, 1)) return static_cast<int32_t>(id);
    }
  };
  const auto first = static_cast<int32_t>(vocab.tokens.size());
  for (const char* token : {"ab", "bc", "abc"}) vocab.tokens.Add(token);
  vocab.merges = {{byte('a'), byte('b'), first}, {byte('b'), byte('c'), first + 1}};
  EXPECT_TRUE(BpeModel(vocab).proper());
  vocab.merges = {{byte('b'), byte('c'), first + 1},
                  {byte('a'), byte('b'), first},
                  {first, byte('c'), first + 2}};
  EXPECT_FALSE(BpeModel(vocab).proper());
}

TEST(BpeModelProper, Gpt2IsAndEveryTokenEncodesToItself) {
  const std::string merges = TestData("gpt2/vocab.bpe");
  if (merges.empty()) GTEST_SKIP() << "vocabulary not here";
  const BpeModel model(ReadVocabAndMerges(TestData("gpt2/encoder.json"), merges, "gpt2"));
  EXPECT_TRUE(model.proper());
  for (int32_t id = 0; id < 50256; ++id) {
    ASSERT_EQ(ByHeap(model, model.vocab().tokens[static_cast<size_t>(id)]), Ids{id});
  }
}

}  // namespace
}  // namespace folio
