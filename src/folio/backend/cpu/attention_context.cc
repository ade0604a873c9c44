#include "folio/backend/cpu/attention.h"
#include "folio/backend/cpu/attention_heads.h"

namespace folio::cpu {

void RunAttentionContext(const AttentionContextForward& op) {
  const int64_t T = op.out.T, S = op.v.T, D = op.out.C / op.H;
  ForQueryBlocks(op.out, op.H, op.G, [&](const QueryBlock& block) {
    Combine(op.weights.data<float>() + ((block.b * op.H + block.h) * T + block.t) * S, S,
            block.queries, S, HeadOf(op.v, block.b, 0, block.g, D), D, 1,
            HeadOf(op.out, block.b, block.t, block.h, D));
  });
}

void RunAttentionContext(const AttentionContextBackward& op) {
  const int64_t T = op.d_out.T, S = op.v.T, D = op.d_out.C / op.H;
  ForQueryBlocks(op.d_out, op.H, op.G, [&](const QueryBlock& block) {
    Products(HeadOf(op.d_out, block.b, block.t, block.h, D), block.queries,
             HeadOf(op.v, block.b, 0, block.g, D), S, D, 1,
             op.d_weights.data<float>() + ((block.b * op.H + block.h) * T + block.t) * S, S);
  });
  ForKeyBlocks(op.v, op.H, op.G, [&](const KeyBlock& block) {
    for (int64_t h = block.first_head; h < block.last_head; ++h) {
      Collect(op.weights.data<float>() + (block.b * op.H + h) * T * S + block.s, S, T, block.keys,
              HeadOf(op.d_out, block.b, 0, h, D), D, 1, h == block.first_head ? 0.0f : 1.0f,
              HeadOf(op.d_v, block.b, block.s, block.g, D));
    }
  });
}

}  // namespace folio::cpu
