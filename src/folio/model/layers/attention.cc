#include "folio/model/layers/attention.h"

#include "folio/tensor/plan.h"

namespace folio {
namespace {

void Attend(const PassContext& pass, int64_t layer, const SelfAttentionActivations& acts,
            const SequenceView& k, const SequenceView& v) {
  const int64_t B = pass.B, T = pass.T;
  const HeadLayout heads = pass.heads();
  pass.backend.Run(AttentionForward{.q = View(acts.qkv, B, T, heads.q()),
                                    .k = k,
                                    .v = v,
                                    .key_mask = pass.key_mask,
                                    .mask = pass.mask,
                                    .out = View(acts.attn, B, T, heads.q()),
                                    .lse = acts.lse,
                                    .H = heads.query_heads,
                                    .G = heads.kv_heads,
                                    .scale = pass.config.attention_scale(layer),
                                    .causal = pass.config.causal,
                                    .dropout = pass.BlockDropout(layer, kAttentionDropout)});
}

// Everything attends to keys and values as the cache has them, which may be rounded.
void Decode(const PassContext& pass, int64_t layer, const SelfAttentionActivations& acts) {
  const CachedRows& cached = *pass.cached;
  const int64_t N = pass.N();
  const HeadLayout heads = pass.heads();
  const Tensor& pages = cached.pages[static_cast<size_t>(layer)];
  const Tensor positions = pass.positions.Reshape({N});
  pass.backend.Run(CacheWrite{.k = View(acts.qkv, 1, N, heads.k()),
                              .v = View(acts.qkv, 1, N, heads.v()),
                              .tables = cached.tables,
                              .positions = positions,
                              .pages = pages});
  if (N <= LinearForward::kFewRows) {
    return pass.backend.Run(CacheAttention{.q = View(acts.qkv, 1, N, heads.q()),
                                           .pages = pages,
                                           .tables = cached.tables,
                                           .positions = positions,
                                           .out = View(acts.attn, 1, N, heads.q()),
                                           .H = heads.query_heads,
                                           .scale = pass.config.attention_scale(layer)});
  }
  const int64_t S = cached.S;
  const SequenceView k(cached.keys.Slice(0, S), 1, S, 0, heads.kv_width());
  const SequenceView v(cached.values.Slice(0, S), 1, S, 0, heads.kv_width());
  const Tensor table = cached.tables.Slice(0, 1).Reshape({cached.tables.dim(1)});
  pass.backend.Run(CacheRead{.pages = pages, .table = table, .k = k, .v = v});
  Attend(pass, layer, acts, k, v);
}

}  // namespace

void SelfAttentionForward(const PassContext& pass, int64_t layer, const SelfAttentionParams& params,
                          const SelfAttentionActivations& acts, const Tensor& scratch,
                          const Tensor& x, const Tensor& out) {
  const int64_t B = pass.B, T = pass.T;
  const HeadLayout heads = pass.heads();
  LinearLayerForward(pass, layer, kCAttn, params.c_attn, acts.c_attn, scratch,
                     {.x = x, .weight = {}, .out = acts.qkv});
  pass.Show(TracePoint::kQkv, layer, acts.qkv);
  if (pass.cached != nullptr) {
    Decode(pass, layer, acts);
  } else {
    Attend(pass, layer, acts, View(acts.qkv, B, T, heads.k()), View(acts.qkv, B, T, heads.v()));
  }
  pass.Show(TracePoint::kHeads, layer, acts.attn);
  LinearLayerForward(pass, layer, kAttnCProj, params.c_proj, acts.c_proj, scratch,
                     {.x = acts.attn, .weight = {}, .out = out});
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
                               .G = k.C / (q.C / H),
                               .scale = config.attention_scale(layer),
                               .causal = config.causal});
}

void SelfAttentionBackward(const PassContext& pass, int64_t layer,
                           const SelfAttentionParams& params, const SelfAttentionActivations& acts,
                           const Tensor& x, const Tensor& d_out,
                           const SelfAttentionParams& d_params, const GptGradients& grads,
                           const Tensor& d_x, bool accumulate) {
  const int64_t B = pass.B, T = pass.T;
  const HeadLayout heads = pass.heads();
  const Tensor d_qkv = Tensor(grads.d_wide.raw(), grads.d_wide.dtype(), {B * T, heads.qkv_width()});
  LinearLayerBackward(pass, layer, kAttnCProj, params.c_proj, acts.c_proj, d_params.c_proj, grads,
                      {.x = acts.attn, .weight = {}, .d_out = d_out, .d_x = grads.d_attn});
  pass.backend.Run(AttentionBackward{.q = View(acts.qkv, B, T, heads.q()),
                                     .k = View(acts.qkv, B, T, heads.k()),
                                     .v = View(acts.qkv, B, T, heads.v()),
                                     .key_mask = pass.key_mask,
                                     .mask = pass.mask,
                                     .out = View(acts.attn, B, T, heads.q()),
                                     .lse = acts.lse,
                                     .d_out = View(grads.d_attn, B, T, heads.q()),
                                     .d_q = View(d_qkv, B, T, heads.q()),
                                     .d_k = View(d_qkv, B, T, heads.k()),
                                     .d_v = View(d_qkv, B, T, heads.v()),
                                     .H = heads.query_heads,
                                     .G = heads.kv_heads,
                                     .scale = pass.config.attention_scale(layer),
                                     .causal = pass.config.causal,
                                     .dropout = pass.BlockDropout(layer, kAttentionDropout)});
  LinearLayerBackward(
      pass, layer, kCAttn, params.c_attn, acts.c_attn, d_params.c_attn, grads,
      {.x = x, .weight = {}, .d_out = d_qkv, .d_x = d_x, .accumulate_d_x = accumulate});
}

}  // namespace folio
