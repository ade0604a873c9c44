#pragma once

#include <array>
#include <vector>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

// Rotary positions: J. Su et al., arXiv:2104.09864. Pairs (x_i, x_{i+r/2}) of the first r numbers
// of each head of queries and keys are turned by an angle: the position times a frequency of the
// pair.

// The frequencies (r/2) and what cosines and sines are multiplied with, both in float32 as other
// programs have them.
struct RotaryFrequencies {
  std::vector<float> inverse = {};
  float attention_factor = 1;
};

// Scaled as rope_scaling says; LongRoPE: Y. Ding et al., arXiv:2402.13753. Table 0 is that of all
// layers but those of a window where these have a base of their own: 1.
RotaryFrequencies RotaryFrequenciesOf(const GptConfig& config, size_t table);

// Returns the divisors of the frequencies (r/2) for rope_scaling = llama3.
std::vector<float> Llama3Divisors(const GptConfig& config);

struct RotaryTable {
  RotaryFrequencies frequencies = {};
  Tensor angles =
      {};  // of a row's position, cosines and sines: (T,r), or (N,r) where rows have such
};
using RotaryTables = std::array<RotaryTable, 2>;  // empty where no layer has such

template <class Visit>
void VisitRotaryBuffers(const BufferList<Visit>& list, RotaryTables& tables) {
  const PassShape& pass = list.pass;
  if (!pass.config.rotary()) return;
  const Shape shape = {pass.options.packed ? pass.N() : pass.T, pass.config.rotary_width()};
  list.Add("rotary", tables[0].angles, list.number(), shape);
  if (pass.config.rope_window_theta > 0) {
    list.Add("rotary.window", tables[1].angles, list.number(), shape);
  }
}

// Fills the frequencies, which are the same for every pass.
void FillRotaryFrequencies(const GptConfig& config, RotaryTables& tables);

// Fills the angles of the rows of a pass, for all layers.
void FillRotaryAngles(const PassContext& pass, const RotaryTables& tables);

// Turns heads of a layer's queries and keys in place, and their gradients `back`.
void TurnHeads(const PassContext& pass, int64_t layer, const SequenceView& heads,
               bool back = false);

}  // namespace folio
