#pragma once

#include "folio/model/layers/embedding.h"
#include "folio/model/layers/norm.h"

namespace folio {

// The loss head: logits = logit_scale * norm_f(x) wte^T (or lm_head), capped where the
// configuration says so, losses by cross-entropy. Rows go through in chunks, so that the logits of
// all rows never exist at once.

// Returns true if the head's rows are those of a parameter: its matrix, which may be wte, or bias.
inline bool IsOfHead(const ParamRow& row) {
  return row.kind == ParamKind::kTiedEmbedding || row.module == kHeadName;
}
// The shape of a parameter where rows of the head are padded to a multiple of `multiple`.
inline Shape PaddedShape(const ParamRow& row, int64_t multiple) {
  if (!IsOfHead(row)) return row.shape;
  const int64_t rows = RoundUp(row.shape[0], multiple);
  return row.shape.rank() == 1 ? Shape{rows} : Shape{rows, row.shape[1]};
}

struct HeadParams {
  Tensor lm_head_weight, lm_head_bias;  // (V,C) unless tied to wte; (V)
  // The matrix that makes the logits, lm_head_weight or wte, and the bias, with the rows of zeros
  // behind it where it is padded (ParamTable): (W,C) and (W). In passes of BF16 it may be Low.
  Tensor head, head_bias;

  // Takes a parameter with its padding, if it is one of these.
  void BindHead(const ParamRow& row, const Tensor& padded) {
    if (IsOfHead(row)) (row.kind == ParamKind::kBias ? head_bias : head) = padded;
  }
};

// The head's parameters, and the embeddings, whose matrix is the head's too where it has none.
struct EmbeddingAndHeadParams : EmbeddingParams, HeadParams {};

struct HeadActivations {
  NormActivations norm_f;
  Tensor chunk;                // (R,W), logits of a chunk of rows: scratch
  Mirror logits;               // (R,V), decoding: logits of the last pass
  Mirror losses;               // (N)
  Tensor loss_lse, lse_parts;  // (N); in a shard (count,R), of a chunk
};

template <class Visit, class Params>
void VisitHeadParams(const ParamList<Visit>& list, Params& params) {
  const int64_t V = list.config.vocab_size;
  if (!list.config.tie_word_embeddings) {
    list.Add(kHeadName, "weight", params.lm_head_weight, {V, list.config.n_embd}, ParamKind::kHead,
             InitKind::kWeight, ShardAxis::kRows);
  }
  if (!list.config.lm_head_bias) return;
  list.Add(kHeadName, "bias", params.lm_head_bias, {V}, ParamKind::kBias, InitKind::kZero,
           ShardAxis::kRows);
}

// Rows of logits that the loss head holds at a time, of N rows of V.
int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype = Dtype::kF32,
                      const BackendPreferences& preferences = {});
// The same of a pass.
int64_t LogitRows(const PassShape& pass);
// The dtype of the logits that a pass makes losses of.
inline Dtype LogitDtype(const PassShape& pass) {
  const bool low = pass.training() && pass.options.preferences.low_logits;
  return low ? pass.options.dtype : pass.options.number();
}

// Losses, and the rows that logits are made of, outlive the pass.
template <class Visit>
void VisitHeadBuffers(const BufferList<Visit>& list, HeadActivations& acts) {
  using enum Beyond;
  const PassShape& pass = list.pass;
  const bool decode = pass.kind == PassKind::kDecode;
  const int64_t N = pass.N(), V = pass.V(), W = pass.W();
  VisitNormBuffers(list, {"norm_f", "norm_f.mean", "norm_f.rstd"}, acts.norm_f, list.low(),
                   kResult);
  const int64_t rows = LogitRows(pass), shards = pass.shard().count;
  if (decode) {
    list.Add("logits", acts.logits, list.number(), {rows, V}, kResult);
    if (W != V) list.Add("logits.padded", acts.chunk, list.number(), {rows, W});
    return;
  }
  list.Add("logits", acts.chunk, LogitDtype(pass), {rows, W});
  list.Add("losses", acts.losses, list.number(), {N}, kResult);
  list.Add("losses.lse", acts.loss_lse, list.number(), {N});
  if (shards > 1) list.Add("lse_parts", acts.lse_parts, list.number(), {shards, rows});
}

// The gradient of the logits, where they are not of its dtype.
template <class Visit>
void VisitHeadGradients(const BufferList<Visit>& list, GptGradients& grads) {
  const PassShape& pass = list.pass;
  if (LogitDtype(pass) == list.low()) return;
  list.Add("d_logits", grads.d_logits, list.low(), {LogitRows(pass), pass.W()});
}

// The logits (R,V) of rows x (R,C) of norm_f's result, into `out`. A padded head makes them in
// `padded` (any rows,W), if that is of out's dtype.
void HeadLogits(const PassContext& pass, const EmbeddingAndHeadParams& params, const Tensor& x,
                const Tensor& out, const Tensor& padded = {});

// Fills acts.losses (N), and loss_sum (1) f64 with their sum. With targets (N) i32.
void HeadForward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                 const HeadActivations& acts, const Tensor& targets, const Tensor& loss_sum);

// Fills these too, and goes backward: grads.d_branch gets the gradient of norm_f's result,
// where the total is scale * sum(losses). d_params gets +=. Scratch: grads.d_logits.
void HeadForwardBackward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                         const HeadActivations& acts, const Tensor& targets, double scale,
                         const EmbeddingAndHeadParams& d_params, const GptGradients& grads,
                         const Tensor& loss_sum);

}  // namespace folio
