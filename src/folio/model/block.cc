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

  // Where a sublayer puts its result: what is normed to become the branch, or the branch.
  static const Tensor& Result(const BranchActivations& acts, const Tensor& branch) {
    return acts.raw ? acts.raw : branch;
  }

  // out = x + dropout(branch), which is a sublayer's result, normed if there is such a norm; then
  // `next`, the norm of out, unless it is null.
  void Join(const DropoutPlace& place, const NormParams& params, const BranchActivations& acts,
            const Tensor& x, const Tensor& branch, const Tensor& out, TracePoint point,
            const NormStep* next) const {
    if (acts.raw) {
      NormForward(pass, params, acts.raw,
                  {.out = branch, .mean = acts.norm.mean, .rstd = acts.norm.rstd});
    }
    pass.Show(point, layer, branch);
    const ResidualForward residual{.residual = x,
                                   .x = branch,
                                   .out = out,
                                   .dropout = At(place),
                                   .factor = pass.config.residual_scale};
    if (next == nullptr) return pass.backend.Run(residual);
    ResidualNormForward(pass, residual, *next);
  }

  // The gradient of a sublayer's result from that of the sum it joined: d_stream itself, or
  // d_branch where something stands between. If `rounded`, it is there already.
  Tensor JoinBackward(const DropoutPlace& place, const NormParams& params,
                      const BranchActivations& acts, const NormParams& d_params,
                      const GptGradients& grads, bool rounded = false) const {
    const Dropout dropout = At(place);
    const double scale = pass.config.residual_scale;
    Tensor d = grads.d_stream;
    if (dropout.active() || scale != 1 || grads.d_branch.dtype() != d.dtype()) {
      d = grads.d_branch;
      if (!rounded) {
        pass.backend.Run(ResidualBackward{
            .d_out = grads.d_stream, .d_x = d, .dropout = dropout, .factor = scale});
      }
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
  // gives it. `low` is as there. If `normed`, the norm was run before.
  Tensor Input(const DropoutPlace& place, const NormParams& norm, const Tensor& stream,
               const NormActivations& to, const Tensor& low, TracePoint point, bool normed) const {
    if (!layout.pre_norm) {
      if (!layout.post_norm) pass.Show(point, layer, stream);
      return Read(place, stream, low);
    }
    if (!normed) NormForward(pass, norm, stream, to);
    pass.Show(point, layer, to.out);
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

// Returns where the gradient of a sum is wanted rounded too, for JoinBackward to find it: nowhere
// if that would do more than rounding.
Tensor Rounded(const PassContext& pass, const DropoutPlace& place, const GptGradients& grads) {
  if (grads.d_branch.dtype() == grads.d_stream.dtype()) return {};
  const bool more = pass.BlockDropout(0, place).active() || pass.config.residual_scale != 1;
  return more ? Tensor() : grads.d_branch;
}

// Returns true if nothing stands between the blocks, each of which begins with a norm.
bool FollowEachOther(const GptConfig& config) {
  const SublayerLayout layout = config.sublayer_layout();
  return layout.pre_norm && !layout.parallel && !config.residual_lambdas && !config.backout;
}

}  // namespace

bool JoinsNorms(const PassContext& pass) {
  return pass.residual_norm && pass.config.sublayer_layout().pre_norm &&
         !pass.config.residual_lambdas;
}

Tensor RoundedResult(const PassContext& pass, const GptGradients& grads) {
  const Tensor low = Rounded(pass, kMlpResidual, grads);
  return low && FollowEachOther(pass.config) ? low : Tensor();
}

Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts) {
  return config.sublayer_layout().post_norm ? acts.norm_2.out : acts.sum_2;
}

// Until a sublayer has its result, `branch` holds its input, where that is nowhere else.
void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch, bool normed,
                  const NormStep* next) {
  using enum TracePoint;
  const BlockPass block{pass, layer};
  const bool post = block.layout.post_norm, one_norm = block.layout.one_norm;
  // The norm of the sum in the middle.
  const NormStep middle_norm =
      post ? NormStep{params.ln_1, acts.norm_1} : NormStep{params.ln_2, acts.norm_2};
  const bool norms_middle = post || (block.layout.pre_norm && !block.layout.parallel);
  const NormStep last_norm{params.ln_2, acts.norm_2};
  if (post) next = &last_norm;

  const Tensor a =
      block.Input(kAttentionInput, params.ln_1, x, acts.norm_1, branch, kNorm1, normed);
  SelfAttentionForward(pass, layer, params.attn, acts.attn, acts.adapter_input, a,
                       BlockPass::Result(acts.attn_branch, branch));
  block.Join(kAttentionResidual, params.ln_attn, acts.attn_branch, x, branch, acts.sum_1,
             kAttention, norms_middle ? &middle_norm : nullptr);
  pass.Show(kMiddle, layer, acts.sum_1);
  if (post) pass.Show(kNorm1, layer, acts.norm_1.out);
  const Tensor middle = post ? acts.norm_1.out : acts.sum_1;

  const Tensor m = one_norm
                       ? acts.norm_1.out
                       : block.Input(kMlpInput, params.ln_2, block.layout.parallel ? x : middle,
                                     acts.norm_2, branch, kNorm2, norms_middle);
  if (one_norm) pass.Show(kNorm2, layer, m);
  MlpForward(pass, layer, params.mlp, acts.mlp, acts.adapter_input, m,
             BlockPass::Result(acts.mlp_branch, branch));
  block.Join(kMlpResidual, params.ln_mlp, acts.mlp_branch, middle, branch, acts.sum_2, kMlp, next);
  if (post) pass.Show(kNorm2, layer, acts.norm_2.out);
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
  // The gradient of `from` also goes to `low`.
  const auto through = [&](const DropoutPlace& place, const NormParams& norm, const Tensor& from,
                           const NormActivations& normed, const NormParams& d_norm,
                           const Linear& reader, const Tensor& low, const auto& sublayer) {
    if (!block.layout.pre_norm) {
      input = block.Read(place, from, grads.input);
      return block.ReadBackward(place, grads, sublayer);
    }
    input = block.ReadNorm(place, norm, from, normed, grads, reader);
    sublayer(grads.d_branch, false);
    block.Drop(place, grads.d_branch);
    NormBackward(pass, norm, from, normed, grads.d_branch, d_norm, d, true, low);
  };
  const auto post_backward = [&](const NormParams& norm, const Tensor& sum,
                                 const NormActivations& normed, const NormParams& d_norm,
                                 const Tensor& low) {
    if (post) NormBackward(pass, norm, sum, normed, d, d_norm, d, false, low);
  };
  // Where norms make the gradients of the sums, they make them rounded.
  const bool norms = post || block.layout.pre_norm;
  const Tensor low_2 = post ? Rounded(pass, kMlpResidual, grads) : RoundedResult(pass, grads);
  const Tensor low_1 = norms ? Rounded(pass, kAttentionResidual, grads) : Tensor();
  const Tensor low_x = layer > 0 ? RoundedResult(pass, grads) : Tensor();
  post_backward(params.ln_2, acts.sum_2, acts.norm_2, d_params.ln_2, low_2);
  d_out = block.JoinBackward(kMlpResidual, params.ln_mlp, acts.mlp_branch, d_params.ln_mlp, grads,
                             bool(low_2));
  through(kMlpInput, params.ln_2, middle, acts.norm_2, d_params.ln_2, kCFc, low_1,
          [&](const Tensor& d_x, bool accumulate) {
            MlpBackward(pass, layer, params.mlp, acts.mlp, input, d_out, d_params.mlp, grads, d_x,
                        accumulate);
          });
  post_backward(params.ln_1, acts.sum_1, acts.norm_1, d_params.ln_1, low_1);
  d_out = block.JoinBackward(kAttentionResidual, params.ln_attn, acts.attn_branch, d_params.ln_attn,
                             grads, bool(low_1));
  through(kAttentionInput, params.ln_1, x, acts.norm_1, d_params.ln_1, kCAttn, low_x,
          [&](const Tensor& d_x, bool accumulate) {
            SelfAttentionBackward(pass, layer, params.attn, acts.attn, input, d_out, d_params.attn,
                                  grads, d_x, accumulate);
          });
}

}  // namespace folio
