#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace folio {

// A part [begin, end) of a flat array whose elements come and go together.
struct ShardBucket {
  int64_t begin = 0, end = 0;
  int64_t layer = 0;  // whose parameters they are: LayerGate's numbers

  int64_t size() const { return end - begin; }
};

// The elements of a flat array that belong to each rank: a piece of each bucket, so that all ranks
// send and receive as much at any time. Pieces begin at multiples of kBlock in their bucket; sums
// over blocks therefore do not depend on the number of ranks. A rank keeps its pieces one after the
// other, in the order of the buckets.
class Shards {
 public:
  static constexpr int64_t kBlock = 4096;

  // The buckets follow each other without gaps.
  Shards(std::vector<ShardBucket> buckets, int ranks);

  struct Piece {
    int64_t begin = 0, end = 0;  // in the flat array
    int64_t offset = 0;          // of its first element in what the rank keeps

    int64_t size() const { return end - begin; }
  };

  std::span<const ShardBucket> buckets() const { return buckets_; }
  int ranks() const { return ranks_; }
  Piece PieceOf(size_t bucket, int rank) const;
  int64_t SizeOf(int rank) const { return sizes_[static_cast<size_t>(rank)]; }
  int64_t BlocksOf(int rank) const { return blocks_[static_cast<size_t>(rank)]; }
  // Elements of the longest piece.
  int64_t longest() const { return longest_; }

 private:
  std::vector<ShardBucket> buckets_;
  int ranks_;
  std::vector<Piece> pieces_;  // (buckets, ranks)
  std::vector<int64_t> sizes_, blocks_;
  int64_t longest_ = 0;
};

}  // namespace folio
