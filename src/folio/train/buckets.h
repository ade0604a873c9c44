#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "folio/model/params.h"
#include "folio/ranks/group.h"
#include "folio/tensor/memory_plan.h"
#include "folio/tensor/tensor.h"

namespace folio {

// A part [begin, end) of a flat array whose elements are sent together.
struct ShardBucket {
  int64_t begin = 0, end = 0;
  int64_t layer = 0;  // the layer whose parameters they are, numbered as in LayerGate
  ParamGroup group = ParamGroup::kDecayed;  // the group of all of them
  bool shared = false;                      // ParamInfo's

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
  // The part of the flat array that is divided. REQUIRES: there are buckets.
  int64_t begin() const { return buckets_.front().begin; }
  int64_t end() const { return buckets_.back().end; }
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

// The trained part of a model's flat array, divided by layers, whose gradients the backward
// completes together: each ParamGroup of the embeddings, of each block and of a separate head, in
// pieces of a few million elements; parameters without decay belong to the embeddings. In a shard
// of a model, the parameters that all shards have are in buckets of their own.
std::vector<ShardBucket> BucketsOf(const ParamTable& table);

// Sends the pieces of a flat array that each rank owns to all others, bucket by bucket, in the
// order in which the next forward needs them.
class WeightGather {
 public:
  // All must outlive it. `flat` is F32. Begin and the waits copy between its memory and the
  // host's, where the pieces travel.
  WeightGather(const Communicator& communicator, const Shards& shards, const Tensor& flat);
  WeightGather(const WeightGather&) = delete;

  // Buckets in the order in which Begin is to be called.
  const std::vector<size_t>& order() const { return order_; }
  // Begins to send this rank's piece of the bucket to the others.
  void Begin(size_t bucket);
  // Waits for the buckets of a layer, or for all.
  void Wait(int64_t layer);
  void WaitForAll();

 private:
  void Receive(size_t bucket);

  Communicator communicator_;
  const Shards& shards_;
  HostEdit flat_;
  std::vector<std::unique_ptr<AllToAll>> pieces_;  // by bucket
  std::vector<uint64_t> tickets_;                  // 0 for what has arrived
  std::vector<size_t> order_;
};

// The form in which a rank has its share of a float32 array that is laid out as a model's
// parameters.
enum class PartHeld {
  kAll,     // all of its shard of the model
  kPieces,  // its pieces of that (Shards), one after the other
};

// Gathers such an array on the first rank, in `whole`, which has the whole model's and is null on
// the others. `table` is that of the rank's shard, of which everything is trained. All ranks call
// it.
void GatherParts(Group& group, const ParamTable& table, const Tensor& mine, PartHeld held,
                 const GptWeights* whole);

// Gathers an array of which each rank has its pieces (F32) on the first rank: in `whole`, in the
// host's memory, which is empty on the others.
void GatherPieces(Group& group, const Shards& shards, const Tensor& mine, const Tensor& whole);

}  // namespace folio
