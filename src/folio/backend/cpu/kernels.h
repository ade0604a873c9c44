#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// Every operation, on float32, and BF16 where ops.h says Low; the struct has been checked. The
// work is cut by the sizes of the operands alone, so that results do not depend on Threads().
// Attention takes memory beyond its operands: a few copies of one head of queries, keys and values
// a thread.
void Run(const EmbeddingForward& op, Scratch& scratch);
void Run(const EmbeddingBackward& op, Scratch& scratch);
void Run(const LayerNormForward& op, Scratch& scratch);
void Run(const LayerNormBackward& op, Scratch& scratch);
void Run(const LinearForward& op, Scratch& scratch);
void Run(const LinearBackward& op, Scratch& scratch);
void Run(const ActivationForward& op, Scratch& scratch);
void Run(const ActivationBackward& op, Scratch& scratch);
void Run(const AttentionForward& op, Scratch& scratch);
void Run(const AttentionBackward& op, Scratch& scratch);
void Run(const CacheWrite& op, Scratch& scratch);
void Run(const CacheRead& op, Scratch& scratch);
void Run(const CacheAttention& op, Scratch& scratch);
void Run(const ResidualForward& op, Scratch& scratch);
void Run(const ResidualBackward& op, Scratch& scratch);
void Run(const CrossEntropyForward& op, Scratch& scratch);
void Run(const CrossEntropyBackward& op, Scratch& scratch);
void Run(const AdamWUpdate& op, Scratch& scratch);
void Run(const SumOfSquares& op, Scratch& scratch);
void Run(const Scale& op, Scratch& scratch);
void Run(const Fill& op, Scratch& scratch);

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
