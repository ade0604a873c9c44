#include "folio/train/precision.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

// Returns whether bfloat16 products gain a model more time than rounding and packing cost it:
// measured, one of 128 channels trains in half the time.
bool GainsFromBf16(const GptConfig& model) {
  constexpr int64_t kChannels = 64;
  return model.n_embd >= kChannels;
}

}  // namespace

Dtype TrainDtype(const TrainConfig& train, const GptConfig& model, const Backend& backend) {
  if (train.dtype == DtypeSetting(Dtype::kF32)) return Dtype::kF32;
  if (train.dtype == DtypeSetting(Dtype::kBF16)) {
    if (!backend.Supports(Dtype::kBF16)) {
      throw UsageError(fmt::format("backend {} does not compute in bf16", backend.name()), "",
                       "use --dtype fp32, or --backend cpu");
    }
    return Dtype::kBF16;
  }
  FOLIO_CHECK(train.dtype == "auto", "no such train.dtype");
  // A run in lockstep with PyTorch is compared with float32 numbers.
  if (train.rng == "torch" || !GainsFromBf16(model)) return Dtype::kF32;
  return backend.PreferredDtype();
}

PassOptions PassOptionsOf(const TrainConfig& train, const GptConfig& model, const Backend& backend,
                          bool packed) {
  return {.dtype = TrainDtype(train, model, backend),
          .recompute = train.recompute,
          .packed = packed,
          .lora = train.lora};
}

Dtype ReduceDtype(const TrainConfig& train) {
  return train.reduce_dtype == DtypeSetting(Dtype::kBF16) ? Dtype::kBF16 : Dtype::kF32;
}

}  // namespace folio
