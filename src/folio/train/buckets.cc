#include "folio/train/buckets.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "folio/base/check.h"
#include "folio/model/config.h"
#include "folio/model/shard_weights.h"

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

std::vector<ShardBucket> BucketsOf(const ParamTable& table) {
  const int64_t n_layer = table.config().n_layer;
  // Large enough for any network, small enough that two are little memory; and not too many.
  constexpr int64_t kElements = 1024 * Shards::kBlock, kMostOfLayer = 64;
  std::vector<const ParamInfo*> trained;  // as they lie
  for (const ParamInfo& info : table.params()) {
    if (info.trained) trained.push_back(&info);
  }
  std::ranges::sort(trained, {}, &ParamInfo::offset);
  const auto layer_of = [&](const ParamInfo& info) {
    if (!IsDecayed(info.group)) return int64_t{-1};
    return info.module == kHeadName ? n_layer : info.layer;
  };
  const auto key = [](const ShardBucket& b) { return std::tuple(b.layer, b.group, b.shared); };
  std::vector<ShardBucket> layers;
  for (const ParamInfo* info : trained) {
    const ShardBucket next{info->offset, 0, layer_of(*info), info->group, info->shared};
    if (!layers.empty() && key(layers.back()) == key(next)) continue;
    if (!layers.empty()) layers.back().end = next.begin;
    layers.push_back(next);
  }
  if (!layers.empty()) layers.back().end = table.trained_size();
  std::vector<ShardBucket> buckets;
  for (const ShardBucket& layer : layers) {
    const int64_t least = (layer.size() / kMostOfLayer / Shards::kBlock + 1) * Shards::kBlock;
    const int64_t size = std::max(kElements, least);
    for (int64_t begin = layer.begin; begin < layer.end; begin += size) {
      ShardBucket& bucket = buckets.emplace_back(layer);
      bucket.begin = begin;
      bucket.end = std::min(layer.end, begin + size);
    }
  }
  return buckets;
}

WeightGather::WeightGather(const Communicator& communicator, const Shards& shards,
                           const Tensor& flat)
    : communicator_(communicator),
      shards_(shards),
      flat_(flat.Slice(0, shards.end()), HostEdit::kDiscard),
      tickets_(shards.buckets().size()),
      order_(tickets_.size()) {
  for (size_t b = 0; b < tickets_.size(); ++b) {
    const auto piece_of = [this, b, data = flat_.elements<float>().data()](int rank) {
      const Shards::Piece piece = shards_.PieceOf(b, rank);
      return std::span(data + piece.begin, static_cast<size_t>(piece.size()));
    };
    const auto own = [this, piece_of](int) { return piece_of(communicator_.rank()); };
    pieces_.emplace_back(new Exchange(own, piece_of));
  }
  // Embeddings are layer -1, and so is what does not decay: a block needs it first of all.
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::stable_sort(order_, {}, [&](size_t b) { return shards.buckets()[b].layer; });
}

void WeightGather::Begin(size_t bucket) {
  const Shards::Piece mine = shards_.PieceOf(bucket, communicator_.rank());
  flat_.mirror().Slice(mine.begin, mine.end).Fetch();
  tickets_[bucket] = communicator_.Begin(*pieces_[bucket]);
}

// Once: later the weights may have changed.
void WeightGather::Receive(size_t bucket) {
  if (tickets_[bucket] == 0) return;
  communicator_.Wait(std::exchange(tickets_[bucket], 0));
  const ShardBucket& arrived = shards_.buckets()[bucket];
  flat_.mirror().Slice(arrived.begin, arrived.end).Send();
}

void WeightGather::Wait(int64_t layer) {
  for (size_t b = 0; b < tickets_.size(); ++b) {
    if (shards_.buckets()[b].layer == layer) Receive(b);
  }
}

void WeightGather::WaitForAll() {
  for (size_t b = 0; b < tickets_.size(); ++b) Receive(b);
}

namespace {

// A part of an array on its way to the first rank.
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

// Brings a piece of each bucket from each of those that have the part.
void Gather(Group& group, const Part& part) {
  const auto mine = [&](size_t b) {
    const Shards::Piece piece = part.shards.PieceOf(b, part.owners.rank());
    const float* begin = part.from + (part.pieces ? piece.offset : piece.begin);
    return part.mine ? std::span(begin, static_cast<size_t>(piece.size())) : std::span(begin, 0);
  };
  const auto place = [&](size_t b, int rank) {
    const Shards::Piece piece = part.shards.PieceOf(b, rank / part.parts);
    const bool comes = part.to != nullptr && rank % part.parts == part.index;
    return comes ? std::span(part.to + piece.begin, static_cast<size_t>(piece.size()))
                 : std::span<float>();
  };
  std::vector<std::unique_ptr<AllToAll>> buckets;
  uint64_t ticket = 0;
  for (size_t b = 0; b < part.shards.buckets().size(); ++b) {
    const auto to = [mine, b](int rank) { return rank == 0 ? mine(b) : std::span<const float>(); };
    buckets.emplace_back(new Exchange(to, [place, b](int from) { return place(b, from); }));
    ticket = group.Begin(*buckets.back());
  }
  group.Wait(ticket);
  for (size_t b = 0; part.to != nullptr && b < buckets.size(); ++b) {
    std::ranges::copy(mine(b), place(b, 0).begin());
  }
}

}  // namespace

void GatherPieces(Group& group, const Shards& shards, const Tensor& mine, const Tensor& whole) {
  const HostCopy own(mine);
  Gather(group, {.shards = shards,
                 .owners = DataCommunicator(&group, 1),
                 .mine = true,
                 .pieces = true,
                 .from = own.elements<float>().data(),
                 .to = group.first() ? whole.host<float>() : nullptr});
}

void GatherParts(Group& group, const ParamTable& table, const Tensor& mine, PartHeld held,
                 const GptWeights* whole) {
  const auto parts = static_cast<int>(table.shard().count);
  const Communicator owners = DataCommunicator(&group, parts);
  const HostCopy own(mine);
  for (int index = 0; index < parts; ++index) {
    const ParamTable theirs = table.OfShard({.index = index, .count = parts});
    FOLIO_CHECK(theirs.trained_size() == theirs.flat_size(), "a shard is trained as a whole");
    const Shards shards(BucketsOf(theirs), owners.size());
    std::optional<GptWeights> received;
    if (whole != nullptr) received.emplace(theirs);
    const Part part{.shards = shards,
                    .owners = owners,
                    .mine = table.shard().index == index,
                    .index = index,
                    .parts = parts,
                    .pieces = held == PartHeld::kPieces,
                    .from = own.elements<float>().data(),
                    .to = received ? received->flat().host<float>() : nullptr};
    Gather(group, part);
    if (whole != nullptr) PutShard(*whole, *received);
  }
}

}  // namespace folio
