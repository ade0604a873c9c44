#pragma once

#include "folio/model/layers/linear.h"
#include "folio/model/layers/norm.h"

namespace folio {

// Multi-head self-attention: A. Vaswani et al., arXiv:1706.03762, with GPT-2's fused c_attn; causal
// if the configuration says so. Queries and keys may be normed (M. Dehghani et al.,
// arXiv:2302.05442) and turned by rotary positions before they meet.

inline constexpr Linear kCAttn = {.name = "attn.c_attn",
                                  .adapted = "lora.c_attn",
                                  .init = InitKind::kQkvWeight,
                                  .axis = ShardAxis::kQkv,
                                  .adapter_dropout = {.number = 6},
                                  .parts = {"attn.c_attn.q", "attn.c_attn.k", "attn.c_attn.v"},
                                  .spread = "lora.c_attn.spread"};
inline constexpr Linear kAttnCProj = {.name = "attn.c_proj",
                                      .adapted = "lora.attn_c_proj",
                                      .init = InitKind::kResidualWeight,
                                      .axis = ShardAxis::kRows,
                                      .adapter_dropout = {.number = 7}};
inline constexpr DropoutPlace kAttentionDropout = {
    .number = 0, .rate = &GptConfig::attn_pdrop, .rows = DropoutPlace::kHeads};

struct SelfAttentionParams {
  LinearParams c_attn;    // (C,(H+2K)D): columns are q | k | v (config.h)
  LinearParams c_proj;    // (HD,C)
  Tensor q_norm, k_norm;  // (D), or with qk_norm "full" (HD) and (KD)
  // Where the layer has value_embeddings (Z. Zhou et al., arXiv:2410.17897, and nanochat's form of
  // it): tokens' own values, which join v times 3 sigmoid(gate x[:12]), a gate for each of K heads.
  Tensor value_embeds, value_gate;  // (V,KD), (K,12)
};

// Calls visit(linear, ...) for each linear layer of self-attention, with its part of each of
// `layers`, parameters or activations.
template <class Visit, class... Layers>
constexpr void ForEachAttentionLinear(Visit&& visit, Layers&... layers) {
  visit(kCAttn, layers.c_attn...);
  visit(kAttnCProj, layers.c_proj...);
}

// The activations that the backward of the norm of queries or of keys reads.
struct HeadNormActivations {
  Tensor raw, rstd;  // (N,HD) or (N,KD), (N,H) or (N,K), with qk_norm "full" (N,1)
};

struct SelfAttentionActivations {
  Tensor qkv;  // (N,(H+2K)D), queries and keys after QK-norm and rotary positions
  HeadNormActivations q_norm, k_norm;
  Tensor norm_sums;   // (2,N), in a shard with qk_norm "full": what all give to both norms
  Tensor lse;         // (B,H,T)
  Tensor attn;        // (N,HD), before c_proj
  Tensor value_rows;  // (N,KD), tokens' own values
  LinearActivations c_attn, c_proj;
};

template <class Visit, class Params>
void VisitAttentionParams(const ParamList<Visit>& list, Params& params) {
  const HeadLayout heads = list.config.head_layout();
  const int64_t C = list.config.n_embd;
  VisitParams(list, kCAttn, params.c_attn, {C, heads.qkv_width()}, list.config.has_qkv_bias());
  VisitParams(list, kAttnCProj, params.c_proj, {heads.q_width(), C},
              list.config.has_attention_bias());
  if (list.config.layer(list.layer).value_embedding) {
    list.Add("attn.value_embeds", "weight", params.value_embeds,
             {list.config.vocab_size, heads.kv_width()}, ParamKind::kEmbedding, InitKind::kWeight);
    list.Add("attn.value_gate", "weight", params.value_gate, {heads.kv_heads, kValueChannels},
             ParamKind::kElementwise, InitKind::kGate);
  }
  if (!list.config.has_qk_norm() || !list.config.norm_weight()) return;
  const bool full = list.config.full_qk_norm();
  const auto add = [&](std::string_view module, auto& slot, int64_t width) {
    list.Add(module, "weight", slot, {full ? width : heads.head_dim}, ParamKind::kElementwise,
             NormInit(list.config), full ? ShardAxis::kRows : ShardAxis::kNone);
  };
  add("attn.q_norm", params.q_norm, heads.q_width());
  add("attn.k_norm", params.k_norm, heads.kv_width());
}

template <class Visit>
void VisitAttentionBuffers(const BufferList<Visit>& list, SelfAttentionActivations& acts) {
  const PassShape& pass = list.pass;
  const HeadLayout heads = pass.heads();
  list.Add("qkv", acts.qkv, list.low(), {pass.N(), heads.qkv_width()});
  if (pass.config.full_qk_norm() && !pass.shard().whole()) {
    list.Add("qk_norm.sums", acts.norm_sums, list.number(), {2, pass.N()});
  }
  if (pass.training() && pass.config.has_qk_norm()) {
    const bool full = pass.config.full_qk_norm();
    const auto add = [&](std::string_view raw, std::string_view rstd, HeadNormActivations& norm,
                         int64_t count) {
      list.Add(raw, norm.raw, list.low(), {pass.N(), count * heads.head_dim});
      list.Add(rstd, norm.rstd, list.number(), {pass.N(), full ? 1 : count});
    };
    add("q_norm.raw", "q_norm.rstd", acts.q_norm, heads.query_heads);
    add("k_norm.raw", "k_norm.rstd", acts.k_norm, heads.kv_heads);
  }
  if (pass.config.layer(list.layer).value_embedding) {
    list.Add("value_rows", acts.value_rows, list.number(), {pass.N(), heads.kv_width()});
  }
  list.Add("lse", acts.lse, list.number(), {pass.B, heads.query_heads, pass.T});
  list.Add("attn", acts.attn, list.low(), {pass.N(), heads.q_width()});
}

// x is the sublayer's input (N,C), out its result (N,C), before dropout. Where the pass has a KV
// cache, rows attend to what is there of their sequences.
void SelfAttentionForward(const PassContext& pass, int64_t layer, const SelfAttentionParams& params,
                          const SelfAttentionActivations& acts, const Tensor& scratch,
                          const Tensor& x, const Tensor& out);

// d_out (N,C) is the gradient of out. d_x (N,C) gets that of x, added to what is there if
// accumulate. Scratch: grads.d_wide and grads.d_attn.
void SelfAttentionBackward(const PassContext& pass, int64_t layer,
                           const SelfAttentionParams& params, const SelfAttentionActivations& acts,
                           const Tensor& x, const Tensor& d_out,
                           const SelfAttentionParams& d_params, const GptGradients& grads,
                           const Tensor& d_x, bool accumulate);

// The weights (B,H,T,S) that a block's attention over these queries (B,T,H*D) and keys (B,S,K*D)
// uses, recomputed: no pass keeps them. H may be a part of the block's heads. `mask` is as in
// ops.h, or empty.
void AttentionProbabilities(Backend& backend, const GptConfig& config, int64_t layer,
                            const SequenceView& q, const SequenceView& k, const Tensor& probs,
                            const Tensor& mask = {});

}  // namespace folio
