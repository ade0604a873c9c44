#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// Every operation but linear.h's and attention.h's. float32, and BF16 where ops.h says Half; the
// struct has been checked. The work is cut by the sizes of the operands alone, so that results do
// not depend on Threads().
void RunEmbedding(const EmbeddingForward& op);
void RunEmbedding(const EmbeddingBackward& op);
void RunLayerNorm(const LayerNormForward& op);
void RunLayerNorm(const LayerNormBackward& op, Scratch& scratch);
void RunActivation(const ActivationForward& op);
void RunActivation(const ActivationBackward& op);
void RunMask(const MaskForward& op);
void RunSoftmax(const SoftmaxForward& op);
void RunSoftmax(const SoftmaxBackward& op);
void RunNormalize(const NormalizeForward& op);
void RunNormalize(const NormalizeBackward& op);
void RunResidual(const ResidualForward& op);
void RunResidual(const ResidualBackward& op);
void RunCrossEntropy(const CrossEntropyForward& op);
void RunCrossEntropy(const CrossEntropyBackward& op);
void RunAdamW(const AdamWUpdate& op);
void RunSumOfSquares(const SumOfSquares& op, Scratch& scratch);
void RunFill(const Fill& op);

// Elements of one task: enough work that handing it to a thread costs little beside it, few enough
// to stay in a first- or second-level cache.
inline constexpr int64_t kTaskElements = 8192;

// Elements of one task where nothing is used twice.
inline constexpr int64_t kStreamElements = 32768;

// Rows of `width` elements that make about one task.
inline int64_t TaskRows(int64_t width) {
  return width >= kTaskElements ? 1 : kTaskElements / (width < 1 ? 1 : width);
}

}  // namespace folio::cpu
