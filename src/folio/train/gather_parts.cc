#include "folio/train/gather_parts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "folio/base/check.h"
#include "folio/dist/all_to_all.h"
#include "folio/dist/communicator.h"
#include "folio/model/shard.h"
#include "folio/train/buckets.h"

namespace folio {
namespace {

// A bucket of one part on its way to the first rank, a piece from each of those that have the part.
class BucketToFirst final : public AllToAll {
 public:
  struct Part {
    const Shards& shards;
    Communicator owners;  // of this rank: those that have its part
    bool mine = false;    // this rank is one of them
    int index = 0;        // of the part, and how many there are
    int parts = 1;
    bool pieces = false;  // PartHeld
    const float* from;    // what this rank has
    float* to;            // of the whole part, at the first rank; null elsewhere
  };

  BucketToFirst(const Part& part, size_t bucket) : part_(part), bucket_(bucket) {}

  std::span<const std::byte> Outgoing(int to, int /*slot*/) const override {
    if (to != 0 || !part_.mine) return {};
    return std::as_bytes(Mine());
  }
  std::span<std::byte> Incoming(int from, int /*slot*/) override {
    if (part_.to == nullptr || from % part_.parts != part_.index) return {};
    const Shards::Piece piece = part_.shards.PieceOf(bucket_, from / part_.parts);
    return std::as_writable_bytes(
        std::span(part_.to + piece.begin, static_cast<size_t>(piece.size())));
  }
  void Finish(int /*slot*/) override {
    if (part_.to == nullptr || !part_.mine) return;
    std::ranges::copy(Mine(), part_.to + part_.shards.PieceOf(bucket_, 0).begin);
  }

 private:
  std::span<const float> Mine() const {
    const Shards::Piece piece = part_.shards.PieceOf(bucket_, part_.owners.rank());
    return {part_.from + (part_.pieces ? piece.offset : piece.begin),
            static_cast<size_t>(piece.size())};
  }

  const Part& part_;
  size_t bucket_;
};

void Gather(Group& group, const BucketToFirst::Part& part) {
  std::vector<std::unique_ptr<BucketToFirst>> buckets;
  uint64_t ticket = 0;
  for (size_t b = 0; b < part.shards.buckets().size(); ++b) {
    buckets.push_back(std::make_unique<BucketToFirst>(part, b));
    ticket = group.Begin(*buckets.back());
  }
  group.Wait(ticket);
}

}  // namespace

void GatherPieces(Group& group, const Shards& shards, const Tensor& mine, const Tensor& whole) {
  Gather(group, {.shards = shards,
                 .owners = DataCommunicator(&group, 1),
                 .mine = true,
                 .pieces = true,
                 .from = mine.data<float>(),
                 .to = group.first() ? whole.data<float>() : nullptr});
}

void GatherParts(Group& group, const ParamTable& table, const Tensor& mine, PartHeld held,
                 const GptWeights* whole) {
  const auto parts = static_cast<int>(table.shard().count);
  const Communicator owners = DataCommunicator(&group, parts);
  for (int index = 0; index < parts; ++index) {
    const ParamTable of(table.config(), table.lora(), {.index = index, .count = parts});
    FOLIO_CHECK(of.trained_size() == of.flat_size(), "a shard is trained as a whole");
    const Shards shards(BucketsOf(of, of.config().n_layer), owners.size());
    std::optional<GptWeights> received;
    if (whole != nullptr) received.emplace(of);
    const BucketToFirst::Part part{.shards = shards,
                                   .owners = owners,
                                   .mine = table.shard().index == index,
                                   .index = index,
                                   .parts = parts,
                                   .pieces = held == PartHeld::kPieces,
                                   .from = mine.data<float>(),
                                   .to = received ? received->flat().data<float>() : nullptr};
    Gather(group, part);
    if (whole != nullptr) PutShard(*whole, *received);
  }
}

}  // namespace folio
