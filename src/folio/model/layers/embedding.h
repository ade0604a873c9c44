#pragma once

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

// Positions of tokens: a learned table, or the fixed one of A. Vaswani et al., arXiv:1706.03762.

struct PositionParams {
  Tensor wpe;  // (P,C), empty unless positions are learned
};

template <class Visit, class Params>
void VisitPositionParams(const ParamList<Visit>& list, Params& params) {
  const GptConfig& config = list.config;
  if (!config.learned_positions()) return;
  list.Add("wpe", "weight", params.wpe, {config.n_positions, config.n_embd}, ParamKind::kEmbedding,
           config.init_zero_positions ? InitKind::kZero : InitKind::kWeight);
}

template <class Visit>
void VisitPositionBuffers(const BufferList<Visit>& list, Tensor& sinusoids) {
  const GptConfig& config = list.pass.config;
  if (config.position_embedding != "sinusoidal") return;
  list.Add("sinusoids", sinusoids, list.number(), {config.n_positions, config.n_embd},
           Beyond::kInput);
}

// The fixed table: out[p, 2i] = sin(p / 10000^(2i/C)) and out[p, 2i+1] = cos of the same angle. out
// is (P,C), float32 or float64; C is even.
void FillSinusoids(const Tensor& out);

// Embeddings: the rows of tokens in wte and those of their positions, times embedding_scale.

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
