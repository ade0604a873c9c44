#include "folio/model/block.h"

namespace folio {
namespace {

// One block of a pass, and how its sublayers hang together.
struct BlockPass {
  const PassContext& pass;
  int64_t layer;

  Dropout At(const DropoutPlace& place) const { return pass.BlockDropout(layer, place); }
  void Drop(const DropoutPlace& place, const Tensor& x) const { pass.Drop(x, At(place)); }

  void Norm(const NormParams& params, const Tensor& x, const NormActivations& acts,
            TracePoint point) const {
    NormForward(pass, params, x, acts);
    pass.Show(point, layer, acts.out);
  }

  // out = x + dropout(branch)
  void Join(const DropoutPlace& place, const Tensor& x, const Tensor& branch,
            const Tensor& out) const {
    pass.backend.Run(ResidualForward{.residual = x, .x = branch, .out = out, .dropout = At(place)});
  }

  // The gradient of a sublayer's result from that of the sum it joined: d_stream itself, or
  // d_branch where dropout or another dtype stands between.
  Tensor JoinBackward(const DropoutPlace& place, const GptGradients& grads) const {
    const Dropout dropout = At(place);
    if (!dropout.active() && grads.d_branch.dtype() == grads.d_stream.dtype()) {
      return grads.d_stream;
    }
    pass.backend.Run(
        ResidualBackward{.d_out = grads.d_stream, .d_x = grads.d_branch, .dropout = dropout});
    return grads.d_branch;
  }

  // Rows of the stream as a post-norm block's sublayer reads them: dropped from or rounded, in
  // `low`, where there is dropout or that is of another dtype. Without dropout ResidualBackward is
  // a copy.
  Tensor Read(const DropoutPlace& place, const Tensor& x, const Tensor& low) const {
    const Dropout dropout = At(place);
    if (!dropout.active() && (!low || low.dtype() == x.dtype())) return x;
    pass.backend.Run(ResidualBackward{.d_out = x, .d_x = low, .dropout = dropout});
    return low;
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
  // Where `reader`, the linear layer behind it, trains nothing, nobody reads it again.
  Tensor ReadNorm(const DropoutPlace& place, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const GptGradients& grads,
                  const Linear& reader) const {
    if (!grads.input || !pass.lora.Trains(reader.name)) return acts.out;
    NormForward(pass, params, x, {.out = grads.input, .mean = acts.mean, .rstd = acts.rstd});
    Drop(place, grads.input);
    return grads.input;
  }
};

}  // namespace

Tensor BlockOutput(const GptConfig& config, const BlockActivations& acts) {
  return config.pre_norm() ? acts.sum_2 : acts.norm_2.out;
}

void BlockForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts, const Tensor& x, const Tensor& branch) {
  const BlockPass block{pass, layer};
  const auto attention = [&](const Tensor& from) {
    SelfAttentionForward(pass, layer, params.attn, acts.attn, acts.adapter_input, from, branch);
  };
  const auto mlp = [&](const Tensor& from) {
    MlpForward(pass, layer, params.mlp, acts.mlp, acts.adapter_input, from, branch);
  };
  if (pass.config.pre_norm()) {
    block.Norm(params.ln_1, x, acts.norm_1, TracePoint::kNorm1);
    block.Drop(kAttentionInput, acts.norm_1.out);
    attention(acts.norm_1.out);
    block.Join(kAttentionResidual, x, branch, acts.sum_1);
    pass.Show(TracePoint::kMiddle, layer, acts.sum_1);
    block.Norm(params.ln_2, acts.sum_1, acts.norm_2, TracePoint::kNorm2);
    block.Drop(kMlpInput, acts.norm_2.out);
    mlp(acts.norm_2.out);
    block.Join(kMlpResidual, acts.sum_1, branch, acts.sum_2);
  } else {
    // Until a sublayer has its result, `branch` holds its input, if that is not in place elsewhere.
    attention(block.Read(kAttentionInput, x, branch));
    block.Join(kAttentionResidual, x, branch, acts.sum_1);
    pass.Show(TracePoint::kMiddle, layer, acts.sum_1);
    block.Norm(params.ln_1, acts.sum_1, acts.norm_1, TracePoint::kNorm1);
    mlp(block.Read(kMlpInput, acts.norm_1.out, branch));
    block.Join(kMlpResidual, acts.norm_1.out, branch, acts.sum_2);
    block.Norm(params.ln_2, acts.sum_2, acts.norm_2, TracePoint::kNorm2);
  }
  pass.Show(TracePoint::kOutput, layer, BlockOutput(pass.config, acts));
}

void BlockBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                   const BlockActivations& acts, const Tensor& x, const BlockParams& d_params,
                   const GptGradients& grads) {
  const BlockPass block{pass, layer};
  const Tensor& d = grads.d_stream;
  Tensor d_out, input;
  const auto attention = [&](const Tensor& d_x, bool accumulate) {
    SelfAttentionBackward(pass, layer, params.attn, acts.attn, input, d_out, d_params.attn, grads,
                          d_x, accumulate);
  };
  const auto mlp = [&](const Tensor& d_x, bool accumulate) {
    MlpBackward(pass, layer, params.mlp, acts.mlp, input, d_out, d_params.mlp, grads, d_x,
                accumulate);
  };
  if (pass.config.pre_norm()) {
    // forward: sum_2 = sum_1 + mlp(ln_2(sum_1))
    d_out = block.JoinBackward(kMlpResidual, grads);
    input = block.ReadNorm(kMlpInput, params.ln_2, acts.sum_1, acts.norm_2, grads, kCFc);
    mlp(grads.d_branch, false);
    block.Drop(kMlpInput, grads.d_branch);
    NormBackward(pass, params.ln_2, acts.sum_1, acts.norm_2, grads.d_branch, d_params.ln_2, d,
                 true);
    // forward: sum_1 = x + attention(ln_1(x))
    d_out = block.JoinBackward(kAttentionResidual, grads);
    input = block.ReadNorm(kAttentionInput, params.ln_1, x, acts.norm_1, grads, kCAttn);
    attention(grads.d_branch, false);
    block.Drop(kAttentionInput, grads.d_branch);
    NormBackward(pass, params.ln_1, x, acts.norm_1, grads.d_branch, d_params.ln_1, d, true);
  } else {
    // forward: norm_2 = ln_2(norm_1 + mlp(norm_1))
    NormBackward(pass, params.ln_2, acts.sum_2, acts.norm_2, d, d_params.ln_2, d, false);
    d_out = block.JoinBackward(kMlpResidual, grads);
    input = block.Read(kMlpInput, acts.norm_1.out, grads.input);
    block.ReadBackward(kMlpInput, grads, mlp);
    // forward: norm_1 = ln_1(x + attention(x))
    NormBackward(pass, params.ln_1, acts.sum_1, acts.norm_1, d, d_params.ln_1, d, false);
    d_out = block.JoinBackward(kAttentionResidual, grads);
    input = block.Read(kAttentionInput, x, grads.input);
    block.ReadBackward(kAttentionInput, grads, attention);
  }
}

}  // namespace folio
