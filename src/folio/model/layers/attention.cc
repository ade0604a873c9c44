#include "folio/model/layers/attention.h"

#include <algorithm>

#include "folio/model/layers/rotary.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

// Columns of a layer's rows of q | k | v.
SequenceView Columns(const PassContext& pass, const Tensor& qkv, const ColumnRange& columns) {
  return View(qkv, pass.B, pass.T, columns);
}

// The number of channels that one norm of queries or keys covers, in rows of `width`.
int64_t NormGroup(const PassContext& pass, int64_t width) {
  return pass.config.full_qk_norm() ? width : pass.config.head_size();
}

// The sums over all shards that the norm of queries or that of keys needs, and the number of
// channels that each adds up.
struct SumsOfShards {
  Tensor sums = {};  // (N), empty where no norm needs sums
  int64_t channels = 0;
};
SumsOfShards OfQueries(const PassContext& pass, const Tensor& sums) {
  if (!sums) return {};
  return {sums.Slice(0, 1).Reshape({pass.N()}), pass.config.head_layout().q_width()};
}
SumsOfShards OfKeys(const PassContext& pass, const Tensor& sums) {
  if (!sums) return {};
  return {sums.Slice(1, 2).Reshape({pass.N()}), pass.config.head_layout().kv_width()};
}

void NormHeads(const PassContext& pass, const SequenceView& heads, const Tensor& weight,
               const HeadNormActivations& acts, const SumsOfShards& of_shards) {
  pass.backend.Run(HeadNormForward{.x = heads,
                                   .weight = weight,
                                   .raw = acts.raw,
                                   .rstd = acts.rstd,
                                   .group = NormGroup(pass, heads.C),
                                   .eps = pass.config.layer_norm_epsilon,
                                   .weight_offset = pass.config.norm_offset(),
                                   .scale = pass.config.qk_scale,
                                   .sums = of_shards.sums,
                                   .whole = of_shards.channels});
}

void NormHeadsBackward(const PassContext& pass, const SequenceView& d_heads, const Tensor& weight,
                       const HeadNormActivations& acts, const Tensor& d_weight,
                       const SumsOfShards& of_shards) {
  pass.backend.Run(HeadNormBackward{.raw = acts.raw,
                                    .weight = weight,
                                    .rstd = acts.rstd,
                                    .d_x = d_heads,
                                    .d_weight = d_weight,
                                    .group = NormGroup(pass, d_heads.C),
                                    .weight_offset = pass.config.norm_offset(),
                                    .scale = pass.config.qk_scale,
                                    .sums = of_shards.sums,
                                    .whole = of_shards.channels});
}

// Norms and turns queries and keys, in the order that the configuration says.
void PrepareHeads(const PassContext& pass, int64_t layer, const SelfAttentionParams& params,
                  const SelfAttentionActivations& acts) {
  const HeadLayout heads = pass.heads();
  const auto turn = [&] { TurnHeads(pass, layer, Columns(pass, acts.qkv, heads.qk())); };
  if (pass.config.norm_after_rotary()) turn();
  if (pass.config.has_qk_norm()) {
    const SequenceView q = Columns(pass, acts.qkv, heads.q());
    const SequenceView k = Columns(pass, acts.qkv, heads.k());
    const SumsOfShards of_q = OfQueries(pass, acts.norm_sums), of_k = OfKeys(pass, acts.norm_sums);
    if (acts.norm_sums) {
      pass.backend.Run(HeadNormSums{.x = q, .sums = of_q.sums});
      pass.backend.Run(HeadNormSums{.x = k, .sums = of_k.sums});
      pass.Sum(acts.norm_sums);
    }
    NormHeads(pass, q, params.q_norm, acts.q_norm, of_q);
    NormHeads(pass, k, params.k_norm, acts.k_norm, of_k);
  }
  if (!pass.config.norm_after_rotary()) turn();
}

void SumProducts(const PassContext& pass, const SequenceView& d_heads, const Tensor& weight,
                 const HeadNormActivations& acts, const Tensor& sums) {
  pass.backend.Run(HeadNormSums{.x = d_heads,
                                .raw = acts.raw,
                                .weight = weight,
                                .sums = sums,
                                .weight_offset = pass.config.norm_offset(),
                                .scale = pass.config.qk_scale});
}

// The backward of both norms. Where heads are normed one by one, each shard has the same weights
// and the gradients that its own heads give: `of_shards` holds their sum over all shards, which is
// then added to the gradients of earlier micro-batches.
void NormHeadsBackward(const PassContext& pass, const SelfAttentionParams& params,
                       const SelfAttentionActivations& acts, const Tensor& d_qkv,
                       const SelfAttentionParams& d_params, const Tensor& of_shards) {
  const HeadLayout heads = pass.heads();
  const auto part = [&](int64_t i) { return of_shards.Slice(i, i + 1); };
  const auto target = [&](int64_t i, const Tensor& d_weight) {
    return of_shards ? part(i).Reshape(d_weight.shape()) : d_weight;
  };
  const SequenceView d_q = Columns(pass, d_qkv, heads.q()), d_k = Columns(pass, d_qkv, heads.k());
  const SumsOfShards of_q = OfQueries(pass, acts.norm_sums), of_k = OfKeys(pass, acts.norm_sums);
  if (acts.norm_sums) {
    SumProducts(pass, d_q, params.q_norm, acts.q_norm, of_q.sums);
    SumProducts(pass, d_k, params.k_norm, acts.k_norm, of_k.sums);
    pass.Sum(acts.norm_sums);
  }
  if (of_shards) pass.backend.Run(Fill{.out = of_shards});
  NormHeadsBackward(pass, d_q, params.q_norm, acts.q_norm, target(0, d_params.q_norm), of_q);
  NormHeadsBackward(pass, d_k, params.k_norm, acts.k_norm, target(1, d_params.k_norm), of_k);
  if (!of_shards) return;
  pass.Sum(of_shards);
  for (const int64_t i : {0, 1}) {
    const Tensor& d_weight = i == 0 ? d_params.q_norm : d_params.k_norm;
    const Tensor row = d_weight.Reshape(part(i).shape());
    pass.backend.Run(ResidualForward{.residual = row, .x = part(i), .out = row});
  }
}

// Turns the gradients of normed and turned queries and keys into those of the projection's result,
// in place.
void PrepareHeadsBackward(const PassContext& pass, int64_t layer, const SelfAttentionParams& params,
                          const SelfAttentionActivations& acts, const Tensor& d_qkv,
                          const SelfAttentionParams& d_params, const GptGradients& grads) {
  const auto turn = [&] { TurnHeads(pass, layer, Columns(pass, d_qkv, pass.heads().qk()), true); };
  if (!pass.config.norm_after_rotary()) turn();
  if (pass.config.has_qk_norm()) {
    NormHeadsBackward(pass, params, acts, d_qkv, d_params, grads.d_qk_norm);
  }
  if (pass.config.norm_after_rotary()) turn();
}

constexpr double kValueScale = 3;

// Tokens' own values of the rows of a pass.
void LookUpValues(const PassContext& pass, const SelfAttentionParams& params, const Tensor& out) {
  pass.backend.Run(EmbeddingForward{.ids = pass.ids, .wte = params.value_embeds, .out = out});
}

void AddValues(const PassContext& pass, const SelfAttentionParams& params,
               const SelfAttentionActivations& acts, const Tensor& x) {
  if (!params.value_embeds) return;
  LookUpValues(pass, params, acts.value_rows);
  pass.backend.Run(GatedAddForward{.x = x,
                                   .weight = params.value_gate,
                                   .y = acts.value_rows,
                                   .out = Columns(pass, acts.qkv, pass.heads().v()),
                                   .scale = kValueScale});
}

// d_x has the gradient of x from elsewhere, and gets that from the gates.
void AddValuesBackward(const PassContext& pass, const SelfAttentionParams& params, const Tensor& x,
                       const Tensor& d_qkv, const SelfAttentionParams& d_params, const Tensor& rows,
                       const Tensor& d_x) {
  if (!params.value_embeds) return;
  LookUpValues(pass, params, rows);
  pass.backend.Run(GatedAddBackward{.x = x,
                                    .weight = params.value_gate,
                                    .y = rows,
                                    .d_out = Columns(pass, d_qkv, pass.heads().v()),
                                    .d_y = rows,
                                    .d_x = d_x,
                                    .d_weight = d_params.value_gate,
                                    .scale = kValueScale});
  if (!d_params.value_embeds) return;
  // The gradients of another block may have been in this memory.
  if (!pass.accumulate) pass.backend.Run(Fill{.out = d_params.value_embeds});
  pass.backend.Run(
      EmbeddingBackward{.ids = pass.ids, .d_out = rows, .d_wte = d_params.value_embeds});
}

// Returns the attention of a layer, forwards or backwards, over the pass's own keys and values.
template <class Attention>
Attention AttentionOf(const PassContext& pass, int64_t layer,
                      const SelfAttentionActivations& acts) {
  const HeadLayout heads = pass.heads();
  const LayerLayout layout = pass.config.layer(layer);
  Attention op;
  op.q = Columns(pass, acts.qkv, heads.q());
  op.k = Columns(pass, acts.qkv, heads.k());
  op.v = Columns(pass, acts.qkv, heads.v());
  op.key_mask = pass.key_mask;
  op.mask = pass.mask;
  op.out = Columns(pass, acts.attn, heads.q());
  op.lse = acts.lse;
  op.H = heads.query_heads;
  op.G = heads.kv_heads;
  op.scale = layout.score_scale;
  op.cap = pass.config.attention_cap;
  op.causal = pass.config.causal;
  op.window = layout.window;
  op.dropout = pass.BlockDropout(layer, kAttentionDropout);
  return op;
}

// All rows attend to the keys and values in the cache, which may be rounded.
void Decode(const PassContext& pass, int64_t layer, const SelfAttentionActivations& acts) {
  const CachedRows& cached = *pass.cached;
  const int64_t N = pass.N();
  const HeadLayout heads = pass.heads();
  const Tensor& pages = cached.pages[static_cast<size_t>(layer)];
  const int64_t window = pass.config.layer(layer).window;
  const Tensor& tables = window > 0 ? cached.window_tables : cached.tables;
  const Tensor positions = pass.positions.Reshape({N});
  pass.backend.Run(CacheWrite{.k = View(acts.qkv, 1, N, heads.k()),
                              .v = View(acts.qkv, 1, N, heads.v()),
                              .tables = tables,
                              .positions = positions,
                              .pages = pages});
  if (N <= LinearForward::kFewRows) {
    return pass.backend.Run(CacheAttention{.q = View(acts.qkv, 1, N, heads.q()),
                                           .pages = pages,
                                           .tables = tables,
                                           .positions = positions,
                                           .out = View(acts.attn, 1, N, heads.q()),
                                           .H = heads.query_heads,
                                           .scale = pass.config.layer(layer).score_scale,
                                           .cap = pass.config.attention_cap,
                                           .window = window});
  }
  // The first row attends to the earliest keys.
  const int64_t first = window > 0 ? std::max<int64_t>(0, cached.S - N + 1 - window) : 0;
  const int64_t S = cached.S - first;
  const SequenceView k(cached.keys.Slice(0, S), 1, S, 0, heads.kv_width());
  const SequenceView v(cached.values.Slice(0, S), 1, S, 0, heads.kv_width());
  const Tensor table = tables.Slice(0, 1).Reshape({tables.dim(1)});
  pass.backend.Run(CacheRead{.pages = pages, .table = table, .k = k, .v = v, .first = first});
  auto attention = AttentionOf<AttentionForward>(pass, layer, acts);
  attention.k = k;
  attention.v = v;
  pass.backend.Run(attention);
}

}  // namespace

void SelfAttentionForward(const PassContext& pass, int64_t layer, const SelfAttentionParams& params,
                          const SelfAttentionActivations& acts, const Tensor& scratch,
                          const Tensor& x, const Tensor& out) {
  LinearLayerForward(pass, layer, kCAttn, params.c_attn, acts.c_attn, scratch,
                     {.x = x, .weight = {}, .out = acts.qkv});
  AddValues(pass, params, acts, x);
  PrepareHeads(pass, layer, params, acts);
  pass.Show(TracePoint::kQkv, layer, acts.qkv);
  if (pass.cached != nullptr) {
    Decode(pass, layer, acts);
  } else {
    pass.backend.Run(AttentionOf<AttentionForward>(pass, layer, acts));
  }
  pass.Show(TracePoint::kHeads, layer, acts.attn);
  LinearLayerForward(pass, layer, kAttnCProj, params.c_proj, acts.c_proj, scratch,
                     {.x = acts.attn, .weight = {}, .out = out});
}

void AttentionProbabilities(Backend& backend, const GptConfig& config, int64_t layer,
                            const SequenceView& q, const SequenceView& k, const Tensor& probs,
                            const Tensor& mask) {
  const int64_t H = probs.dim(1);
  MemoryPlan plan;
  const MemoryPlan::Id out = plan.Add("out", q.dtype, {q.B * q.T, q.C});
  const MemoryPlan::Id lse = plan.Add("lse", q.dtype, {q.B, H, q.T});
  plan.Place();
  const Arena arena(plan, backend.memory());
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
                               .scale = config.layer(layer).score_scale,
                               .cap = config.attention_cap,
                               .causal = config.causal,
                               .window = config.layer(layer).window});
}

void SelfAttentionBackward(const PassContext& pass, int64_t layer,
                           const SelfAttentionParams& params, const SelfAttentionActivations& acts,
                           const Tensor& x, const Tensor& d_out,
                           const SelfAttentionParams& d_params, const GptGradients& grads,
                           const Tensor& d_x, bool accumulate) {
  const HeadLayout heads = pass.heads();
  const Tensor d_qkv = grads.d_wide.First({pass.N(), heads.qkv_width()});
  LinearLayerBackward(pass, layer, kAttnCProj, params.c_proj, acts.c_proj, d_params.c_proj, grads,
                      {.x = acts.attn, .weight = {}, .d_out = d_out, .d_x = grads.d_attn});
  auto attention = AttentionOf<AttentionBackward>(pass, layer, acts);
  attention.d_out = Columns(pass, grads.d_attn, heads.q());
  attention.d_q = Columns(pass, d_qkv, heads.q());
  attention.d_k = Columns(pass, d_qkv, heads.k());
  attention.d_v = Columns(pass, d_qkv, heads.v());
  pass.backend.Run(attention);
  PrepareHeadsBackward(pass, layer, params, acts, d_qkv, d_params, grads);
  LinearLayerBackward(
      pass, layer, kCAttn, params.c_attn, acts.c_attn, d_params.c_attn, grads,
      {.x = x, .weight = {}, .d_out = d_qkv, .d_x = d_x, .accumulate_d_x = accumulate});
  AddValuesBackward(pass, params, x, d_qkv, d_params, grads.value_rows, d_x);
}

}  // namespace folio
