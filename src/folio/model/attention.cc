#include "folio/model/attention.h"

#include "folio/tensor/plan.h"

namespace folio {

void AttentionSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                              const BlockActivations& acts, const Tensor& x, const Tensor& out) {
  const int64_t B = pass.B, T = pass.T, C = pass.config.n_embd;
  pass.backend.Run(LinearForward{
      .x = x, .weight = params.c_attn.weight, .bias = params.c_attn.bias, .out = acts.qkv});
  pass.Show(TracePoint::kQkv, layer, acts.qkv);
  const Tensor& keys = acts.past ? acts.past : acts.qkv;
  const int64_t S = acts.past ? acts.past.dim(0) : T;
  pass.backend.Run(AttentionForward{.q = SequenceView(acts.qkv, B, T, 0, C),
                                    .k = SequenceView(keys, B, S, C, C),
                                    .v = SequenceView(keys, B, S, 2 * C, C),
                                    .key_mask = pass.key_mask,
                                    .mask = pass.mask,
                                    .out = SequenceView(acts.attn, B, T, 0, C),
                                    .lse = acts.lse,
                                    .H = pass.config.n_head,
                                    .scale = pass.config.attention_scale(layer),
                                    .causal = pass.config.causal,
                                    .dropout = pass.BlockDropout(layer, DropoutPlace::kAttention)});
  pass.Show(TracePoint::kHeads, layer, acts.attn);
  pass.backend.Run(LinearForward{.x = acts.attn,
                                 .weight = params.attn_c_proj.weight,
                                 .bias = params.attn_c_proj.bias,
                                 .out = out});
  pass.Show(TracePoint::kAttention, layer, out);
}

void AttentionProbabilities(Backend& backend, const GptConfig& config, int64_t layer,
                            const SequenceView& q, const SequenceView& k, const Tensor& probs,
                            const Tensor& mask) {
  const int64_t H = probs.dim(1);
  MemoryPlan plan;
  const MemoryPlan::Id out = plan.Add("out", q.dtype, {q.B * q.T, q.C});
  const MemoryPlan::Id lse = plan.Add("lse", q.dtype, {q.B, H, q.T});
  plan.Place();
  const Arena arena(plan);
  // The weights do not depend on the values.
  backend.Run(AttentionForward{.q = q,
                               .k = k,
                               .v = k,
                               .mask = mask,
                               .out = SequenceView(arena.Get(plan, out), q.B, q.T, 0, q.C),
                               .lse = arena.Get(plan, lse),
                               .probs = probs,
                               .H = H,
                               .scale = config.attention_scale(layer),
                               .causal = config.causal});
}

void AttentionSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                               const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                               const BlockParams& d_params, const GptGradients& grads,
                               const Tensor& d_x, bool accumulate) {
  const int64_t B = pass.B, T = pass.T, C = pass.config.n_embd;
  const Tensor d_qkv = Tensor(grads.d_wide.raw(), grads.d_wide.dtype(), {B * T, 3 * C});
  pass.backend.Run(LinearBackward{.x = acts.attn,
                                  .weight = params.attn_c_proj.weight,
                                  .d_out = d_out,
                                  .d_x = grads.d_attn,
                                  .d_weight = d_params.attn_c_proj.weight,
                                  .d_bias = d_params.attn_c_proj.bias,
                                  .accumulate_d_weight = pass.accumulate});
  pass.backend.Run(
      AttentionBackward{.q = SequenceView(acts.qkv, B, T, 0, C),
                        .k = SequenceView(acts.qkv, B, T, C, C),
                        .v = SequenceView(acts.qkv, B, T, 2 * C, C),
                        .key_mask = pass.key_mask,
                        .mask = pass.mask,
                        .out = SequenceView(acts.attn, B, T, 0, C),
                        .lse = acts.lse,
                        .d_out = SequenceView(grads.d_attn, B, T, 0, C),
                        .d_q = SequenceView(d_qkv, B, T, 0, C),
                        .d_k = SequenceView(d_qkv, B, T, C, C),
                        .d_v = SequenceView(d_qkv, B, T, 2 * C, C),
                        .H = pass.config.n_head,
                        .scale = pass.config.attention_scale(layer),
                        .causal = pass.config.causal,
                        .dropout = pass.BlockDropout(layer, DropoutPlace::kAttention)});
  pass.backend.Run(LinearBackward{.x = x,
                                  .weight = params.c_attn.weight,
                                  .d_out = d_qkv,
                                  .d_x = d_x,
                                  .d_weight = d_params.c_attn.weight,
                                  .d_bias = d_params.c_attn.bias,
                                  .accumulate_d_x = accumulate,
                                  .accumulate_d_weight = pass.accumulate});
}

}  // namespace folio
