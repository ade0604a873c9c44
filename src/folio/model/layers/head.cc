#include "folio/model/layers/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/model/param_list.h"

namespace folio {
namespace {

const Tensor& HeadWeight(const GptParams& params) {
  return params.lm_head_weight ? params.lm_head_weight : params.wte;
}

// Calls chunk(begin, end, logits) for the rows in order; logits (end - begin, V) is filled.
template <class Chunk>
void ForEachChunk(const PassContext& pass, const GptParams& params, const HeadActivations& acts,
                  Chunk&& chunk) {
  const int64_t N = pass.N(), rows = acts.logits.dim(0);
  for (int64_t begin = 0; begin < N; begin += rows) {
    const int64_t end = std::min(N, begin + rows);
    const Tensor logits = acts.logits.Slice(0, end - begin);
    HeadLogits(pass, params, acts.norm_f.out.Slice(begin, end), logits);
    chunk(begin, end, logits);
  }
}

// Makes of the losses of rows [begin, end), and of their log-sum-exps, of this shard of the
// vocabulary those of all of it. A row whose target is in another shard has no loss here.
template <class Number>
void JoinShards(const PassContext& pass, const HeadActivations& acts, const Tensor& targets,
                int64_t begin, int64_t end) {
  const int64_t rows = end - begin, shards = pass.shard.count;
  // Everybody's log-sum-exps: each adds its own to the others' zeros.
  const Tensor all = acts.lse_parts.Reshape({acts.lse_parts.count()}).Slice(0, shards * rows);
  Number* lse = acts.loss_lse.data<Number>() + begin;
  Number* of_shards = all.data<Number>();
  pass.backend.Run(Fill{.out = all, .value = 0});
  std::copy_n(lse, rows, of_shards + pass.shard.index * rows);
  pass.Sum(all);
  Number* losses = acts.losses.data<Number>() + begin;
  for (int64_t n = 0; n < rows; ++n) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = 0; s < shards; ++s) {
      largest = std::max<double>(largest, of_shards[s * rows + n]);
    }
    for (int64_t s = 0; s < shards; ++s) sum += std::exp(of_shards[s * rows + n] - largest);
    const auto joined = static_cast<Number>(largest + std::log(sum));
    if (targets.data<int32_t>()[begin + n] >= 0) losses[n] += joined - lse[n];
    lse[n] = joined;
  }
}

void ChunkLosses(const PassContext& pass, const HeadActivations& acts, const Tensor& targets,
                 int64_t begin, int64_t end, const Tensor& logits) {
  pass.backend.Run(CrossEntropyForward{.logits = logits,
                                       .targets = targets.Slice(begin, end),
                                       .losses = acts.losses.Slice(begin, end),
                                       .lse = acts.loss_lse.Slice(begin, end)});
  if (pass.shard.whole()) return;
  if (acts.losses.dtype() == Dtype::kF64) {
    JoinShards<double>(pass, acts, targets, begin, end);
  } else {
    JoinShards<float>(pass, acts, targets, begin, end);
  }
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

void HeadLogits(const PassContext& pass, const GptParams& params, const Tensor& x,
                const Tensor& out) {
  pass.backend.Run(LinearForward{.x = x,
                                 .weight = HeadWeight(params),
                                 .bias = params.lm_head_bias,
                                 .out = out,
                                 .transposed = true});
}

void HeadForward(const PassContext& pass, const GptParams& params, const HeadActivations& acts,
                 const Tensor& targets) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    ChunkLosses(pass, acts, targets, begin, end, logits);
  });
  pass.Sum(acts.losses);
}

void HeadForwardBackward(const PassContext& pass, const GptParams& params,
                         const HeadActivations& acts, const Tensor& targets, double scale,
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
