#include "folio/backend/cpu/attention.h"
#include "folio/backend/cpu/attention_heads.h"

namespace folio::cpu {

void RunAttentionScores(const AttentionScoresForward& op) {
  const int64_t T = op.q.T, S = op.k.T, D = op.q.C / op.H;
  const float scale = static_cast<float>(op.scale);
  ForQueryBlocks(op.q, op.H, op.G, [&](const QueryBlock& block) {
    Products(HeadOf(op.q, block.b, block.t, block.h, D), block.queries,
             HeadOf(op.k, block.b, 0, block.g, D), S, D, scale,
             op.scores.data<float>() + ((block.b * op.H + block.h) * T + block.t) * S, S);
  });
}

void RunAttentionScores(const AttentionScoresBackward& op) {
  const int64_t T = op.q.T, S = op.k.T, D = op.q.C / op.H;
  const float scale = static_cast<float>(op.scale);
  const float* d_scores = op.d_scores.data<float>();
  ForQueryBlocks(op.q, op.H, op.G, [&](const QueryBlock& block) {
    Combine(d_scores + ((block.b * op.H + block.h) * T + block.t) * S, S, block.queries, S,
            HeadOf(op.k, block.b, 0, block.g, D), D, scale,
            HeadOf(op.d_q, block.b, block.t, block.h, D));
  });
  ForKeyBlocks(op.k, op.H, op.G, [&](const KeyBlock& block) {
    for (int64_t h = block.first_head; h < block.last_head; ++h) {
      Collect(d_scores + (block.b * op.H + h) * T * S + block.s, S, T, block.keys,
              HeadOf(op.q, block.b, 0, h, D), D, scale, h == block.first_head ? 0.0f : 1.0f,
              HeadOf(op.d_k, block.b, block.s, block.g, D));
    }
  });
}

}  // namespace folio::cpu
