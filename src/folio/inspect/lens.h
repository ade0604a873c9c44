#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/token_probabilities.h"
#include "folio/inspect/token_names.h"
#include "folio/inspect/trace.h"

namespace folio {

// The prediction from one position's stream if the model ended there.
struct LensCell {
  int64_t layer = 0;  // number of blocks before; 0 is the embedding
  int64_t position = 0;
  std::vector<TokenProbability> top = {};  // likeliest first
  double entropy = 0;                      // nats
  double kl = 0;           // nats, from this prediction to the final one: KL(final || this)
  int64_t final_rank = 0;  // rank here of the final prediction's first token; 0 is first
};

// The logit lens (nostalgebraist, "interpreting GPT: the logit lens", 2020): every position in
// `positions`, each in [0,T), through ln_f and the head after each of 0..L blocks. L+1 cells per
// position, positions outermost. `on_progress`, if any, is called with the number of positions done
// after each few of them, and may throw to stop.
// REQUIRES: the trace has kEmbedded and kOutput.
std::vector<LensCell> LogitLens(const Trace& trace, std::span<const int64_t> positions, int64_t top,
                                const std::function<void(int64_t done)>& on_progress = {});

// The logit lens on some positions of a text.
struct LensView {
  ModelText text;
  std::vector<int64_t> positions;  // one or more, distinct
  int64_t layers = 0;              // L + 1
  std::vector<LensCell> cells;     // as from LogitLens: positions outermost

  const LensCell& Cell(size_t position, int64_t layer) const {
    return cells[position * static_cast<size_t>(layers) + static_cast<size_t>(layer)];
  }
  // "·cat", the token at the position; the second returns the one that follows it in the text: ""
  // behind the last token.
  std::string Token(size_t position, const TokenNames& names) const {
    return names.Shown(text.ids[static_cast<size_t>(positions[position])]);
  }
  std::string Next(size_t position, const TokenNames& names) const {
    const auto next = static_cast<size_t>(positions[position] + 1);
    return next < text.ids.size() ? names.Shown(text.ids[next]) : "";
  }
};

}  // namespace folio
