#pragma once

#include <array>
#include <vector>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

// Rotary positions: J. Su et al., arXiv:2104.09864. Pairs (x_i, x_{i+r/2}) of the first r numbers
// of each head of queries and keys are turned by an angle: the position times a frequency of the
// pair.

// The frequencies (r/2), in float32 as other programs have them, and what cosines and sines are
// multiplied with.
struct RotaryFrequencies {
  std::vector<float> inverse = {};
  double attention_factor = 1;
};

// Table 0 is that of all layers but those of a window where these have a base of their own: 1.
RotaryFrequencies RotaryFrequenciesOf(const GptConfig& config, size_t table);

struct RotaryTable {
  Tensor frequencies;  // (r/2) f32
  Tensor angles;       // (N,r): cosines of a row's position, sines
};
using RotaryTables = std::array<RotaryTable, 2>;  // empty where no layer has such

template <class Visit>
void VisitRotaryBuffers(const BufferList<Visit>& list, RotaryTables& tables) {
  const GptConfig& config = list.pass.config;
  if (!config.rotary()) return;
  const int64_t r = config.rotary_width(), N = list.pass.N();
  const auto add = [&](std::string_view frequencies, std::string_view angles, RotaryTable& table) {
    list.Add(frequencies, table.frequencies, Dtype::kF32, {r / 2}, Beyond::kInput);
    list.Add(angles, table.angles, list.number(), {N, r});
  };
  add("rotary.frequencies", "rotary.angles", tables[0]);
  if (!config.rope_window_theta) return;
  add("rotary.window_frequencies", "rotary.window_angles", tables[1]);
}

// Fills the frequencies: once, since they stay.
void FillRotaryFrequencies(const GptConfig& config, const RotaryTables& tables);

// Fills the angles of the rows of a pass, for all layers.
void FillRotaryAngles(const PassContext& pass, const RotaryTables& tables);

// Turns heads of queries or keys of a layer in place; `back` turns their gradients.
void TurnHeads(const PassContext& pass, int64_t layer, const SequenceView& heads,
               bool back = false);

}  // namespace folio
