#pragma once

#include <cstdint>
#include <string_view>

#include "folio/model/params.h"

namespace folio {

// The list of parameters, the only place that names them: calls visit(row, slot) for each that a
// shard of the model with these adapters has, in Hugging Face's order; slot is its tensor in
// `params`, a GptParams of n_layer blocks, const or not. Allocates nothing.
template <class Params, class Visit>
void VisitParams(const GptConfig& config, const LoraConfig& lora, const Shard& shard,
                 Params& params, Visit&& visit) {
  const int64_t V = shard.Size(config.vocab_size), P = config.n_positions, C = config.n_embd;
  const int64_t A = shard.Size(config.n_head) * config.head_size(), F = shard.Size(config.inner());
  const bool tied = config.tie_word_embeddings, ln_bias = config.has_layer_norm_bias();
  const bool attention_bias = config.has_attention_bias(), mlp_bias = config.has_mlp_bias();
  using enum ParamKind;
  using enum InitKind;
  int64_t layer = -1;
  const auto row = [&](std::string_view module, std::string_view part, auto& slot,
                       const Shape& shape, ParamKind kind, InitKind init) {
    const bool trained = !lora.on() || kind == kAdapter;
    visit(ParamRow{layer, module, part, shape, kind, init, trained}, slot);
  };
  const auto norm = [&](std::string_view module, auto& to) {
    row(module, "weight", to.weight, {C}, kElementwise, kOne);
    if (ln_bias) row(module, "bias", to.bias, {C}, kElementwise, kZero);
  };
  const auto linear = [&](std::string_view module, auto& to, const Shape& shape, InitKind init,
                          bool has_bias) {
    row(module, "weight", to.weight, shape, kLinear, init);
    if (has_bias) row(module, "bias", to.bias, {shape[1]}, kBias, kZero);
    if (!lora.Adapts(module)) return;
    row(module, "lora_A.weight", to.lora_a, {lora.rank, shape[0]}, kAdapter, kFanIn);
    row(module, "lora_B.weight", to.lora_b, {shape[1], lora.rank}, kAdapter, kZero);
  };

  row("wte", "weight", params.wte, {V, C}, tied ? kTiedEmbedding : kEmbedding, kWeight);
  if (config.learned_positions()) {
    row("wpe", "weight", params.wpe, {P, C}, kEmbedding,
        config.init_zero_positions ? kZero : kWeight);
  }
  for (auto& h : params.h) {
    ++layer;
    norm("ln_1", h.ln_1);
    linear("attn.c_attn", h.c_attn, {C, 3 * A}, kQkvWeight, attention_bias);
    linear("attn.c_proj", h.attn_c_proj, {A, C}, kResidualWeight, attention_bias);
    norm("ln_2", h.ln_2);
    linear("mlp.c_fc", h.c_fc, {C, F}, kWeight, mlp_bias);
    linear("mlp.c_proj", h.mlp_c_proj, {F, C}, kResidualWeight, mlp_bias);
  }
  layer = -1;
  norm("ln_f", params.ln_f);
  if (!tied) row(kHeadName, "weight", params.lm_head_weight, {V, C}, kHead, kWeight);
  if (config.lm_head_bias) row(kHeadName, "bias", params.lm_head_bias, {V}, kBias, kZero);
}

}  // namespace folio
