#pragma once

#include "folio/backend/device/kernel.h"
#include "folio/backend/ops.h"

namespace folio::device {

// Each of these begins an operation on tensors of the device: the launches that are made of it, in
// order. Results do not depend on `threads`, those of a block, a multiple of kWarp. Returns false,
// and begins nothing, if there are no kernels for these dtypes: for F64, and for an embedding whose
// weight is neither F32 nor BF16. REQUIRES: op.Check() passes.
//
// There are none yet for products, attention, and pages of keys and values.
bool LaunchOperation(Queue& queue, const EmbeddingForward& op, int threads);
bool LaunchOperation(Queue& queue, const EmbeddingBackward& op, int threads);
bool LaunchOperation(Queue& queue, const LayerNormForward& op, int threads);
bool LaunchOperation(Queue& queue, const LayerNormBackward& op, int threads);
bool LaunchOperation(Queue& queue, const RmsNormForward& op, int threads);
bool LaunchOperation(Queue& queue, const RmsNormBackward& op, int threads);
bool LaunchOperation(Queue& queue, const HeadNormForward& op, int threads);
bool LaunchOperation(Queue& queue, const HeadNormBackward& op, int threads);
bool LaunchOperation(Queue& queue, const HeadNormSums& op, int threads);
bool LaunchOperation(Queue& queue, const RotaryAngles& op, int threads);
bool LaunchOperation(Queue& queue, const Rotary& op, int threads);
bool LaunchOperation(Queue& queue, const ActivationForward& op, int threads);
bool LaunchOperation(Queue& queue, const ActivationBackward& op, int threads);
bool LaunchOperation(Queue& queue, const GatedForward& op, int threads);
bool LaunchOperation(Queue& queue, const GatedBackward& op, int threads);
bool LaunchOperation(Queue& queue, const ResidualForward& op, int threads);
bool LaunchOperation(Queue& queue, const ResidualBackward& op, int threads);
bool LaunchOperation(Queue& queue, const ResidualLayerNorm& op, int threads);
bool LaunchOperation(Queue& queue, const ResidualRmsNorm& op, int threads);
bool LaunchOperation(Queue& queue, const MixForward& op, int threads);
bool LaunchOperation(Queue& queue, const MixBackward& op, int threads);
bool LaunchOperation(Queue& queue, const GatedAddForward& op, int threads);
bool LaunchOperation(Queue& queue, const GatedAddBackward& op, int threads);
bool LaunchOperation(Queue& queue, const LogitCap& op, int threads);
bool LaunchOperation(Queue& queue, const CrossEntropy& op, int threads);
bool LaunchOperation(Queue& queue, const CrossEntropyBackward& op, int threads);
bool LaunchOperation(Queue& queue, const AdamWUpdate& op, int threads);
bool LaunchOperation(Queue& queue, const SumOfElements& op, int threads);
bool LaunchOperation(Queue& queue, const SumOfSquares& op, int threads);
bool LaunchOperation(Queue& queue, const Scale& op, int threads);
bool LaunchOperation(Queue& queue, const CopyColumns& op, int threads);
bool LaunchOperation(Queue& queue, const Fill& op, int threads);

}  // namespace folio::device
