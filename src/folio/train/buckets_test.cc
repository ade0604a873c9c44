#include "folio/train/buckets.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(Shards, EveryElementHasOneOwnerAndEachKeepsItsPiecesInOrder) {
  const std::vector<ShardBucket> buckets = {{0, 5 * Shards::kBlock + 7, -1},
                                            {5 * Shards::kBlock + 7, 6 * Shards::kBlock, 0},
                                            {6 * Shards::kBlock, 6 * Shards::kBlock + 1, 1}};
  for (const int ranks : {1, 2, 3, 7}) {
    const Shards shards(buckets, ranks);
    std::vector<int64_t> kept(static_cast<size_t>(ranks)), blocks(kept);
    for (size_t b = 0; b < buckets.size(); ++b) {
      int64_t at = buckets[b].begin;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shards::Piece piece = shards.PieceOf(b, rank);
        int64_t& mine = kept[static_cast<size_t>(rank)];
        EXPECT_EQ(piece.begin, at);
        EXPECT_EQ(piece.offset, mine);
        if (piece.size() > 0) {
          EXPECT_EQ((piece.begin - buckets[b].begin) % Shards::kBlock, 0);
        }
        EXPECT_LE(piece.size(), shards.longest());
        mine += piece.size();
        blocks[static_cast<size_t>(rank)] += (piece.size() + Shards::kBlock - 1) / Shards::kBlock;
        at = piece.end;
      }
      EXPECT_EQ(at, buckets[b].end);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(shards.SizeOf(rank), kept[static_cast<size_t>(rank)]);
      EXPECT_EQ(shards.BlocksOf(rank), blocks[static_cast<size_t>(rank)]);
    }
  }
}

}  // namespace
}  // namespace folio
