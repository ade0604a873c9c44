#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/inspect/token_scores.h"
#include "folio/inspect/trace.h"

namespace folio {

// What one position's stream would predict if the model ended there.
struct LensCell {
  int64_t layer = 0;  // blocks gone through; 0 is the embedding
  int64_t position = 0;
  std::vector<TokenProbability> top = {};  // likeliest first
  double entropy = 0;                      // nats
  double kl = 0;           // nats, of the final prediction from this one: KL(final || this)
  int64_t final_rank = 0;  // place of the final prediction's first token here; 0 is first
};

// The logit lens (nostalgebraist, "interpreting GPT: the logit lens", 2020): every position in
// `positions`, each in [0,T), through ln_f and the head after each of 0..L blocks. L+1 cells per
// position, positions outermost. REQUIRES: the trace has kEmbedded and kOutput.
std::vector<LensCell> LogitLens(const Trace& trace, std::span<const int64_t> positions,
                                int64_t top);

}  // namespace folio
