#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/tensor/memory_plan.h"

// Small models for the tests of this room and of those above it.

namespace folio {

inline GptConfig TinyConfig() {
  return {.vocab_size = 11, .n_positions = 5, .n_embd = 6, .n_layer = 2, .n_head = 2};
}

// That model with adapters for these layers.
inline ParamTable AdaptedTiny(const std::string& targets = "c_attn,c_proj,c_fc") {
  return ParamTable(TinyConfig(), {.rank = 3, .alpha = 5, .targets = targets});
}

// Turns all of nanochat's extras on. REQUIRES: n_embd is 24 or more, and heads are even.
inline void AddNanochatExtras(GptConfig& config) {
  config.position_embedding = PositionKind::kRotary;
  config.embedding_norm = config.smear = config.residual_lambdas = config.value_embeddings =
      config.backout = true;
}

// Fills every parameter with numbers that are far from its first value and from each other, so that
// no term of the model is too small to be seen: weights and biases normal(0, 0.4), LayerNorm
// weights and the factors of the stream around 1. The gaps of the flat array stay zero.
inline void Scatter(const GptWeights& weights, uint64_t seed) {
  uint64_t stream = 0;
  for (const ParamInfo& info : weights.table().params()) {
    const HostEdit edit(weights.table().View(info, weights.flat()));
    const Tensor& x = edit.tensor();
    const CounterRng rng(seed, stream++);
    for (int64_t i = 0; i < x.count(); ++i) {
      const bool around_one = info.init == InitKind::kOne || info.init == InitKind::kResidualFactor;
      const double center = around_one ? 1 : 0;
      const double value = center + 0.4 * rng.Normal(static_cast<uint64_t>(i));
      if (x.dtype() == Dtype::kF64) {
        x.host<double>()[i] = value;
      } else {
        x.host<float>()[i] = static_cast<float>(value);
      }
    }
    edit.Send();
  }
}

inline std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  const CounterRng rng(seed, 99);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(rng.Below(i, static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

template <class T>
std::span<T> Elements(const Tensor& x) {
  return {x.host<T>(), static_cast<size_t>(x.count())};
}

template <class T>
std::vector<T> Copied(const Tensor& x) {
  const HostCopy copy(x);
  return {copy.elements<T>().begin(), copy.elements<T>().end()};
}

}  // namespace folio
