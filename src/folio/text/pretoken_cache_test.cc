#include "folio/text/pretoken_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "folio/text/test_texts.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

Ids Found(const PretokenCache& cache, std::string_view pretoken) {
  const PretokenKey key = PretokenKey::Of(pretoken);
  const PretokenCache::Entry* entry = cache.Find(key, key.Hash());
  if (entry == nullptr) return {};
  Ids ids(cache.room());
  ids.resize(cache.Copy(*entry, ids.data()));
  return ids;
}

void Insert(PretokenCache& cache, std::string_view pretoken, const Ids& ids) {
  const PretokenKey key = PretokenKey::Of(pretoken);
  cache.Insert(key, key.Hash(), ids);
}

std::string RandomPretoken(TestRng& rng) {
  std::string pretoken;
  for (size_t length = 1 + rng.Below(PretokenKey::kMaxBytes); length > 0; --length) {
    pretoken += static_cast<char>(rng.Below(4) == 0 ? 0 : rng.Below(256));
  }
  return pretoken;
}

Ids RandomIds(TestRng& rng, size_t count, size_t below) {
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(below));
  return ids;
}

TEST(PretokenKey, IsThePretokenAndNothingBehindIt) {
  const std::string text("a\0\0bcdefgh\0ijklmnopq", 20);
  std::map<std::pair<uint64_t, uint64_t>, std::string> seen;
  for (size_t begin = 0; begin < 3; ++begin) {
    for (size_t length = 1; length <= PretokenKey::kMaxBytes; ++length) {
      const std::string pretoken = text.substr(begin, length);
      const PretokenKey key = PretokenKey::Of(pretoken);
      const auto [at, inserted] = seen.emplace(std::pair(key.low, key.high), pretoken);
      EXPECT_TRUE(inserted || at->second == pretoken) << begin << " " << length;
      for (const char behind : {'\0', 'x', '\xff'}) {
        const PretokenKey loaded =
            PretokenKey::Load((pretoken + std::string(16, behind)).data(), length);
        EXPECT_EQ(loaded.low, key.low);
        EXPECT_EQ(loaded.high, key.high);
        EXPECT_EQ(loaded.Hash(), key.Hash());
      }
    }
  }
  EXPECT_EQ(seen.size(), 2 + 3 * (PretokenKey::kMaxBytes - 1) + 0u);  // "\0" is there twice
}

TEST(PretokenCache, KeepsWhatThereIsRoomForAndNeverOthersIds) {
  for (const bool narrow : {true, false}) {
    PretokenCache cache(256, narrow);
    std::map<std::string, Ids> last;
    TestRng rng(1);
    for (int i = 0; i < 5000; ++i) {
      const std::string pretoken = RandomPretoken(rng);
      const Ids ids = RandomIds(rng, 1 + rng.Below(cache.room()), narrow ? 65536 : 1 << 21);
      Insert(cache, pretoken, ids);
      last[pretoken] = ids;
      ASSERT_EQ(Found(cache, pretoken), ids);
    }
    size_t kept = 0;
    for (const auto& [pretoken, ids] : last) {
      const Ids found = Found(cache, pretoken);
      if (found.empty()) continue;
      ASSERT_EQ(found, ids);
      ++kept;
    }
    EXPECT_EQ(kept, cache.filled());
    EXPECT_EQ(kept, 2 * cache.lines());  // full after so many
  }
}

TEST(PretokenCache, FourPlacesForAPretoken) {
  PretokenCache cache(2, true);
  const std::vector<std::string> pretokens = {"a", "b", "c", "d"};
  for (int again = 0; again < 2; ++again) {
    for (size_t i = 0; i < pretokens.size(); ++i)
      Insert(cache, pretokens[i], {static_cast<int32_t>(i)});
    EXPECT_EQ(cache.filled(), 4);
    for (size_t i = 0; i < pretokens.size(); ++i) {
      EXPECT_EQ(Found(cache, pretokens[i]), Ids{static_cast<int32_t>(i)});
    }
  }
  Insert(cache, "e", {4});
  EXPECT_EQ(cache.filled(), 4);
  EXPECT_EQ(Found(cache, "e"), Ids{4});
}

TEST(PretokenCache, NoIdsOrTooManyAreNotKept) {
  for (const bool narrow : {true, false}) {
    PretokenCache cache(2, narrow);
    Insert(cache, "none", {});
    Insert(cache, "many", Ids(cache.room() + 1, 7));
    EXPECT_EQ(cache.filled(), 0);
    EXPECT_EQ(Found(cache, "many"), Ids());
    Insert(cache, "all", Ids(cache.room(), 7));
    EXPECT_EQ(Found(cache, "all"), Ids(cache.room(), 7));
  }
}

TEST(PretokenCache, ALargerOneTakesAllOver) {
  for (const bool narrow : {true, false}) {
    PretokenCache small(16, narrow);
    std::vector<std::string> pretokens;
    TestRng rng(2);
    for (int i = 0; i < 40; ++i) {
      pretokens.push_back(RandomPretoken(rng));
      Insert(small, pretokens.back(), RandomIds(rng, small.room(), 65536));
    }
    PretokenCache large(32, narrow);
    large.InsertAll(small);
    EXPECT_EQ(large.filled(), small.filled());
    for (const std::string& pretoken : pretokens)
      EXPECT_EQ(Found(large, pretoken), Found(small, pretoken));
  }
}

Ids Found(const LongPretokenCache& cache, std::string_view pretoken, uint64_t hash) {
  Ids ids(100);
  ids.resize(cache.Find(pretoken, hash, ids.data()));
  return ids;
}

TEST(LongPretokenCache, TheLastOfEachPlaceStays) {
  LongPretokenCache cache;
  const std::string pretoken(40, '-');
  const std::string other(40, '=');
  for (const uint64_t hash : {uint64_t{0}, uint64_t{5}, ~uint64_t{0}}) {
    EXPECT_EQ(Found(cache, pretoken, hash), Ids());
    cache.Insert(pretoken, hash, Ids{1, 2, 3});
    EXPECT_EQ(Found(cache, pretoken, hash), (Ids{1, 2, 3}));
    // No other's, even if the hash is the same.
    for (const std::string& stranger :
         {other, pretoken + "-", pretoken.substr(1), pretoken + pretoken}) {
      EXPECT_EQ(Found(cache, stranger, hash), Ids()) << stranger;
    }
    EXPECT_EQ(Found(cache, pretoken, hash ^ uint64_t{1} << 63), Ids());
    cache.Insert(other, hash, Ids{4});
    EXPECT_EQ(Found(cache, other, hash), Ids{4});
    EXPECT_EQ(Found(cache, pretoken, hash), Ids());
  }
}

TEST(LongPretokenCache, WhatIsTooLongIsNotKept) {
  LongPretokenCache cache;
  const Ids most(46, 9);
  const std::string longest(LongPretokenCache::kMaxBytes, 'x');
  cache.Insert(longest, 3, most);
  EXPECT_EQ(Found(cache, longest, 3), most);
  cache.Insert(std::string(20, 'x'), 4, Ids(47, 9));
  EXPECT_EQ(Found(cache, std::string(20, 'x'), 4), Ids());
  cache.Insert("the next place", 6, most);
  for (const size_t more : {1, 200}) {
    const std::string longer(LongPretokenCache::kMaxBytes + more, 'x');
    cache.Insert(longer, 5, most);
    EXPECT_EQ(Found(cache, longer, 5), Ids());
  }
  EXPECT_EQ(Found(cache, "the next place", 6), most);
  EXPECT_EQ(Found(cache, longest, 3), most);
}

TEST(LongPretokenCache, HashesDependOnEveryByte) {
  for (const size_t length : {8, 9, 15, 16, 17, 40, 63, 64}) {
    const std::string pretoken(length, 'a');
    for (size_t i = 0; i < length; ++i) {
      std::string other = pretoken;
      other[i] = 'b';
      EXPECT_NE(LongPretokenCache::Hash(pretoken), LongPretokenCache::Hash(other))
          << length << " " << i;
    }
    EXPECT_NE(LongPretokenCache::Hash(pretoken),
              LongPretokenCache::Hash(pretoken.substr(1) + "aa"));
  }
}

}  // namespace
}  // namespace folio
