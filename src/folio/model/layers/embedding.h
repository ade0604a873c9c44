#pragma once

#include "folio/model/context.h"
#include "folio/model/layers/positions.h"

namespace folio {

// Embeddings: the rows of tokens in wte, and those of their positions.

struct EmbeddingParams : PositionParams {
  Tensor wte;  // (V,C)
};

template <class Visit, class Params>
void VisitEmbeddingParams(const ParamList<Visit>& list, Params& params) {
  const GptConfig& config = list.config;
  list.Add("wte", "weight", params.wte, {config.vocab_size, config.n_embd},
           config.tie_word_embeddings ? ParamKind::kTiedEmbedding : ParamKind::kEmbedding,
           InitKind::kWeight, ShardAxis::kRows);
  VisitPositionParams(list, params);
}

// ids are (B,T) i32, `sinusoids` empty for learned positions; out is (N,C).
void EmbedForward(const PassContext& pass, const EmbeddingParams& params, const Tensor& ids,
                  const Tensor& sinusoids, const Tensor& out);

// d_out (N,C) is the gradient of out, and is dropped from in place.
void EmbedBackward(const PassContext& pass, const Tensor& ids, const Tensor& d_out,
                   const EmbeddingParams& d_params);

}  // namespace folio
