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
void VisitPositionBuffers(const BufferList<Visit>& list, Mirror& sinusoids) {
  const GptConfig& config = list.pass.config;
  if (config.position_embedding != PositionKind::kSinusoidal) return;
  list.Add("sinusoids", sinusoids, list.number(), {config.n_positions, config.n_embd},
           Beyond::kInput);
}

// The fixed table: out[p, 2i] = sin(p / 10000^(2i/C)) and out[p, 2i+1] = cos of the same angle. out
// is (P,C), float32 or float64, the host's; C is even.
void FillSinusoids(const Tensor& out);

// Embeddings: the rows of tokens in wte and those of their positions, times embedding_scale, which
// may be normed, and smeared: to each is added that of the token before (modded-nanogpt, record
// 34).
//   e = norm(wte[token]);  result e + factor * sigmoid(gate e[:24]) * e of the token before

struct EmbeddingParams : PositionParams {
  Tensor wte;                       // (V,C)
  Tensor smear_gate, smear_lambda;  // (1,24) and (1)
};

// The activations that the backward of a norm of embeddings reads; empty without such a norm.
struct LookupActivations {
  Tensor raw, rstd;  // (N,C), (N)
};

struct EmbeddingActivations {
  Tensor embedded;                             // (N,C), what the first block sees
  Tensor tokens, previous;                     // (N,C), smear: of the token and of the one before
  LookupActivations tokens_raw, previous_raw;  // inputs of the norms that made these, or `embedded`
};

template <class Visit, class Params>
void VisitEmbeddingParams(const ParamList<Visit>& list, Params& params) {
  const GptConfig& config = list.config;
  list.Add("wte", "weight", params.wte, {config.vocab_size, config.n_embd},
           config.tie_word_embeddings ? ParamKind::kTiedEmbedding : ParamKind::kEmbedding,
           InitKind::kWeight, ShardAxis::kRows);
  VisitPositionParams(list, params);
  if (!config.smear) return;
  list.Add("smear_gate", "weight", params.smear_gate, {1, kSmearChannels}, ParamKind::kElementwise,
           InitKind::kGate);
  list.Add("smear_lambda", "weight", params.smear_lambda, {1}, ParamKind::kElementwise,
           InitKind::kZero);
}

template <class Visit>
void VisitEmbeddingBuffers(const BufferList<Visit>& list, EmbeddingActivations& acts) {
  const GptConfig& config = list.pass.config;
  const Shape rows = {list.pass.N(), config.n_embd};
  const auto add = [&](std::string_view raw, std::string_view rstd, LookupActivations& lookup) {
    if (!config.embedding_norm) return;
    list.Add(raw, lookup.raw, list.number(), rows);
    list.Add(rstd, lookup.rstd, list.number(), {list.pass.N()});
  };
  add("embedded.raw", "embedded.rstd", acts.tokens_raw);
  if (config.smear) {
    list.Add("embedded.token", acts.tokens, list.number(), rows);
    add("previous.raw", "previous.rstd", acts.previous_raw);
    list.Add("previous.token", acts.previous, list.number(), rows);
  }
  list.Add("embedded", acts.embedded, list.number(), rows);
}

template <class Visit>
void VisitEmbeddingGradients(const BufferList<Visit>& list, GptGradients& grads) {
  if (!list.pass.config.smear) return;
  list.Add("d_previous", grads.d_previous, list.number(), {list.pass.N(), list.pass.config.n_embd});
}

// Tokens of the rows of a pass, pass.ids, are (B,T) i32; `previous` are those before them,
// kElsewhere where a text begins, and empty without smear; so are `sinusoids` for learned
// positions.
void EmbedForward(const PassContext& pass, const EmbeddingParams& params, const Tensor& previous,
                  const Tensor& sinusoids, const EmbeddingActivations& acts);

// grads.d_stream (N,C) is the gradient of acts.embedded, and is overwritten.
void EmbedBackward(const PassContext& pass, const EmbeddingParams& params, const Tensor& previous,
                   const EmbeddingActivations& acts, const EmbeddingParams& d_params,
                   const GptGradients& grads);

}  // namespace folio
