#pragma once

namespace folio {

// Gradient clipping by norm: R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.

// What a gradient of this norm is multiplied with so that its norm is at most `max_norm`; 1 for
// max_norm 0.
double ClipScale(double norm, double max_norm);

}  // namespace folio
