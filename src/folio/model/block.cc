#include "folio/model/block.h"

#include "folio/model/attention.h"
#include "folio/model/mlp.h"
#include "folio/model/norm.h"

namespace folio {
namespace {

// The gradient of a sublayer's result from that of the sum it joined: d_stream itself, or d_branch
// where dropout or another dtype stands between.
Tensor BranchGradient(const PassContext& pass, const Dropout& dropout, const GptGradients& grads) {
  if (!dropout.active() && grads.d_branch.dtype() == grads.d_stream.dtype()) return grads.d_stream;
  pass.backend.Run(
      ResidualBackward{.d_out = grads.d_stream, .d_x = grads.d_branch, .dropout = dropout});
  return grads.d_branch;
}

// Rows of the stream as a post-norm block's sublayer reads them: dropped from or rounded, in `low`,
// where there is dropout or that is of another dtype. Without dropout ResidualBackward is a copy.
Tensor ReadStream(const PassContext& pass, const Dropout& dropout, const Tensor& x,
                  const Tensor& low) {
  if (!dropout.active() && (!low || low.dtype() == x.dtype())) return x;
  pass.backend.Run(ResidualBackward{.d_out = x, .d_x = low, .dropout = dropout});
  return low;
}

// Calls sublayer_backward(d_x, accumulate) so that the gradient of the stream gets that of
// ReadStream. Where an adapter drops, it wants a d_x of its own, and so do parts, to add theirs up.
template <class Backward>
void AddToStream(const PassContext& pass, const Dropout& dropout, const GptGradients& grads,
                 const Backward& sublayer_backward) {
  const bool apart = dropout.active() || grads.lora_input || !pass.shard.whole();
  if (!apart) return sublayer_backward(grads.d_stream, true);
  sublayer_backward(grads.d_branch, false);
  pass.backend.Run(ResidualForward{
      .residual = grads.d_stream, .x = grads.d_branch, .out = grads.d_stream, .dropout = dropout});
}

// What a pre-norm block's sublayer read of x: the forward's, or recomputed. Where the linear layer
// behind it trains nothing, nobody reads it again.
Tensor ReadNorm(const PassContext& pass, const Dropout& dropout, const NormParams& params,
                const Tensor& x, const NormActivations& acts, const GptGradients& grads,
                bool trains) {
  if (!grads.input || !trains) return acts.out;
  NormForward(pass, params, x, {.out = grads.input, .mean = acts.mean, .rstd = acts.rstd});
  pass.Drop(grads.input, dropout);
  return grads.input;
}

}  // namespace

Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts) {
  return config.pre_norm() ? acts.sum_2 : acts.norm_2.out;
}

void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch) {
  const bool pre = pass.config.pre_norm();
  const Dropout attn_input = pass.BlockDropout(layer, DropoutPlace::kAttentionInput);
  const Dropout mlp_input = pass.BlockDropout(layer, DropoutPlace::kMlpInput);
  const auto norm_1 = [&](const Tensor& from) {
    NormForward(pass, params.ln_1, from, acts.norm_1);
    pass.Show(TracePoint::kNorm1, layer, acts.norm_1.out);
  };
  const auto norm_2 = [&](const Tensor& from) {
    NormForward(pass, params.ln_2, from, acts.norm_2);
    pass.Show(TracePoint::kNorm2, layer, acts.norm_2.out);
  };
  // Until a sublayer has its result, `branch` holds its input, if that is not in place elsewhere.
  if (pre) {
    norm_1(x);
    pass.Drop(acts.norm_1.out, attn_input);
  }
  AttentionSublayerForward(pass, layer, params, acts,
                           pre ? acts.norm_1.out : ReadStream(pass, attn_input, x, branch), branch);
  pass.backend.Run(
      ResidualForward{.residual = x,
                      .x = branch,
                      .out = acts.sum_1,
                      .dropout = pass.BlockDropout(layer, DropoutPlace::kAttentionResidual)});
  pass.Show(TracePoint::kMiddle, layer, acts.sum_1);
  pre ? norm_2(acts.sum_1) : norm_1(acts.sum_1);
  if (pre) pass.Drop(acts.norm_2.out, mlp_input);
  MlpSublayerForward(pass, layer, params, acts,
                     pre ? acts.norm_2.out : ReadStream(pass, mlp_input, acts.norm_1.out, branch),
                     branch);
  pass.backend.Run(
      ResidualForward{.residual = pre ? acts.sum_1 : acts.norm_1.out,
                      .x = branch,
                      .out = acts.sum_2,
                      .dropout = pass.BlockDropout(layer, DropoutPlace::kMlpResidual)});
  if (!pre) norm_2(acts.sum_2);
  pass.Show(TracePoint::kOutput, layer, BlockOutput(pass.config, acts));
}

void BlockBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                   const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                   const GptGradients& grads) {
  const Tensor& d = grads.d_stream;
  const Dropout mlp_dropout = pass.BlockDropout(layer, DropoutPlace::kMlpResidual);
  const Dropout attn_dropout = pass.BlockDropout(layer, DropoutPlace::kAttentionResidual);
  const Dropout attn_input = pass.BlockDropout(layer, DropoutPlace::kAttentionInput);
  const Dropout mlp_input = pass.BlockDropout(layer, DropoutPlace::kMlpInput);
  if (pass.config.pre_norm()) {
    // forward: sum_2 = sum_1 + mlp(ln_2(sum_1))
    Tensor d_branch = BranchGradient(pass, mlp_dropout, grads);
    Tensor input = ReadNorm(pass, mlp_input, params.ln_2, acts.sum_1, acts.norm_2, grads,
                            pass.lora.Trains("mlp.c_fc"));
    MlpSublayerBackward(pass, layer, params, acts, input, d_branch, d_params, grads, grads.d_branch,
                        false);
    pass.Drop(grads.d_branch, mlp_input);
    NormBackward(pass, params.ln_2, acts.sum_1, acts.norm_2, grads.d_branch, d_params.ln_2, d,
                 true);
    // forward: sum_1 = x + attention(ln_1(x))
    d_branch = BranchGradient(pass, attn_dropout, grads);
    input = ReadNorm(pass, attn_input, params.ln_1, x, acts.norm_1, grads,
                     pass.lora.Trains("attn.c_attn"));
    AttentionSublayerBackward(pass, layer, params, acts, input, d_branch, d_params, grads,
                              grads.d_branch, false);
    pass.Drop(grads.d_branch, attn_input);
    NormBackward(pass, params.ln_1, x, acts.norm_1, grads.d_branch, d_params.ln_1, d, true);
    return;
  }
  // forward: norm_2 = ln_2(norm_1 + mlp(norm_1))
  NormBackward(pass, params.ln_2, acts.sum_2, acts.norm_2, d, d_params.ln_2, d, false);
  Tensor d_branch = BranchGradient(pass, mlp_dropout, grads);
  Tensor input = ReadStream(pass, mlp_input, acts.norm_1.out, grads.input);
  AddToStream(pass, mlp_input, grads, [&](const Tensor& d_x, bool accumulate) {
    MlpSublayerBackward(pass, layer, params, acts, input, d_branch, d_params, grads, d_x,
                        accumulate);
  });
  // forward: norm_1 = ln_1(x + attention(x))
  NormBackward(pass, params.ln_1, acts.sum_1, acts.norm_1, d, d_params.ln_1, d, false);
  d_branch = BranchGradient(pass, attn_dropout, grads);
  input = ReadStream(pass, attn_input, x, grads.input);
  AddToStream(pass, attn_input, grads, [&](const Tensor& d_x, bool accumulate) {
    AttentionSublayerBackward(pass, layer, params, acts, input, d_branch, d_params, grads, d_x,
                              accumulate);
  });
}

}  // namespace folio
