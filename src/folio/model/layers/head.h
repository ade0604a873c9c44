#pragma once

#include "folio/model/layers/embedding.h"
#include "folio/model/layers/norm.h"

namespace folio {

// The loss head: logits = logit_scale * norm_f(x) wte^T (or lm_head), capped where the
// configuration says so, losses by cross-entropy. Rows go through in chunks, so that the logits of
// all rows never exist at once.

struct HeadParams {
  Tensor lm_head_weight, lm_head_bias;  // (V,C) unless tied to wte; (V)
};

// The head's parameters, and the embeddings, whose matrix is the head's too where it has none.
struct EmbeddingAndHeadParams : EmbeddingParams, HeadParams {};

struct HeadActivations {
  NormActivations norm_f;
  Mirror logits;               // (R,V), rows of one chunk
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
int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype = Dtype::kF32);
// The same of a pass.
int64_t LogitRows(const PassShape& pass);

// Losses, and the rows that logits are made of, outlive the pass.
template <class Visit>
void VisitHeadBuffers(const BufferList<Visit>& list, HeadActivations& acts) {
  using enum Beyond;
  const PassShape& pass = list.pass;
  const bool decode = pass.kind == PassKind::kDecode;
  const int64_t N = pass.N(), V = pass.shard().Size(pass.config.vocab_size);
  VisitNormBuffers(list, {"norm_f", "norm_f.mean", "norm_f.rstd"}, acts.norm_f, list.low(),
                   kResult);
  const int64_t rows = LogitRows(pass), shards = pass.shard().count;
  list.Add("logits", acts.logits, list.number(), {rows, V}, decode ? kResult : kNothing);
  if (decode) return;
  list.Add("losses", acts.losses, list.number(), {N}, kResult);
  list.Add("losses.lse", acts.loss_lse, list.number(), {N});
  if (shards > 1) list.Add("lse_parts", acts.lse_parts, list.number(), {shards, rows});
}

// The gradient of the logits, where they are not of its dtype.
template <class Visit>
void VisitHeadGradients(const BufferList<Visit>& list, GptGradients& grads) {
  if (list.low() == list.number()) return;
  const PassShape& pass = list.pass;
  list.Add("d_logits", grads.d_logits, list.low(),
           {LogitRows(pass), pass.shard().Size(pass.config.vocab_size)});
}

// The logits (R,V) of rows x (R,C) of norm_f's result, into `out`.
void HeadLogits(const PassContext& pass, const EmbeddingAndHeadParams& params, const Tensor& x,
                const Tensor& out);

// Fills acts.losses (N). With targets (N) i32.
void HeadForward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                 const HeadActivations& acts, const Tensor& targets);

// Fills acts.losses too, and goes backward: grads.d_branch gets the gradient of norm_f's result,
// where the total is scale * sum(losses). d_params gets +=. Scratch: grads.d_logits.
void HeadForwardBackward(const PassContext& pass, const EmbeddingAndHeadParams& params,
                         const HeadActivations& acts, const Tensor& targets, double scale,
                         const EmbeddingAndHeadParams& d_params, const GptGradients& grads);

}  // namespace folio
