#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "folio/model/layers/attention.h"
#include "folio/model/layers/mlp.h"
#include "folio/model/layers/norm.h"

namespace folio {

inline constexpr DropoutPlace kAttentionResidual = {.number = 1, .rate = &GptConfig::resid_pdrop};
inline constexpr DropoutPlace kMlpResidual = {.number = 2, .rate = &GptConfig::resid_pdrop};
inline constexpr DropoutPlace kAttentionInput = {.number = 4, .rate = &GptConfig::sublayer_pdrop};
inline constexpr DropoutPlace kMlpInput = {.number = 5, .rate = &GptConfig::sublayer_pdrop};

// The parameters of a block, or their gradients.
struct BlockParams {
  NormParams ln_1;
  SelfAttentionParams attn;
  NormParams ln_attn;  // of attention's result
  NormParams ln_2;
  MlpParams mlp;
  NormParams ln_mlp;  // of the feed-forward sublayer's
};

// A sublayer's result before its norm, where the configuration has a norm there.
struct BranchActivations {
  Tensor raw;            // (N,C)
  NormActivations norm;  // its result is the `branch` of the pass
};

// Buffers of one block, all (N,...) with N = B*T.
struct BlockActivations {
  Tensor mixed;            // (N,C), residual_lambdas: what the block takes for the stream
  NormActivations norm_1;  // in a post-norm block out is the stream itself
  SelfAttentionActivations attn;
  BranchActivations attn_branch;
  Tensor sum_1;  // (N,C), input + attention sublayer
  NormActivations norm_2;
  MlpActivations mlp;
  BranchActivations mlp_branch;
  Tensor sum_2;          // (N,C), + feed-forward sublayer
  Tensor adapter_input;  // (N,max(C,F,HD)), elements: what an adapter reads, dropped from
};

template <class Visit, class Params>
void VisitBlockParams(const ParamList<Visit>& list, Params& params) {
  const SublayerLayout layout = list.config.layer(list.layer).sublayers;
  if (layout.has_ln_1()) VisitNormParams(list, "ln_1", params.ln_1);
  VisitAttentionParams(list, params.attn);
  if (layout.branch_norm) VisitNormParams(list, "ln_attn", params.ln_attn);
  if (layout.has_ln_2()) VisitNormParams(list, "ln_2", params.ln_2);
  VisitMlpParams(list, params.mlp);
  if (layout.branch_norm) VisitNormParams(list, "ln_mlp", params.ln_mlp);
}

// Calls visit(linear, ...) for each linear layer that a block's sublayers declare, with its part of
// each of `blocks`, parameters or activations.
template <class Visit, class... Blocks>
constexpr void ForEachLinear(Visit&& visit, Blocks&... blocks) {
  ForEachAttentionLinear(visit, blocks.attn...);
  ForEachMlpLinear(visit, blocks.mlp...);
}

// Returns the width of what a linear layer of a block gives.
inline int64_t ResultWidth(const PassShape& pass, const Linear& linear) {
  if (linear.shares_input()) return pass.config.n_embd;
  return linear.axis == ShardAxis::kQkv ? pass.heads().qkv_width() : pass.up_width();
}

template <class Visit>
void VisitBlockBuffers(const BufferList<Visit>& list, BlockActivations& h) {
  const PassShape& pass = list.pass;
  const GptConfig& config = pass.config;
  const int64_t N = pass.N(), C = config.n_embd;
  const SublayerLayout layout = config.layer(list.layer).sublayers;
  // A post-norm block's norms are the stream.
  const Dtype number = list.number(), norm = layout.post_norm ? number : list.low();
  if (config.residual_lambdas) list.Add("mixed", h.mixed, number, {N, C});
  const auto branch = [&](std::string_view raw, const std::array<std::string_view, 2>& names,
                          BranchActivations& acts) {
    if (!layout.branch_norm) return;
    list.Add(raw, acts.raw, number, {N, C});
    VisitNormStatistics(list, names, acts.norm);
  };
  if (layout.has_ln_1())
    VisitNormBuffers(list, {"norm_1", "norm_1.mean", "norm_1.rstd"}, h.norm_1, norm);
  VisitAttentionBuffers(list, h.attn);
  branch("attn.raw", {"attn.mean", "attn.rstd"}, h.attn_branch);
  list.Add("sum_1", h.sum_1, number, {N, C});
  if (layout.has_ln_2()) {
    VisitNormBuffers(list, {"norm_2", "norm_2.mean", "norm_2.rstd"}, h.norm_2, norm);
  }
  VisitMlpBuffers(list, h.mlp);
  branch("mlp.raw", {"mlp.mean", "mlp.rstd"}, h.mlp_branch);
  list.Add("sum_2", h.sum_2, number, {N, C});
  ForEachLinear(
      [&](const Linear& linear, LinearActivations& acts) {
        VisitBuffers(list, linear, ResultWidth(pass, linear), acts);
      },
      h);
  const LoraConfig& lora = pass.lora();
  if (!pass.training() || !lora.on() || lora.dropout == 0) return;
  list.Add("lora.input", h.adapter_input, list.low(),
           {N, std::max({C, pass.F(), pass.heads().q_width()})});
}

// Visits the buffers that serve the backward of all blocks.
template <class Visit>
void VisitBlockGradients(const BufferList<Visit>& list, GptGradients& grads) {
  const PassShape& pass = list.pass;
  const int64_t N = pass.N(), C = pass.config.n_embd, F = pass.F();
  const HeadLayout heads = pass.heads();
  const LoraConfig& lora = pass.lora();
  const Dtype low = list.low(), number = list.number();
  list.Add("d_stream", grads.d_stream, number, {N, C});
  list.Add("d_branch", grads.d_branch, low, {N, C});
  const SublayerLayout layout = pass.config.sublayer_layout();
  if (layout.parallel) list.Add("d_beside", grads.d_beside, low, {N, C});
  if (layout.branch_norm && low != number) list.Add("d_raw", grads.d_raw, number, {N, C});
  list.Add("d_wide", grads.d_wide, low, {N, std::max(heads.qkv_width(), pass.up_width())});
  if (pass.config.gated()) list.Add("d_act", grads.d_act, low, {N, F});
  if (pass.config.value_embeddings) {
    list.Add("d_values", grads.value_rows, number, {N, heads.kv_width()});
  }
  list.Add("d_attn", grads.d_attn, low, {N, heads.q_width()});
  if (!pass.shard().whole() && pass.config.has_qk_norm() && !pass.config.full_qk_norm() &&
      pass.config.norm_weight()) {
    list.Add("d_qk_norm", grads.d_qk_norm, number, {2, heads.head_dim});
  }
  // Pre-norm blocks recompute their norms here, others round or drop from the stream.
  const bool recompute = pass.options.recompute;
  if (layout.pre_norm ? recompute : low != number || pass.config.sublayer_pdrop > 0) {
    list.Add("input", grads.input, low, {N, C});
  }
  if (recompute && IsTrained(lora, kMlpCProj)) list.Add("act", grads.act, low, {N, F});
  if (!lora.on()) return;
  int64_t adapters = 0, spread = 0;
  ForEachLinear([&](const Linear& linear) {
    const int64_t width = ResultWidth(pass, linear);
    const AdaptedColumns adapted = AdaptedColumnsOf(pass.config, lora, linear, width);
    adapters = std::max(adapters, adapted.count);
    if (adapted.parts) spread = std::max(spread, width * adapted.count * lora.rank);
  });
  list.Add("d_lora", grads.d_lora, low, {N, adapters * lora.rank});
  if (spread > 0) {
    list.Add("lora_spread", grads.lora_spread, number, {spread});
    list.Add("d_lora_spread", grads.d_lora_spread, number, {spread});
  }
  if (lora.dropout == 0) return;
  list.Add("lora_input", grads.lora_input, low, {N, std::max({C, F, heads.q_width()})});
}

// The linear layers of a block, by the names that targets of adapters have.
inline constexpr auto kLinearLayers = [] {
  constexpr size_t kCount = [] {
    size_t count = 0;
    ForEachLinear([&](const Linear&) { ++count; });
    return count;
  }();
  std::array<std::string_view, kCount> names = {};
  size_t next = 0;
  ForEachLinear([&](const Linear& linear) { names[next++] = linear.name; });
  return names;
}();

// The stream after the block: (N,C), inside `acts`.
Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts);

// Returns true if the sum that a block ends with goes through the next norm, the next block's or
// ln_f, at once (PassContext::residual_norm).
bool JoinsNorms(const PassContext& pass);

// Returns where the gradient of a block's result is wanted rounded too, beside grads.d_stream:
// grads.d_branch, or nothing.
Tensor RoundedResult(const PassContext& pass, const GptGradients& grads);

// One transformer block. x (N,C) is the stream before it; `branch` (N,C) is scratch. What a
// sublayer reads and what it gives is dropped from, where the configuration says so.
//   pre:    sum_1 = x + attention(ln_1(x));  sum_2 = sum_1 + mlp(ln_2(sum_1));  result sum_2
//   branch: sum_1 = x + ln_attn(attention(x));  sum_2 = sum_1 + ln_mlp(mlp(sum_1));  result sum_2
//   both:   sum_1 = x + ln_attn(attention(ln_1(x)));  and so on
//   pre, block parallel: sum_1 = x + attention(ln_1(x));  sum_2 = sum_1 + mlp(ln_2(x)), or, with
//   one
//           norm, sum_1 + mlp(ln_1(x))
//   post:   sum_1 = x + attention(x);  norm_1 = ln_1(sum_1);
//           sum_2 = norm_1 + mlp(norm_1);  result ln_2(sum_2)
// If `normed`, the block before has run ln_1; `next` is the norm of the result to run, or null.
void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch,
                  bool normed = false, const NormStep* next = nullptr);

// grads.d_stream holds the gradient of the result, and RoundedResult the same, and both get that of
// x. d_params gets +=.
void BlockBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                   const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                   const GptGradients& grads);

}  // namespace folio
