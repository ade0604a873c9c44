#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// float32, or bfloat16 with lse and probs in float32; the struct has been checked. Memory beyond
// the operands, a thread: a few copies of one head of queries, keys and values.
void RunAttention(const AttentionForward& op, Scratch& scratch);
void RunAttention(const AttentionBackward& op, Scratch& scratch);

// The steps that are matrix products, in float32; kernels.h has the others.
void RunAttentionScores(const AttentionScoresForward& op);
void RunAttentionScores(const AttentionScoresBackward& op);
void RunAttentionContext(const AttentionContextForward& op);
void RunAttentionContext(const AttentionContextBackward& op);

}  // namespace folio::cpu
