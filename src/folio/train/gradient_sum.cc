#include "folio/train/gradient_sum.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

// The gradient of one micro-batch, or of several in a row: that of embeddings, head and what does
// not decay in its order, then the places that blocks take in turns, each as large as the largest.
struct PartLayout {
  PartLayout(const Shards& shards, int64_t n_layer, int64_t reduce_every) {
    const int64_t turns = GradientSum::PlacesOf(n_layer, reduce_every);
    const auto is_block = [&](int64_t layer) { return layer >= 0 && layer < n_layer; };
    std::vector<int64_t> blocks(static_cast<size_t>(n_layer));
    int64_t others = 0, largest = 0;
    for (const ShardBucket& bucket : shards.buckets()) {
      int64_t& used = is_block(bucket.layer) ? blocks[static_cast<size_t>(bucket.layer)] : others;
      places.push_back(std::exchange(used, used + bucket.size()));
    }
    for (const int64_t block : blocks) largest = std::max(largest, block);
    for (size_t b = 0; b < places.size(); ++b) {
      const int64_t layer = shards.buckets()[b].layer;
      if (is_block(layer)) places[b] += others + layer % turns * largest;
    }
    size = others + turns * largest;
  }

  std::vector<int64_t> places;  // by bucket
  int64_t size = 0;             // in elements
};

struct PlanIds {
  MemoryPlan::Id sum = 0, part = 0;
  std::vector<MemoryPlan::Id> scratch, packed;
};

// `exchange` gets what only the host uses; it may be the same plan.
PlanIds AddBuffers(MemoryPlan& plan, MemoryPlan& exchange, int64_t n_layer, const Shards& shards,
                   int rank, Dtype dtype, const PlannedParallelism& parallelism) {
  const bool alone = shards.ranks() == 1;
  const auto add = [&](const char* name, int64_t n) {
    return alone ? plan.Add(name, dtype, {n}) : plan.AddMirrored(name, dtype, {n});
  };
  PlanIds ids;
  ids.sum = add("gradients", shards.SizeOf(rank));
  if (alone && parallelism.micro_batches == parallelism.reduce_every) return ids;
  ids.part = add("gradients.part", PartLayout(shards, n_layer, parallelism.reduce_every).size);
  if (alone) return ids;
  int64_t bucket = 0;
  for (const ShardBucket& b : shards.buckets()) bucket = std::max(bucket, b.size());
  for (int slot = 0; slot < AllToAll::kInFlight; ++slot) {
    ids.scratch.push_back(
        exchange.Add("gradients.received", parallelism.reduce, {shards.ranks(), shards.longest()}));
    if (parallelism.reduce != Dtype::kBF16) continue;
    ids.packed.push_back(exchange.Add("gradients.sent", parallelism.reduce, {bucket}));
  }
  return ids;
}

// sum[i] = (sum[i], if `add`) + parts[0][i] + parts[1][i] + ..., in this order.
template <class Number, class Widen>
void AddInOrder(std::span<const Number* const> parts, bool add, int64_t n, float* sum,
                const Widen& widen) {
  constexpr int64_t kStrip = 2048;  // stays in the first cache while the parts go through
  for (int64_t begin = 0; begin < n; begin += kStrip) {
    const int64_t end = std::min(n, begin + kStrip);
    bool there = add;
    for (const Number* part : parts) {
      if (there) {
        for (int64_t i = begin; i < end; ++i) sum[i] += widen(part[i]);
      } else {
        for (int64_t i = begin; i < end; ++i) sum[i] = widen(part[i]);
      }
      there = true;
    }
  }
}

// The nearest numbers that BF16 has.
void RoundToBf16(const Tensor& x) {
  constexpr int64_t kGrain = 1 << 14;
  const HostEdit edit(x);
  float* data = edit.elements<float>().data();
  ParallelRange(x.count(), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) data[i] = ToFloat(ToBF16(data[i]));
  });
  edit.Send();
}

}  // namespace

// A bucket's gradients on their way to their owners.
class GradientSum::Reduction final : public AllToAll {
 public:
  Reduction(GradientSum& sum, size_t bucket) : sum_(sum), bucket_(bucket) {
    const ShardBucket& b = sum.shards_.buckets()[bucket];
    part_ = sum.PartOf(bucket, b.begin, b.end).host.host<float>() - b.begin;
    sources_.resize(static_cast<size_t>(sum.communicator_.size()));
    packed_sources_.resize(sources_.size());
  }

  void set_add(bool add) { add_ = add; }

  void Prepare(int slot) override {
    if (!packs()) return;
    const ShardBucket& b = sum_.shards_.buckets()[bucket_];
    BF16* packed = sum_.packed_[static_cast<size_t>(slot)].host<BF16>();
    for (int64_t i = 0; i < b.size(); ++i) packed[i] = ToBF16(part_[b.begin + i]);
  }

  std::span<const std::byte> Outgoing(int to, int slot) const override {
    const Shards::Piece piece = sum_.shards_.PieceOf(bucket_, to);
    const auto size = static_cast<size_t>(piece.size());
    if (!packs()) return std::as_bytes(std::span(part_ + piece.begin, size));
    return std::as_bytes(std::span(Packed(piece, slot), size));
  }

  std::span<std::byte> Incoming(int from, int slot) override {
    const auto size = static_cast<size_t>(Mine().size());
    if (!packs()) return std::as_writable_bytes(std::span(Received<float>(from, slot), size));
    return std::as_writable_bytes(std::span(Received<BF16>(from, slot), size));
  }

  void Finish(int slot) override {
    const Shards::Piece mine = Mine();
    float* sum = sum_.sum_.host.host<float>() + mine.offset;
    const int me = sum_.communicator_.rank();
    for (int rank = 0; rank < sum_.communicator_.size(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      if (packs()) {
        packed_sources_[r] = rank == me ? Packed(mine, slot) : Received<BF16>(rank, slot);
      } else {
        sources_[r] = rank == me ? part_ + mine.begin : Received<float>(rank, slot);
      }
    }
    if (packs()) {
      AddInOrder<BF16>(packed_sources_, add_, mine.size(), sum, [](BF16 x) { return ToFloat(x); });
    } else {
      AddInOrder<float>(sources_, add_, mine.size(), sum, [](float x) { return x; });
    }
  }

 private:
  bool packs() const { return sum_.parallelism_.reduce == Dtype::kBF16; }
  Shards::Piece Mine() const { return sum_.shards_.PieceOf(bucket_, sum_.communicator_.rank()); }
  const BF16* Packed(const Shards::Piece& piece, int slot) const {
    const int64_t begin = sum_.shards_.buckets()[bucket_].begin;
    return sum_.packed_[static_cast<size_t>(slot)].host<BF16>() + (piece.begin - begin);
  }
  template <class Number>
  Number* Received(int from, int slot) const {
    return sum_.scratch_[static_cast<size_t>(slot)].host<Number>() + from * sum_.shards_.longest();
  }

  GradientSum& sum_;
  size_t bucket_;
  const float* part_;  // element 0 of the flat array would be here
  bool add_ = false;
  std::vector<const float*> sources_;
  std::vector<const BF16*> packed_sources_;
};

GradientSum::GradientSum(Backend& backend, const ParamTable& table, const Shards& shards,
                         Dtype dtype, const Parallelism& parallelism)
    : backend_(backend),
      shards_(shards),
      parallelism_(parallelism),
      communicator_(parallelism.data()),
      n_layer_(table.config().n_layer) {
  FOLIO_CHECK(
      dtype == Dtype::kF32 || (communicator_.size() == 1 && parallelism.reduce == Dtype::kF32),
      "ranks add up float32");
  FOLIO_CHECK(parallelism.micro_batches % parallelism.reduce_every == 0,
              "a sum has as many as another");
  const PlanIds ids =
      AddBuffers(plan_, exchange_plan_, n_layer_, shards, communicator_.rank(), dtype,
                 {.ranks = communicator_.size(),
                  .micro_batches = parallelism.micro_batches,
                  .reduce_every = parallelism.reduce_every,
                  .reduce = parallelism.reduce});
  plan_.Place();
  exchange_plan_.Place();
  arena_ = Arena(plan_, backend.memory());
  exchange_arena_ = Arena(exchange_plan_);
  const bool alone = communicator_.size() == 1;
  const auto get = [&](MemoryPlan::Id id) {
    if (!alone) return arena_.GetMirror(plan_, id);
    const Tensor x = arena_.Get(plan_, id);
    return Mirror{x, x};
  };
  sum_ = get(ids.sum);
  for (const MemoryPlan::Id id : ids.scratch)
    scratch_.push_back(exchange_arena_.Get(exchange_plan_, id));
  for (const MemoryPlan::Id id : ids.packed)
    packed_.push_back(exchange_arena_.Get(exchange_plan_, id));
  if (!alone || parallelism.micro_batches > parallelism.reduce_every) {
    part_ = get(ids.part);
    part_places_ = PartLayout(shards, n_layer_, parallelism.reduce_every).places;
    BindParts(table);
  }
  if (alone) {
    for (const ParamInfo& info : table.params()) {
      in_sum_.push_back(info.trained ? table.ViewPadded(info, sum()) : Tensor());
    }
    into_sum_ = BindParams(table, in_sum_);
    return;
  }
  for (size_t b = 0; b < shards.buckets().size(); ++b) {
    reductions_.push_back(std::make_unique<Reduction>(*this, b));
  }
  tickets_.resize(reductions_.size());
}

GradientSum::~GradientSum() = default;

void GradientSum::AddTo(MemoryPlan& plan, const GptConfig& config, const Shards& shards,
                        Dtype dtype, const PlannedParallelism& parallelism) {
  AddBuffers(plan, plan, config.n_layer, shards, /*rank=*/0, dtype, parallelism);
}

// Elements [begin, end) of the flat array, the first of them in this bucket, of what the backward
// leaves.
Mirror GradientSum::PartOf(size_t bucket, int64_t begin, int64_t end) const {
  const int64_t at = part_places_[bucket] + begin - shards_.buckets()[bucket].begin;
  return part_.Slice(at, at + end - begin);
}

void GradientSum::BindParts(const ParamTable& table) {
  for (const ParamInfo& info : table.params()) {
    if (!info.trained) {
      in_part_.emplace_back();
      continue;
    }
    const int64_t end = info.offset + info.padded.count();
    const auto bucket = std::ranges::find_if(shards_.buckets(), [&](const ShardBucket& b) {
      return b.begin <= info.offset && info.offset < b.end;
    });
    const auto index = static_cast<size_t>(bucket - shards_.buckets().begin());
    in_part_.push_back(PartOf(index, info.offset, end).device.Reshape(info.padded));
  }
  into_part_ = BindParams(table, in_part_);
}

const GptParams& GradientSum::BeginMicroBatch() {
  micro_batches_ += 1;
  FOLIO_CHECK(micro_batches_ <= parallelism_.micro_batches,
              "more micro-batches than were announced");
  if (communicator_.size() == 1) return first() ? into_sum_ : into_part_;
  // The gradients of head and embeddings are written from the beginning of the backward on.
  for (size_t b = 0; b < tickets_.size(); ++b) {
    const int64_t layer = shards_.buckets()[b].layer;
    if (layer < 0 || layer == n_layer_) communicator_.Wait(tickets_[b]);
  }
  return into_part_;
}

void GradientSum::BeforeBlock(int64_t layer) {
  block_ = layer;
  if (communicator_.size() == 1) return;
  // The block that had its place before, in this micro-batch or at the end of the one before, must
  // have left it.
  const int64_t places = PlacesOf(n_layer_, parallelism_.reduce_every);
  for (size_t b = 0; b < tickets_.size(); ++b) {
    const int64_t other = shards_.buckets()[b].layer;
    if (other < 0 || other >= n_layer_ || other % places != layer % places) continue;
    communicator_.Wait(tickets_[b]);
  }
}

void GradientSum::AfterLayer(int64_t layer) {
  if (micro_batches_ % parallelism_.reduce_every != 0) return;
  for (size_t b = 0; b < shards_.buckets().size(); ++b) {
    const ShardBucket& bucket = shards_.buckets()[b];
    if (bucket.layer != layer) continue;
    if (communicator_.size() == 1) {
      AddPart(bucket, b);
      continue;
    }
    reductions_[b]->set_add(!first());
    PartOf(b, bucket.begin, bucket.end).Fetch();
    tickets_[b] = communicator_.Begin(*reductions_[b]);
  }
}

// Adds a bucket of one rank alone: the first of a step is in the sum already.
void GradientSum::AddPart(const ShardBucket& bucket, size_t index) {
  const int64_t offset = shards_.PieceOf(index, 0).offset, n = bucket.size();
  const Tensor all = sum().Slice(offset, offset + n).Reshape({1, n});
  const Tensor part =
      first() ? all : PartOf(index, bucket.begin, bucket.end).device.Reshape({1, n});
  if (parallelism_.reduce == Dtype::kBF16) RoundToBf16(part);
  if (!first()) backend_.Run(ResidualForward{.residual = all, .x = part, .out = all});
}

void GradientSum::Finish() {
  if (communicator_.size() == 1 || empty()) return;
  for (const uint64_t ticket : tickets_) communicator_.Wait(ticket);
  sum_.Send();
}

std::string GradientSum::NameAt(const std::byte* at, const ParamTable& table) const {
  for (const std::vector<Tensor>* tensors : {&in_sum_, &in_part_}) {
    for (size_t i = 0; i < tensors->size(); ++i) {
      const Tensor& x = (*tensors)[i];
      // Blocks take the same places in turns.
      const int64_t layer = table.params()[i].layer;
      if (tensors == &in_part_ && layer >= 0 && layer != block_) continue;
      if (x && !std::less<>()(at, x.address()) && std::less<>()(at, x.address() + x.bytes())) {
        return table.params()[i].name;
      }
    }
  }
  return "";
}

void GradientSum::Clear() {
  backend_.Run(Fill{.out = sum(), .value = 0});
}

}  // namespace folio
