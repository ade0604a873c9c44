#include "folio/model/kv_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "folio/base/rng.h"
#include "folio/model/test_models.h"

namespace folio {
namespace {

constexpr int64_t kR = 128;

GptConfig LongConfig() {
  GptConfig config = TinyConfig();
  config.n_positions = 5 * kR;
  return config;
}

// Appends the tokens from its size on, a page at a time, as Decoder does where they are many.
void Write(CachedSequence& text, std::span<const int32_t> ids) {
  for (auto left = ids.subspan(static_cast<size_t>(text.size())); !left.empty();) {
    const int64_t count = std::min(std::ssize(left), kR - text.size() % kR);
    text.Reserve(count);
    text.Advance(left.first(static_cast<size_t>(count)));
    left = left.subspan(static_cast<size_t>(count));
  }
}

TEST(KvCache, ASearchComparesAsManyPagesInALargeCacheAsInASmallOne) {
  for (const int64_t texts : {2, 20, 1000}) {
    KvCache cache(LongConfig(), Dtype::kF32, 5 * texts);
    const auto ids = [](int64_t text) {
      return RandomTokens(5 * kR, 50'000, static_cast<uint64_t>(text));
    };
    for (int64_t text = 0; text < texts; ++text) {
      CachedSequence sequence(cache);
      Write(sequence, ids(text));
    }
    EXPECT_EQ(cache.compared_pages(), 0) << "nothing is alike in " << texts << " texts";
    for (const int64_t known : {int64_t{0}, texts / 2, texts - 1}) {
      const int64_t before = cache.compared_pages();
      CachedSequence sequence(cache);
      sequence.Recall(ids(known));
      EXPECT_EQ(sequence.size(), 5 * kR) << known << " of " << texts;
      EXPECT_EQ(cache.compared_pages() - before, 5) << known << " of " << texts;
    }
  }
}

TEST(KvCache, PagesThatWereEvictedAreNotCompared) {
  KvCache cache(LongConfig(), Dtype::kF32, 5);
  const auto a = RandomTokens(5 * kR, 50'000, 1), b = RandomTokens(5 * kR, 50'000, 2);
  for (int i = 0; i < 20; ++i) {
    for (const auto* ids : {&a, &b}) {
      CachedSequence sequence(cache);
      sequence.Recall(*ids);
      EXPECT_EQ(sequence.size(), 0) << "the other text has taken all pages";
      Write(sequence, *ids);
    }
  }
  EXPECT_EQ(cache.compared_pages(), 0);
}

// The search that looks at all pages, which those of a KvCache have to agree with.
class AllPages {
 public:
  explicit AllPages(int64_t pages) : pages_(static_cast<size_t>(pages)) {}

  std::vector<int32_t> Find(std::span<const int32_t> ids) const {
    std::vector<int32_t> found;
    for (; ids.size() >= kR; ids = ids.subspan(kR)) {
      const int32_t before = found.empty() ? -1 : found.back();
      const auto page = std::ranges::find_if(pages_, [&](const Page& one) {
        return one.before == before && std::ranges::equal(one.ids, ids.first(kR));
      });
      if (page == pages_.end()) break;
      found.push_back(static_cast<int32_t>(page - pages_.begin()));
    }
    return found;
  }
  // Notes that a sequence which had `kept` pages has now written all of `ids`.
  void Note(const CachedSequence& text, int64_t kept, std::span<const int32_t> ids) {
    for (int64_t i = kept; i < std::ssize(text.pages()); ++i) {
      Page& page = pages_[static_cast<size_t>(text.pages()[static_cast<size_t>(i)])];
      page = {};
      if ((i + 1) * kR > text.size()) continue;
      const auto own = ids.subspan(static_cast<size_t>(i * kR), kR);
      page = {i == 0 ? -1 : text.pages()[static_cast<size_t>(i) - 1], {own.begin(), own.end()}};
    }
  }

 private:
  struct Page {
    int32_t before = -1;
    std::vector<int32_t> ids = {};
  };
  std::vector<Page> pages_;
};

TEST(KvCache, FindsThePagesThatASearchOfAllPagesFinds) {
  constexpr int64_t kPages = 18;
  KvCache cache(LongConfig(), Dtype::kF32, kPages);
  AllPages all(kPages);
  const CounterRng rng(1, 2);
  // Texts that differ from their second, third, ... page on, or in nothing.
  std::vector<std::vector<int32_t>> ids(9, RandomTokens(5 * kR, 11, 3));
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t at = i % 5 * kR; at < ids[i].size(); at += kR) {
      ids[i][at] = static_cast<int32_t>(11 + i / 5);
    }
  }
  std::vector<CachedSequence> texts;
  for (int i = 0; i < 3; ++i) texts.emplace_back(cache);
  int64_t found = 0, missed = 0;
  for (uint64_t step = 0; step < 2000; ++step) {
    CachedSequence& text = texts[rng.Below(3 * step, texts.size())];
    text.Clear();
    const auto& next = ids[rng.Below(3 * step + 1, ids.size())];
    const auto wanted = std::span(next).first(rng.Below(3 * step + 2, next.size() + 1));
    text.Recall(wanted);
    ASSERT_EQ((std::vector<int32_t>{text.pages().begin(), text.pages().end()}), all.Find(wanted))
        << step;
    const int64_t kept = std::ssize(text.pages());
    ++(kept == std::ssize(wanted) / kR ? found : missed);
    Write(text, wanted);
    all.Note(text, kept, wanted);
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(missed, 300);
}

TEST(KvCache, TakesThePagesThatWereUnusedLongest) {
  KvCache cache(LongConfig(), Dtype::kF32, 6);
  const auto a = RandomTokens(2 * kR, 11, 1), b = RandomTokens(2 * kR, 11, 2),
             c = RandomTokens(3 * kR, 11, 3);
  CachedSequence text(cache);
  const auto known = [&](const std::vector<int32_t>& ids) {
    CachedSequence found(cache);
    found.Recall(ids);
    return found.size() / kR;
  };
  for (const auto* ids : {&a, &b}) {
    Write(text, *ids);
    text.Clear();
  }
  EXPECT_EQ(known(a), 2) << "now used after the other";
  Write(text, c);  // in two pages without contents, and one more
  EXPECT_EQ(known(b), 1) << "its last page goes first";
  EXPECT_EQ(known(a), 2);
  EXPECT_EQ(cache.free_pages(), 3);
}

}  // namespace
}  // namespace folio
