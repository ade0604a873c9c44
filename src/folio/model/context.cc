#include "folio/model/context.h"

#include "folio/base/rng.h"

namespace folio {

Dropout PassContext::DropoutAt(double p, uint64_t place, int64_t rows_per_sequence) const {
  if (!dropout.on || p == 0) return {};
  return {.p = p,
          .seed = dropout.seed,
          .stream = RngStream(RngPurpose::kDropout, dropout.step, place),
          .first_row = dropout.first_sequence * rows_per_sequence};
}

Dropout PassContext::BlockDropout(int64_t layer, DropoutPlace place) const {
  const bool attention = place == DropoutPlace::kAttention;
  constexpr uint64_t kPlaces = 3;
  return DropoutAt(attention ? config.attn_pdrop : config.resid_pdrop,
                   1 + static_cast<uint64_t>(layer) * kPlaces + static_cast<uint64_t>(place),
                   attention ? config.n_head * T : T);
}

}  // namespace folio
