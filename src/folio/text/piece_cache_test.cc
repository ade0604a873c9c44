#include "folio/text/piece_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "folio/text/test_texts.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

Ids Found(const PieceCache& cache, std::string_view piece) {
  const PieceKey key = PieceKey::Of(piece);
  const PieceCache::Entry* entry = cache.Find(key, key.Hash());
  if (entry == nullptr) return {};
  Ids ids(cache.room());
  ids.resize(cache.Copy(*entry, ids.data()));
  return ids;
}

void Insert(PieceCache& cache, std::string_view piece, const Ids& ids) {
  const PieceKey key = PieceKey::Of(piece);
  cache.Insert(key, key.Hash(), ids);
}

std::string RandomPiece(TestRng& rng) {
  std::string piece;
  for (size_t length = 1 + rng.Below(PieceKey::kMaxBytes); length > 0; --length) {
    piece += static_cast<char>(rng.Below(4) == 0 ? 0 : rng.Below(256));
  }
  return piece;
}

Ids RandomIds(TestRng& rng, size_t count, size_t below) {
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(below));
  return ids;
}

TEST(PieceKey, IsThePieceAndNothingBehindIt) {
  const std::string text("a\0\0bcdefgh\0ijklmnopq", 20);
  std::map<std::pair<uint64_t, uint64_t>, std::string> seen;
  for (size_t begin = 0; begin < 3; ++begin) {
    for (size_t length = 1; length <= PieceKey::kMaxBytes; ++length) {
      const std::string piece = text.substr(begin, length);
      const PieceKey key = PieceKey::Of(piece);
      const auto [at, inserted] = seen.emplace(std::pair(key.low, key.high), piece);
      EXPECT_TRUE(inserted || at->second == piece) << begin << " " << length;
      for (const char behind : {'\0', 'x', '\xff'}) {
        const PieceKey loaded = PieceKey::Load((piece + std::string(16, behind)).data(), length);
        EXPECT_EQ(loaded.low, key.low);
        EXPECT_EQ(loaded.high, key.high);
        EXPECT_EQ(loaded.Hash(), key.Hash());
      }
    }
  }
  EXPECT_EQ(seen.size(), 2 + 3 * (PieceKey::kMaxBytes - 1) + 0u);  // "\0" is there twice
}

TEST(PieceCache, KeepsWhatThereIsRoomForAndNeverOthersIds) {
  for (const bool narrow : {true, false}) {
    PieceCache cache(256, narrow);
    std::map<std::string, Ids> last;
    TestRng rng(1);
    for (int i = 0; i < 5000; ++i) {
      const std::string piece = RandomPiece(rng);
      const Ids ids = RandomIds(rng, 1 + rng.Below(cache.room()), narrow ? 65536 : 1 << 21);
      Insert(cache, piece, ids);
      last[piece] = ids;
      ASSERT_EQ(Found(cache, piece), ids);
    }
    size_t kept = 0;
    for (const auto& [piece, ids] : last) {
      const Ids found = Found(cache, piece);
      if (found.empty()) continue;
      ASSERT_EQ(found, ids);
      ++kept;
    }
    EXPECT_EQ(kept, cache.filled());
    EXPECT_EQ(kept, 2 * cache.lines());  // full after so many
  }
}

TEST(PieceCache, FourPlacesForAPiece) {
  PieceCache cache(2, true);
  const std::vector<std::string> pieces = {"a", "b", "c", "d"};
  for (int again = 0; again < 2; ++again) {
    for (size_t i = 0; i < pieces.size(); ++i) Insert(cache, pieces[i], {static_cast<int32_t>(i)});
    EXPECT_EQ(cache.filled(), 4);
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(Found(cache, pieces[i]), Ids{static_cast<int32_t>(i)});
    }
  }
  Insert(cache, "e", {4});
  EXPECT_EQ(cache.filled(), 4);
  EXPECT_EQ(Found(cache, "e"), Ids{4});
}

TEST(PieceCache, NoIdsOrTooManyAreNotKept) {
  for (const bool narrow : {true, false}) {
    PieceCache cache(2, narrow);
    Insert(cache, "none", {});
    Insert(cache, "many", Ids(cache.room() + 1, 7));
    EXPECT_EQ(cache.filled(), 0);
    EXPECT_EQ(Found(cache, "many"), Ids());
    Insert(cache, "all", Ids(cache.room(), 7));
    EXPECT_EQ(Found(cache, "all"), Ids(cache.room(), 7));
  }
}

TEST(PieceCache, ALargerOneTakesAllOver) {
  for (const bool narrow : {true, false}) {
    PieceCache small(16, narrow);
    std::vector<std::string> pieces;
    TestRng rng(2);
    for (int i = 0; i < 40; ++i) {
      pieces.push_back(RandomPiece(rng));
      Insert(small, pieces.back(), RandomIds(rng, small.room(), 65536));
    }
    PieceCache large(32, narrow);
    large.InsertAll(small);
    EXPECT_EQ(large.filled(), small.filled());
    for (const std::string& piece : pieces) EXPECT_EQ(Found(large, piece), Found(small, piece));
  }
}

Ids Found(const LongPieceCache& cache, std::string_view piece, uint64_t hash) {
  Ids ids(100);
  ids.resize(cache.Find(piece, hash, ids.data()));
  return ids;
}

TEST(LongPieceCache, TheLastOfEachPlaceStays) {
  LongPieceCache cache;
  const std::string piece(40, '-');
  const std::string other(40, '=');
  for (const uint64_t hash : {uint64_t{0}, uint64_t{5}, ~uint64_t{0}}) {
    EXPECT_EQ(Found(cache, piece, hash), Ids());
    cache.Insert(piece, hash, Ids{1, 2, 3});
    EXPECT_EQ(Found(cache, piece, hash), (Ids{1, 2, 3}));
    // Nobody else's, be the hash the same.
    for (const std::string& stranger : {other, piece + "-", piece.substr(1), piece + piece}) {
      EXPECT_EQ(Found(cache, stranger, hash), Ids()) << stranger;
    }
    EXPECT_EQ(Found(cache, piece, hash ^ uint64_t{1} << 63), Ids());
    cache.Insert(other, hash, Ids{4});
    EXPECT_EQ(Found(cache, other, hash), Ids{4});
    EXPECT_EQ(Found(cache, piece, hash), Ids());
  }
}

TEST(LongPieceCache, WhatIsTooLongIsNotKept) {
  LongPieceCache cache;
  const Ids most(46, 9);
  const std::string longest(LongPieceCache::kMaxBytes, 'x');
  cache.Insert(longest, 3, most);
  EXPECT_EQ(Found(cache, longest, 3), most);
  cache.Insert(std::string(20, 'x'), 4, Ids(47, 9));
  EXPECT_EQ(Found(cache, std::string(20, 'x'), 4), Ids());
  cache.Insert("the next place", 6, most);
  for (const size_t more : {1, 200}) {
    const std::string longer(LongPieceCache::kMaxBytes + more, 'x');
    cache.Insert(longer, 5, most);
    EXPECT_EQ(Found(cache, longer, 5), Ids());
  }
  EXPECT_EQ(Found(cache, "the next place", 6), most);
  EXPECT_EQ(Found(cache, longest, 3), most);
}

TEST(LongPieceCache, HashesDependOnEveryByte) {
  for (const size_t length : {8, 9, 15, 16, 17, 40, 63, 64}) {
    const std::string piece(length, 'a');
    for (size_t i = 0; i < length; ++i) {
      std::string other = piece;
      other[i] = 'b';
      EXPECT_NE(LongPieceCache::Hash(piece), LongPieceCache::Hash(other)) << length << " " << i;
    }
    EXPECT_NE(LongPieceCache::Hash(piece), LongPieceCache::Hash(piece.substr(1) + "aa"));
  }
}

}  // namespace
}  // namespace folio
