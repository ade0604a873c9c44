#pragma once

namespace folio {

// Gradient clipping by norm: R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.

// The factor of a gradient of this norm that makes its norm `max_norm` at most; 1 for max_norm 0.
double ClipScale(double norm, double max_norm);

}  // namespace folio
