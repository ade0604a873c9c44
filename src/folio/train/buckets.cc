#include "folio/train/buckets.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "folio/base/check.h"
#include "folio/dist/communicator.h"
#include "folio/dist/group.h"
#include "folio/model/shard.h"
#include "folio/train/optimizer.h"

namespace folio {

std::vector<ShardBucket> BucketsOf(const ParamTable& table, int64_t n_layer) {
  // Large enough for any network, small enough that two are little memory; and not too many.
  constexpr int64_t kElements = 1024 * Shards::kBlock, kMostOfLayer = 64;
  std::vector<const ParamInfo*> trained;  // as they lie
  for (const ParamInfo& info : table.params()) {
    if (info.trained) trained.push_back(&info);
  }
  std::ranges::sort(trained, {}, &ParamInfo::offset);
  const auto layer_of = [&](const ParamInfo& info) {
    if (GroupOf(info) == ParamGroup::kPlain) return int64_t{-1};
    return info.module == kHeadName ? n_layer : info.layer;
  };
  std::vector<ShardBucket> layers;
  const ParamInfo* before = nullptr;
  for (const ParamInfo* info : trained) {
    const bool goes_on = before != nullptr && layer_of(*info) == layers.back().layer &&
                         GroupOf(*info) == GroupOf(*before) && info->shared == before->shared;
    before = info;
    if (goes_on) continue;
    if (!layers.empty()) layers.back().end = info->offset;
    layers.push_back({.begin = info->offset, .end = 0, .layer = layer_of(*info)});
  }
  if (!layers.empty()) layers.back().end = table.trained_size();
  std::vector<ShardBucket> buckets;
  for (const ShardBucket& layer : layers) {
    const int64_t least = (layer.size() / kMostOfLayer / Shards::kBlock + 1) * Shards::kBlock;
    const int64_t size = std::max(kElements, least);
    for (int64_t begin = layer.begin; begin < layer.end; begin += size) {
      buckets.push_back({begin, std::min(layer.end, begin + size), layer.layer});
    }
  }
  return buckets;
}

class WeightGather::Piece final : public AllToAll {
 public:
  Piece(const WeightGather& of, size_t bucket, float* flat)
      : of_(of), bucket_(bucket), flat_(flat) {}

  std::span<const std::byte> Outgoing(int /*to*/, int /*slot*/) const override {
    return std::as_bytes(Of(of_.communicator_.rank()));
  }
  std::span<std::byte> Incoming(int from, int /*slot*/) override {
    return std::as_writable_bytes(Of(from));
  }

 private:
  std::span<float> Of(int rank) const {
    const Shards::Piece piece = of_.shards_.PieceOf(bucket_, rank);
    return {flat_ + piece.begin, static_cast<size_t>(piece.size())};
  }

  const WeightGather& of_;
  size_t bucket_;
  float* flat_;
};

WeightGather::WeightGather(const Communicator& communicator, const Shards& shards,
                           const Tensor& flat)
    : communicator_(communicator),
      shards_(shards),
      tickets_(shards.buckets().size()),
      order_(tickets_.size()) {
  for (size_t b = 0; b < tickets_.size(); ++b) {
    pieces_.push_back(std::make_unique<Piece>(*this, b, flat.data<float>()));
  }
  // Embeddings are layer -1, and so is what does not decay: a block needs it first of all.
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::stable_sort(order_, {}, [&](size_t b) { return shards.buckets()[b].layer; });
}

WeightGather::~WeightGather() = default;

void WeightGather::Begin(size_t bucket) {
  tickets_[bucket] = communicator_.Begin(*pieces_[bucket]);
}

void WeightGather::Wait(int64_t layer) {
  for (size_t b = 0; b < tickets_.size(); ++b) {
    if (shards_.buckets()[b].layer == layer) communicator_.Wait(tickets_[b]);
  }
}

void WeightGather::WaitForAll() {
  for (const uint64_t ticket : tickets_) communicator_.Wait(ticket);
}

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
