#pragma once

#include <type_traits>

#include "folio/backend/device/kernel.h"
#include "folio/backend/ops.h"

namespace folio::device {

// Begin the launches of an operation, in order, for LaunchOperation. There are none yet for
// products, attention, and pages of keys and values.
void BeginKernels(Queue& queue, const EmbeddingForward& op, int threads);
void BeginKernels(Queue& queue, const EmbeddingBackward& op, int threads);
void BeginKernels(Queue& queue, const LayerNormForward& op, int threads);
void BeginKernels(Queue& queue, const LayerNormBackward& op, int threads);
void BeginKernels(Queue& queue, const RmsNormForward& op, int threads);
void BeginKernels(Queue& queue, const RmsNormBackward& op, int threads);
void BeginKernels(Queue& queue, const HeadNormForward& op, int threads);
void BeginKernels(Queue& queue, const HeadNormBackward& op, int threads);
void BeginKernels(Queue& queue, const HeadNormSums& op, int threads);
void BeginKernels(Queue& queue, const RotaryAngles& op, int threads);
void BeginKernels(Queue& queue, const Rotary& op, int threads);
void BeginKernels(Queue& queue, const ActivationForward& op, int threads);
void BeginKernels(Queue& queue, const ActivationBackward& op, int threads);
void BeginKernels(Queue& queue, const GatedForward& op, int threads);
void BeginKernels(Queue& queue, const GatedBackward& op, int threads);
void BeginKernels(Queue& queue, const ResidualForward& op, int threads);
void BeginKernels(Queue& queue, const ResidualBackward& op, int threads);
void BeginKernels(Queue& queue, const MixForward& op, int threads);
void BeginKernels(Queue& queue, const MixBackward& op, int threads);
void BeginKernels(Queue& queue, const GatedAddForward& op, int threads);
void BeginKernels(Queue& queue, const GatedAddBackward& op, int threads);
void BeginKernels(Queue& queue, const LogitCap& op, int threads);
void BeginKernels(Queue& queue, const CrossEntropy& op, int threads);
void BeginKernels(Queue& queue, const CrossEntropyBackward& op, int threads);
void BeginKernels(Queue& queue, const AdamWUpdate& op, int threads);
void BeginKernels(Queue& queue, const SumOfElements& op, int threads);
void BeginKernels(Queue& queue, const SumOfSquares& op, int threads);
void BeginKernels(Queue& queue, const Scale& op, int threads);
void BeginKernels(Queue& queue, const CopyColumns& op, int threads);
void BeginKernels(Queue& queue, const Fill& op, int threads);
template <class NormOp>
void BeginKernels(Queue& queue, const ResidualNorm<NormOp>& op, int threads) {
  BeginKernels(queue, op.residual, threads);
  BeginKernels(queue, op.Norm(), threads);
}

// Returns true if there are kernels for an operation's dtypes: F32, and BF16 where ops.h says Low.
template <class Op>
bool HasDtypes(const Op& op) {
  bool has = true;
  VisitOperands(op, [&](std::string_view, const auto& x, Access) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
      has = has && !(x && x.dtype() == Dtype::kF64);
    } else {
      has = has && !(x && x.dtype == Dtype::kF64);
    }
  });
  return has;
}
// A weight may be stored in these two.
inline bool HasDtypes(const EmbeddingForward& op) {
  return op.wte.dtype() == Dtype::kF32 || op.wte.dtype() == Dtype::kBF16;
}
// Sums are F64.
inline bool HasDtypes(const SumOfElements&) {
  return true;
}
inline bool HasDtypes(const SumOfSquares& op) {
  return op.x.dtype() != Dtype::kF64;
}

// Begins an operation on tensors of the device. Results do not depend on `threads`, those of a
// block, a multiple of kWarp. Returns false, and begins nothing, if there are no kernels for these
// dtypes. REQUIRES: op.Check() passes.
template <class Op>
requires requires(Queue& queue, const Op& op) {
  BeginKernels(queue, op, kWarp);
}
bool LaunchOperation(Queue& queue, const Op& op, int threads) {
  if (!HasDtypes(op)) return false;
  BeginKernels(queue, op, threads);
  return true;
}

}  // namespace folio::device
