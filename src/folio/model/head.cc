#include "folio/model/head.h"

#include <algorithm>

#include "folio/model/tensor_parallel_group.h"

namespace folio {
namespace {

const Tensor& HeadWeight(const GptParams& params) {
  return params.lm_head_weight ? params.lm_head_weight : params.wte;
}

// Calls chunk(begin, end, logits) for the rows in order; logits (end - begin, V) is filled.
template <class Chunk>
void ForEachChunk(const PassContext& pass, const GptParams& params, const GptActivations& acts,
                  Chunk&& chunk) {
  const int64_t N = pass.N(), rows = acts.logits.dim(0);
  for (int64_t begin = 0; begin < N; begin += rows) {
    const int64_t end = std::min(N, begin + rows);
    const Tensor logits = acts.logits.Slice(0, end - begin);
    HeadLogits(pass, params, acts.norm_f.out.Slice(begin, end), logits);
    chunk(begin, end, logits);
  }
}

void ChunkLosses(const PassContext& pass, const GptActivations& acts, const Tensor& targets,
                 int64_t begin, int64_t end, const Tensor& logits) {
  pass.backend.Run(CrossEntropyForward{.logits = logits,
                                       .targets = targets.Slice(begin, end),
                                       .losses = acts.losses.Slice(begin, end),
                                       .lse = acts.loss_lse.Slice(begin, end)});
  if (pass.shard.whole()) return;
  pass.group->JoinLosses(pass.shard, targets.Slice(begin, end), acts.lse_parts,
                         acts.loss_lse.Slice(begin, end), acts.losses.Slice(begin, end));
}

}  // namespace

void HeadLogits(const PassContext& pass, const GptParams& params, const Tensor& x,
                const Tensor& out) {
  pass.backend.Run(LinearForward{.x = x,
                                 .weight = HeadWeight(params),
                                 .bias = params.lm_head_bias,
                                 .out = out,
                                 .transposed = true});
}

void HeadForward(const PassContext& pass, const GptParams& params, const GptActivations& acts,
                 const Tensor& targets) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    ChunkLosses(pass, acts, targets, begin, end, logits);
  });
  pass.Sum(acts.losses);
}

void HeadForwardBackward(const PassContext& pass, const GptParams& params,
                         const GptActivations& acts, const Tensor& targets, double scale,
                         const GptParams& d_params, const GptGradients& grads) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    const Tensor d_logits = grads.d_logits.Slice(0, end - begin);
    ChunkLosses(pass, acts, targets, begin, end, logits);
    pass.backend.Run(CrossEntropyBackward{.logits = logits,
                                          .targets = targets.Slice(begin, end),
                                          .lse = acts.loss_lse.Slice(begin, end),
                                          .d_logits = d_logits,
                                          .scale = scale});
    pass.backend.Run(LinearBackward{.x = acts.norm_f.out.Slice(begin, end),
                                    .weight = HeadWeight(params),
                                    .d_out = d_logits,
                                    .d_x = grads.d_branch.Slice(begin, end),
                                    .d_weight = HeadWeight(d_params),
                                    .d_bias = d_params.lm_head_bias,
                                    .transposed = true,
                                    .accumulate_d_weight = pass.accumulate || begin > 0});
  });
  pass.Sum(acts.losses);
  pass.Sum(grads.d_branch);
}

}  // namespace folio
