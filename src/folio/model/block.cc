#include "folio/model/block.h"

namespace folio {
namespace {

// One block of a pass, with the steps before and after its sublayers.
struct BlockPass {
  const PassContext& pass;
  int64_t layer;
  SublayerLayout layout = pass.config.layer(layer).sublayers;

  Dropout At(const DropoutPlace& place) const { return pass.BlockDropout(layer, place); }
  void Drop(const DropoutPlace& place, const Tensor& x) const { pass.Drop(x, At(place)); }

  void Norm(const NormParams& params, const Tensor& x, const NormActivations& acts,
            TracePoint point) const {
    NormForward(pass, params, x, acts);
    pass.Show(point, layer, acts.out);
  }

  // Where a sublayer puts its result: what is normed to become the branch, or the branch.
  static const Tensor& Result(const BranchActivations& acts, const Tensor& branch) {
    return acts.raw ? acts.raw : branch;
  }

  // out = x + dropout(branch), which is a sublayer's result, normed if there is such a norm.
  void Join(const DropoutPlace& place, const NormParams& params, const BranchActivations& acts,
            const Tensor& x, const Tensor& branch, const Tensor& out, TracePoint point) const {
    if (acts.raw) {
      NormForward(pass, params, acts.raw,
                  {.out = branch, .mean = acts.norm.mean, .rstd = acts.norm.rstd});
    }
    pass.Show(point, layer, branch);
    pass.backend.Run(ResidualForward{.residual = x,
                                     .x = branch,
                                     .out = out,
                                     .dropout = At(place),
                                     .factor = pass.config.residual_scale});
  }

  // The gradient of a sublayer's result from that of the sum it joined: d_stream itself, or
  // d_branch where something stands between.
  Tensor JoinBackward(const DropoutPlace& place, const NormParams& params,
                      const BranchActivations& acts, const NormParams& d_params,
                      const GptGradients& grads) const {
    const Dropout dropout = At(place);
    const double scale = pass.config.residual_scale;
    Tensor d = grads.d_stream;
    if (dropout.active() || scale != 1 || grads.d_branch.dtype() != d.dtype()) {
      pass.backend.Run(
          ResidualBackward{.d_out = d, .d_x = grads.d_branch, .dropout = dropout, .factor = scale});
      d = grads.d_branch;
    }
    if (!acts.raw) return d;
    const Tensor d_raw = grads.d_raw ? grads.d_raw : grads.d_branch;
    NormBackward(pass, params, acts.raw, acts.norm, d, d_params, d_raw, false);
    if (grads.d_raw) {
      pass.backend.Run(ResidualBackward{.d_out = d_raw, .d_x = grads.d_branch, .dropout = {}});
    }
    return grads.d_branch;
  }

  // Rows of the stream as a sublayer without a norm before it reads them: dropped from or rounded,
  // in `low`, where there is dropout or that is of another dtype. Without dropout ResidualBackward
  // is a copy.
  Tensor Read(const DropoutPlace& place, const Tensor& x, const Tensor& low) const {
    const Dropout dropout = At(place);
    if (!dropout.active() && (!low || low.dtype() == x.dtype())) return x;
    pass.backend.Run(ResidualBackward{.d_out = x, .d_x = low, .dropout = dropout});
    return low;
  }

  // Returns the input of a sublayer: the norm of the stream, dropped from, or the stream as Read
  // gives it. `low` is as there.
  Tensor Input(const DropoutPlace& place, const NormParams& norm, const Tensor& stream,
               const NormActivations& to, const Tensor& low, TracePoint point) const {
    if (!layout.pre_norm) {
      if (!layout.post_norm) pass.Show(point, layer, stream);
      return Read(place, stream, low);
    }
    Norm(norm, stream, to, point);
    Drop(place, to.out);
    return to.out;
  }

  // Calls sublayer_backward(d_x, accumulate) so that the gradient of the stream gets that of Read.
  // Where an adapter drops, it wants a d_x of its own, and so do shards, to add theirs up.
  template <class Backward>
  void ReadBackward(const DropoutPlace& place, const GptGradients& grads,
                    const Backward& sublayer_backward) const {
    const Dropout dropout = At(place);
    const bool apart = dropout.active() || grads.lora_input || !pass.shard.whole();
    if (!apart) return sublayer_backward(grads.d_stream, true);
    sublayer_backward(grads.d_branch, false);
    pass.backend.Run(ResidualForward{.residual = grads.d_stream,
                                     .x = grads.d_branch,
                                     .out = grads.d_stream,
                                     .dropout = dropout});
  }

  // Returns the norm of x that a pre-norm block's sublayer read: the forward's, or recomputed.
  // Where `reader`, the linear layer behind it, trains nothing, and no gate is behind it, nobody
  // reads it again.
  Tensor ReadNorm(const DropoutPlace& place, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const GptGradients& grads,
                  const Linear& reader) const {
    const bool gates = reader.name == kCAttn.name && pass.config.layer(layer).value_embedding;
    if (!grads.input || !(gates || IsTrained(pass.lora, reader))) return acts.out;
    NormForward(pass, params, x, {.out = grads.input, .mean = acts.mean, .rstd = acts.rstd});
    Drop(place, grads.input);
    return grads.input;
  }
};

}  // namespace

Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts) {
  return config.sublayer_layout().post_norm ? acts.norm_2.out : acts.sum_2;
}

// Until a sublayer has its result, `branch` holds its input, where that is nowhere else.
void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch) {
  using enum TracePoint;
  const BlockPass block{pass, layer};
  const bool post = block.layout.post_norm, one_norm = block.layout.one_norm;

  const Tensor a = block.Input(kAttentionInput, params.ln_1, x, acts.norm_1, branch, kNorm1);
  SelfAttentionForward(pass, layer, params.attn, acts.attn, acts.adapter_input, a,
                       BlockPass::Result(acts.attn_branch, branch));
  block.Join(kAttentionResidual, params.ln_attn, acts.attn_branch, x, branch, acts.sum_1,
             kAttention);
  pass.Show(kMiddle, layer, acts.sum_1);
  if (post) block.Norm(params.ln_1, acts.sum_1, acts.norm_1, kNorm1);
  const Tensor middle = post ? acts.norm_1.out : acts.sum_1;

  const Tensor m = one_norm
                       ? acts.norm_1.out
                       : block.Input(kMlpInput, params.ln_2, block.layout.parallel ? x : middle,
                                     acts.norm_2, branch, kNorm2);
  if (one_norm) pass.Show(kNorm2, layer, m);
  MlpForward(pass, layer, params.mlp, acts.mlp, acts.adapter_input, m,
             BlockPass::Result(acts.mlp_branch, branch));
  block.Join(kMlpResidual, params.ln_mlp, acts.mlp_branch, middle, branch, acts.sum_2, kMlp);
  if (post) block.Norm(params.ln_2, acts.sum_2, acts.norm_2, kNorm2);
  pass.Show(kOutput, layer, BlockOutput(pass.config, acts));
}

namespace {

// Both sublayers read norms of x, and the gradients of these wait for each other: d_stream stays
// that of the result until both have read it.
void ParallelBackward(const BlockPass& block, const BlockParams& params,
                      const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                      const GptGradients& grads) {
  const PassContext& pass = block.pass;
  const bool one = block.layout.one_norm;
  const NormParams &ln_2 = one ? params.ln_1 : params.ln_2,
                   &d_ln_2 = one ? d_params.ln_1 : d_params.ln_2;
  const NormActivations& norm_2 = one ? acts.norm_1 : acts.norm_2;
  Tensor d_out = block.JoinBackward(kMlpResidual, {}, {}, {}, grads);
  MlpBackward(pass, block.layer, params.mlp, acts.mlp,
              block.ReadNorm(kMlpInput, ln_2, x, norm_2, grads, kCFc), d_out, d_params.mlp, grads,
              grads.d_beside, false);
  block.Drop(kMlpInput, grads.d_beside);
  d_out = block.JoinBackward(kAttentionResidual, {}, {}, {}, grads);
  SelfAttentionBackward(pass, block.layer, params.attn, acts.attn,
                        block.ReadNorm(kAttentionInput, params.ln_1, x, acts.norm_1, grads, kCAttn),
                        d_out, d_params.attn, grads, grads.d_branch, false);
  block.Drop(kAttentionInput, grads.d_branch);
  NormBackward(pass, ln_2, x, norm_2, grads.d_beside, d_ln_2, grads.d_stream, true);
  NormBackward(pass, params.ln_1, x, acts.norm_1, grads.d_branch, d_params.ln_1, grads.d_stream,
               true);
}

}  // namespace

void BlockBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                   const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                   const GptGradients& grads) {
  const BlockPass block{pass, layer};
  if (block.layout.parallel) {
    return ParallelBackward(block, params, acts, x, d_params, grads);
  }
  const bool post = block.layout.post_norm;
  const Tensor &d = grads.d_stream, middle = post ? acts.norm_1.out : acts.sum_1;
  Tensor d_out, input;
  // From the gradient of the sum to that of `from`, the stream that a sublayer read: what the
  // sublayer passes on is added to it.
  const auto through = [&](const DropoutPlace& place, const NormParams& norm, const Tensor& from,
                           const NormActivations& normed, const NormParams& d_norm,
                           const Linear& reader, const auto& sublayer) {
    if (!block.layout.pre_norm) {
      input = block.Read(place, from, grads.input);
      return block.ReadBackward(place, grads, sublayer);
    }
    input = block.ReadNorm(place, norm, from, normed, grads, reader);
    sublayer(grads.d_branch, false);
    block.Drop(place, grads.d_branch);
    NormBackward(pass, norm, from, normed, grads.d_branch, d_norm, d, true);
  };
  if (post) NormBackward(pass, params.ln_2, acts.sum_2, acts.norm_2, d, d_params.ln_2, d, false);
  d_out = block.JoinBackward(kMlpResidual, params.ln_mlp, acts.mlp_branch, d_params.ln_mlp, grads);
  through(kMlpInput, params.ln_2, middle, acts.norm_2, d_params.ln_2, kCFc,
          [&](const Tensor& d_x, bool accumulate) {
            MlpBackward(pass, layer, params.mlp, acts.mlp, input, d_out, d_params.mlp, grads, d_x,
                        accumulate);
          });
  if (post) NormBackward(pass, params.ln_1, acts.sum_1, acts.norm_1, d, d_params.ln_1, d, false);
  d_out = block.JoinBackward(kAttentionResidual, params.ln_attn, acts.attn_branch, d_params.ln_attn,
                             grads);
  through(kAttentionInput, params.ln_1, x, acts.norm_1, d_params.ln_1, kCAttn,
          [&](const Tensor& d_x, bool accumulate) {
            SelfAttentionBackward(pass, layer, params.attn, acts.attn, input, d_out, d_params.attn,
                                  grads, d_x, accumulate);
          });
}

}  // namespace folio
