#include "folio/train/weight_gather.h"

#include <algorithm>
#include <numeric>

namespace folio {

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

}  // namespace folio
