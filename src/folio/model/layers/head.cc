#include "folio/model/layers/head.h"

#include <algorithm>

#include "folio/model/tensor_parallel_group.h"

namespace folio {
namespace {

// Calls chunk(begin, end, logits) for the rows in order; logits (end - begin, W) is filled.
template <class Chunk>
void ForEachChunk(const PassContext& pass, const EmbeddingAndHeadParams& params,
                  const HeadActivations& acts, Chunk&& chunk) {
  const int64_t N = pass.N(), rows = acts.chunk.dim(0);
  for (int64_t begin = 0; begin < N; begin += rows) {
    const int64_t end = std::min(N, begin + rows);
    const Tensor logits = acts.chunk.First({end - begin, params.head.dim(0)});
    HeadLogits(pass, params, acts.norm_f.out.Slice(begin, end), logits);
    chunk(begin, end, logits);
  }
}

// Tokens that this shard has.
int64_t VocabularyOf(const PassContext& pass) {
  return pass.shard.Size(pass.config.vocab_size);
}

// The losses of rows of logits, and the gradient too unless it is empty.
CrossEntropy LossesOf(const PassContext& pass, const HeadActivations& acts, const Tensor& targets,
                      int64_t begin, int64_t end, const Tensor& logits) {
  return {.logits = logits,
          .targets = targets.Slice(begin, end),
          .losses = acts.losses.device.Slice(begin, end),
          .lse = acts.loss_lse.Slice(begin, end),
          .V = VocabularyOf(pass)};
}

// Runs it, and makes losses and lse those of all shards.
void RunLosses(const PassContext& pass, const HeadActivations& acts, const CrossEntropy& op) {
  pass.backend.Run(op);
  if (pass.shard.whole()) return;
  pass.group->JoinLosses(pass.shard, op.targets, acts.lse_parts, op.lse, op.losses);
}

void SumLosses(const PassContext& pass, const HeadActivations& acts, const Tensor& sum) {
  pass.Sum(acts.losses.device);
  pass.backend.Run(SumOfElements{.x = acts.losses.device, .out = sum});
}

void Logits(const PassContext& pass, const EmbeddingAndHeadParams& params, const Tensor& x,
            const Tensor& out) {
  const Shape weight = {out.dim(1), params.head.dim(1)};
  const Tensor& bias = params.head_bias;
  pass.backend.Run(LinearForward{.x = x,
                                 .weight = params.head.First(weight),
                                 .bias = bias ? bias.First({out.dim(1)}) : bias,
                                 .out = out,
                                 .transposed = true});
}

}  // namespace

int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype, const BackendPreferences& preferences) {
  const int64_t least = dtype == Dtype::kBF16 ? preferences.loss_rows_bf16 : preferences.loss_rows;
  return std::min(N, std::max(least, preferences.loss_logits / V / 64 * 64));
}

int64_t LogitRows(const PassShape& pass) {
  const int64_t N = pass.N(), shards = pass.shard().count;
  if (pass.kind == PassKind::kDecode) return std::min(N, LinearForward::kFewRows);
  const int64_t V = (pass.config.vocab_size + shards - 1) / shards;  // the most of a shard
  return LossChunkRows(N, V, pass.options.dtype, pass.options.preferences);
}

void HeadLogits(const PassContext& pass, const EmbeddingAndHeadParams& params, const Tensor& x,
                const Tensor& out, const Tensor& padded) {
  const int64_t W = params.head.dim(0), V = out.dim(1), R = out.dim(0);
  if (V == W || !padded || padded.dtype() != out.dtype()) {
    Logits(pass, params, x, out);
  } else {
    const int64_t rows = padded.dim(0);
    for (int64_t begin = 0, end = 0; begin < R; begin = end) {
      end = std::min(R, begin + rows);
      const Tensor wide = padded.First({end - begin, W});
      Logits(pass, params, x.Slice(begin, end), wide);
      pass.backend.Run(
          CopyColumns{.x = SequenceView(wide, 1, end - begin, 0, V),
                      .out = SequenceView(out.Slice(begin, end), 1, end - begin, 0, V)});
    }
  }
  const double scale = pass.config.logit_scale, cap = pass.config.logit_cap;
  if (scale != 1) pass.backend.Run(Scale{.x = out, .factor = scale});
  if (cap > 0) pass.backend.Run(LogitCap{.x = out, .cap = cap});
}

void HeadForward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                 const HeadActivations& acts, const Tensor& targets, const Tensor& loss_sum) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    RunLosses(pass, acts, LossesOf(pass, acts, targets, begin, end, logits));
  });
  SumLosses(pass, acts, loss_sum);
}

void HeadForwardBackward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                         const HeadActivations& acts, const Tensor& targets, double scale,
                         const EmbeddingAndHeadParams& d_params, const GptGradients& grads,
                         const Tensor& loss_sum) {
  ForEachChunk(pass, params, acts, [&](int64_t begin, int64_t end, const Tensor& logits) {
    CrossEntropy losses = LossesOf(pass, acts, targets, begin, end, logits);
    const Tensor d_logits = grads.d_logits.First(logits.shape());
    losses.scale = scale * pass.config.logit_scale;
    losses.cap = pass.config.logit_cap;
    if (pass.shard.whole()) losses.d_logits = d_logits;
    RunLosses(pass, acts, losses);
    if (!pass.shard.whole()) {
      // The gradient of a part of the vocabulary needs the sum over all parts.
      pass.backend.Run(CrossEntropyBackward{.logits = logits,
                                            .targets = losses.targets,
                                            .lse = losses.lse,
                                            .d_logits = d_logits,
                                            .V = losses.V,
                                            .scale = losses.scale,
                                            .cap = losses.cap});
    }
    pass.backend.Run(LinearBackward{.x = acts.norm_f.out.Slice(begin, end),
                                    .weight = params.head,
                                    .d_out = d_logits,
                                    .d_x = grads.d_branch.Slice(begin, end),
                                    .d_weight = d_params.head,
                                    .d_bias = d_params.head_bias,
                                    .transposed = true,
                                    .accumulate_d_weight = pass.accumulate || begin > 0});
  });
  SumLosses(pass, acts, loss_sum);
  pass.Sum(grads.d_branch);
}

}  // namespace folio
