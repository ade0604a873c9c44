#include "folio/model/attention.h"

#include "folio/model/linear_layer.h"
#include "folio/tensor/plan.h"

namespace folio {
namespace {

LinearLayer CAttn(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts) {
  return {params.c_attn, acts.lora.c_attn, pass.BlockDropout(layer, DropoutPlace::kAttnAdapter),
          LinearLayer::kOutput};
}

LinearLayer CProj(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts) {
  return {params.attn_c_proj, acts.lora.attn_c_proj,
          pass.BlockDropout(layer, DropoutPlace::kAttnProjAdapter), LinearLayer::kInput};
}

void Attend(const PassContext& pass, int64_t layer, const BlockActivations& acts,
            const SequenceView& k, const SequenceView& v) {
  const int64_t B = pass.B, T = pass.T, C = pass.channels();
  pass.backend.Run(AttentionForward{.q = SequenceView(acts.qkv, B, T, 0, C),
                                    .k = k,
                                    .v = v,
                                    .key_mask = pass.key_mask,
                                    .mask = pass.mask,
                                    .out = SequenceView(acts.attn, B, T, 0, C),
                                    .lse = acts.lse,
                                    .H = pass.heads(),
                                    .scale = pass.config.attention_scale(layer),
                                    .causal = pass.config.causal,
                                    .dropout = pass.BlockDropout(layer, DropoutPlace::kAttention)});
}

// Everything attends to keys and values as the cache has them, which may be rounded.
void AttendToCache(const PassContext& pass, int64_t layer, const BlockActivations& acts) {
  const CachedRows& cached = *pass.cached;
  const int64_t N = pass.N(), C = pass.channels();
  const Tensor& pages = cached.pages[static_cast<size_t>(layer)];
  const Tensor positions = pass.positions.Reshape({N});
  pass.backend.Run(CacheWrite{.k = SequenceView(acts.qkv, 1, N, C, C),
                              .v = SequenceView(acts.qkv, 1, N, 2 * C, C),
                              .tables = cached.tables,
                              .positions = positions,
                              .pages = pages});
  if (N <= LinearForward::kFewRows) {
    return pass.backend.Run(CacheAttention{.q = SequenceView(acts.qkv, 1, N, 0, C),
                                           .pages = pages,
                                           .tables = cached.tables,
                                           .positions = positions,
                                           .out = SequenceView(acts.attn, 1, N, 0, C),
                                           .H = pass.heads(),
                                           .scale = pass.config.attention_scale(layer)});
  }
  const int64_t S = cached.S;
  const SequenceView k(cached.keys.Slice(0, S), 1, S, 0, C);
  const SequenceView v(cached.values.Slice(0, S), 1, S, 0, C);
  const Tensor table = cached.tables.Slice(0, 1).Reshape({cached.tables.dim(1)});
  pass.backend.Run(CacheRead{.pages = pages, .table = table, .k = k, .v = v});
  Attend(pass, layer, acts, k, v);
}

}  // namespace

void AttentionSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                              const BlockActivations& acts, const Tensor& x, const Tensor& out) {
  const int64_t B = pass.B, T = pass.T, C = pass.channels();
  LinearLayerForward(pass, CAttn(pass, layer, params, acts), acts.lora.input,
                     {.x = x, .weight = {}, .out = acts.qkv});
  pass.Show(TracePoint::kQkv, layer, acts.qkv);
  if (pass.cached != nullptr) {
    AttendToCache(pass, layer, acts);
  } else {
    Attend(pass, layer, acts, SequenceView(acts.qkv, B, T, C, C),
           SequenceView(acts.qkv, B, T, 2 * C, C));
  }
  pass.Show(TracePoint::kHeads, layer, acts.attn);
  LinearLayerForward(pass, CProj(pass, layer, params, acts), acts.lora.input,
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
                               .scale = config.attention_scale(layer),
                               .causal = config.causal});
}

void AttentionSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                               const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                               const BlockParams& d_params, const GptGradients& grads,
                               const Tensor& d_x, bool accumulate) {
  const int64_t B = pass.B, T = pass.T, C = pass.channels();
  const Tensor d_qkv = Tensor(grads.d_wide.raw(), grads.d_wide.dtype(), {B * T, 3 * C});
  LinearLayerBackward(pass, CProj(pass, layer, params, acts), d_params.attn_c_proj, grads,
                      {.x = acts.attn, .weight = {}, .d_out = d_out, .d_x = grads.d_attn});
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
                        .H = pass.heads(),
                        .scale = pass.config.attention_scale(layer),
                        .causal = pass.config.causal,
                        .dropout = pass.BlockDropout(layer, DropoutPlace::kAttention)});
  LinearLayerBackward(
      pass, CAttn(pass, layer, params, acts), d_params.c_attn, grads,
      {.x = x, .weight = {}, .d_out = d_qkv, .d_x = d_x, .accumulate_d_x = accumulate});
}

}  // namespace folio
