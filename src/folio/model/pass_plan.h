#pragma once

#include <algorithm>
#include <span>

#include "folio/model/activations.h"
#include "folio/model/positions.h"

namespace folio {

// All that a pass over (B,T) tokens holds, planned together.
struct PassPlan {
  PassPlan(const GptConfig& config, int64_t B, int64_t T, PassKind kind, const PassOptions& options)
      : ids(memory.Add("ids", Dtype::kI32, {B, T})),
        targets(memory.Add("targets", Dtype::kI32, {B * T})),
        sinusoids(config.learned_positions() ? -1
                                             : memory.Add("sinusoids", options.number(),
                                                          {config.n_positions, config.n_embd})),
        activations(config, B, T, kind, options, memory) {
    memory.Place();
  }

  // The filled table of sinusoids, or an empty tensor for learned positions.
  Tensor Sinusoids(const Arena& arena) const {
    if (sinusoids < 0) return {};
    const Tensor table = arena.Get(memory, sinusoids);
    FillSinusoids(table);
    return table;
  }

  MemoryPlan memory;
  MemoryPlan::Id ids, targets, sinusoids;
  ActivationPlan activations;
};

// Copies tokens to a i32 tensor of as many elements. REQUIRES: each in [lowest, V).
inline void CopyTokens(std::span<const int32_t> from, const Tensor& to, int32_t lowest, int64_t V) {
  FOLIO_CHECK(static_cast<int64_t>(from.size()) == to.count(), "another number of tokens");
  for (int32_t id : from) FOLIO_CHECK(lowest <= id && id < V, "token outside the vocabulary");
  std::copy(from.begin(), from.end(), to.data<int32_t>());
}

}  // namespace folio
