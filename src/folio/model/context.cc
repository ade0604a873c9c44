#include "folio/model/context.h"

#include "folio/base/check.h"
#include "folio/base/rng.h"
#include "folio/model/tensor_parallel_group.h"

namespace folio {

void PassContext::Sum(const Tensor& x) const {
  FOLIO_CHECK(shard.whole() || group != nullptr, "nobody has the other shards");
  if (!shard.whole()) group->Sum(x);
}

Dropout PassContext::DropoutAt(double p, uint64_t place, int64_t rows_per_sequence) const {
  if (!dropout.on || p == 0) return {};
  return {.p = p,
          .seed = dropout.seed,
          .stream = RngStream(RngPurpose::kDropout, dropout.step, place),
          .first_row = dropout.first_sequence * rows_per_sequence};
}

// Places of GPT-2 are numbered block by block and the others behind them, so that the former draw
// what they always drew.
Dropout PassContext::BlockDropout(int64_t layer, const DropoutPlace& place) const {
  constexpr uint64_t kOfABlock = 3;
  const uint64_t block = place.number / kOfABlock * static_cast<uint64_t>(config.n_layer) +
                         static_cast<uint64_t>(layer);
  const bool heads = place.rows == DropoutPlace::kHeads;
  const double rate = place.rate != nullptr ? config.*place.rate : lora.dropout;
  Dropout at = DropoutAt(rate, 1 + block * kOfABlock + place.number % kOfABlock,
                         heads ? config.n_head * T : T);
  if (shard.whole() || !at.active()) return at;
  if (heads) {
    at.heads = config.n_head;
    at.first_row += shard.Begin(config.n_head) * T;
  }
  if (place.rows == DropoutPlace::kInner) {
    at.width = config.inner();
    at.first_column = shard.Begin(config.inner());
  }
  return at;
}

void PassContext::Drop(const Tensor& x, const Dropout& at) const {
  if (at.active()) backend.Run(ResidualForward{.x = x, .out = x, .dropout = at});
}

}  // namespace folio
