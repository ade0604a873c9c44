#include "folio/model/layers/head.h"

#include <algorithm>

#include "folio/model/tensor_parallel_group.h"

namespace folio {
namespace {

const Tensor& HeadWeight(const EmbeddingAndHeadParams& params) {
  return params.lm_head_weight ? params.lm_head_weight : params.wte;
}

// Calls chunk(begin, end, logits) for the rows in order; logits (end - begin, V) is filled.
template <class Chunk>
void ForEachChunk(const PassContext& pass, const EmbeddingAndHeadParams& params,
                  const HeadActivations& acts, Chunk&& chunk) {
  const int64_t N = pass.N(), rows = acts.logits.device.dim(0);
  for (int64_t begin = 0; begin < N; begin += rows) {
    const int64_t end = std::min(N, begin + rows);
    const Tensor logits = acts.logits.device.Slice(0, end - begin);
    HeadLogits(pass, params, acts.norm_f.out.Slice(begin, end), logits);
    chunk(begin, end, logits);
  }
}

void ChunkLosses(const PassContext& pass, const HeadActivations& acts, const Tensor& targets,
                 int64_t begin, int64_t end, const Tensor& logits) {
  pass.backend.Run(CrossEntropyForward{.logits = logits,
                                       .targets = targets.Slice(begin, end),
                                       .losses = acts.losses.device.Slice(begin, end),
                                       .lse = acts.loss_lse.Slice(begin, end)});
  if (pass.shard.whole()) return;
  pass.group->JoinLosses(pass.shard, targets.Slice(begin, end), acts.lse_parts,
                         acts.loss_lse.Slice(begin, end), acts.losses.device.Slice(begin, end));
}

}  // namespace

int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype) {
  // A chunk of bfloat16 rounds and packs the head's whole matrix anew, as dear as about 100 rows of
  // its product; one of float32 reads the matrix as it is.
  const int64_t min_rows = dtype == Dtype::kBF16 ? 512 : 256;
  constexpr int64_t kElements = int64_t{1} << 22;
  return std::min(N, std::max(min_rows, kElements / V / 64 * 64));
}

int64_t LogitRows(const PassShape& pass) {
  const int64_t N = pass.N(), shards = pass.shard().count;
  if (pass.kind == PassKind::kDecode) return std::min(N, LinearForward::kFewRows);
  const int64_t V = (pass.config.vocab_size + shards - 1) / shards;  // the most of a shard
  return LossChunkRows(N, V, pass.options.dtype);
}

void HeadLogits(const PassContext& pass, const EmbeddingAndHeadParams& params, const Tensor& x,
                const Tensor& out) {
  pass.backend.Run(LinearForward{.x = x,
                                 .weight = HeadWeight(params),
                                 .bias = params.lm_head_bias,
                                 .out = out,
                                 .transposed = true});
  const double scale = pass.config.logit_scale, cap = pass.config.logit_cap;
  if (scale != 1) pass.backend.Run(Scale{.x = out, .factor = scale});
  if (cap > 0) pass.backend.Run(LogitCap{.x = out, .cap = cap});
}

void HeadForward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                 const HeadActivations& acts, const Tensor& targets) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    ChunkLosses(pass, acts, targets, begin, end, logits);
  });
  pass.Sum(acts.losses.device);
}

void HeadForwardBackward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                         const HeadActivations& acts, const Tensor& targets, double scale,
                         const EmbeddingAndHeadParams& d_params, const GptGradients& grads) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    const Tensor d_logits = grads.d_logits.Slice(0, end - begin);
    ChunkLosses(pass, acts, targets, begin, end, logits);
    pass.backend.Run(CrossEntropyBackward{.logits = logits,
                                          .targets = targets.Slice(begin, end),
                                          .lse = acts.loss_lse.Slice(begin, end),
                                          .d_logits = d_logits,
                                          .scale = scale * pass.config.logit_scale,
                                          .cap = pass.config.logit_cap});
    pass.backend.Run(LinearBackward{.x = acts.norm_f.out.Slice(begin, end),
                                    .weight = HeadWeight(params),
                                    .d_out = d_logits,
                                    .d_x = grads.d_branch.Slice(begin, end),
                                    .d_weight = HeadWeight(d_params),
                                    .d_bias = d_params.lm_head_bias,
                                    .transposed = true,
                                    .accumulate_d_weight = pass.accumulate || begin > 0});
  });
  pass.Sum(acts.losses.device);
  pass.Sum(grads.d_branch);
}

}  // namespace folio
