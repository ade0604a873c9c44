#include "folio/dist/shards.h"

#include <algorithm>
#include <utility>

#include "folio/base/check.h"

namespace folio {

Shards::Shards(std::vector<ShardBucket> buckets, int ranks)
    : buckets_(std::move(buckets)),
      ranks_(ranks),
      sizes_(static_cast<size_t>(ranks)),
      blocks_(static_cast<size_t>(ranks)) {
  FOLIO_CHECK(ranks >= 1, "somebody owns the array");
  int64_t end = buckets_.empty() ? 0 : buckets_.front().begin;
  for (const ShardBucket& bucket : buckets_) {
    FOLIO_CHECK(bucket.begin == end && bucket.size() > 0, "buckets follow each other");
    end = bucket.end;
    const int64_t blocks = (bucket.size() + kBlock - 1) / kBlock;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = blocks * rank / ranks, last = blocks * (rank + 1) / ranks;
      int64_t& size = sizes_[static_cast<size_t>(rank)];
      const Piece piece{.begin = std::min(bucket.end, bucket.begin + first * kBlock),
                        .end = std::min(bucket.end, bucket.begin + last * kBlock),
                        .offset = size};
      size += piece.size();
      blocks_[static_cast<size_t>(rank)] += last - first;
      longest_ = std::max(longest_, piece.size());
      pieces_.push_back(piece);
    }
  }
}

Shards::Piece Shards::PieceOf(size_t bucket, int rank) const {
  return pieces_[bucket * static_cast<size_t>(ranks_) + static_cast<size_t>(rank)];
}

}  // namespace folio
