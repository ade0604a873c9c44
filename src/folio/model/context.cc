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

namespace {

double RateAt(const GptConfig& config, const LoraConfig& lora, DropoutPlace place) {
  switch (place) {
    case DropoutPlace::kAttention:
      return config.attn_pdrop;
    case DropoutPlace::kAttentionResidual:
    case DropoutPlace::kMlpResidual:
      return config.resid_pdrop;
    case DropoutPlace::kActivation:
      return config.mlp_pdrop;
    case DropoutPlace::kAttentionInput:
    case DropoutPlace::kMlpInput:
      return config.sublayer_pdrop;
    case DropoutPlace::kAttnAdapter:
    case DropoutPlace::kAttnProjAdapter:
    case DropoutPlace::kFcAdapter:
    case DropoutPlace::kMlpProjAdapter:
      return lora.dropout;
  }
  FOLIO_CHECK(false, "no such place");
}

}  // namespace

// Places of GPT-2 are numbered block by block and the others behind them, so that the former draw
// what they always drew.
Dropout PassContext::BlockDropout(int64_t layer, DropoutPlace place) const {
  constexpr uint64_t kOfABlock = 3;
  const uint64_t kind = static_cast<uint64_t>(place);
  const uint64_t block =
      kind / kOfABlock * static_cast<uint64_t>(config.n_layer) + static_cast<uint64_t>(layer);
  const bool attention = place == DropoutPlace::kAttention;
  Dropout at = DropoutAt(RateAt(config, lora, place), 1 + block * kOfABlock + kind % kOfABlock,
                         attention ? config.n_head * T : T);
  if (shard.whole() || !at.active()) return at;
  if (attention) {
    at.heads = config.n_head;
    at.first_row += shard.Begin(config.n_head) * T;
  }
  if (place == DropoutPlace::kActivation) {
    at.width = config.inner();
    at.first_column = shard.Begin(config.inner());
  }
  return at;
}

void PassContext::Drop(const Tensor& x, const Dropout& at) const {
  if (at.active()) backend.Run(ResidualForward{.x = x, .out = x, .dropout = at});
}

}  // namespace folio
