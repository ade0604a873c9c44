#pragma once

#include <vector>

#include "folio/backend/operands.h"

namespace folio {

// The numbers of a tensor or a SequenceView, in row-major order, whatever the dtype.
template <class View>
std::vector<double> Values(const View& x) {
  return Operand{.name = {}, .access = Access::kRead, .view = x}.Elements();
}

// The backward of a forward that was run, without the gradients.
inline AttentionBackward BackwardOf(const AttentionForward& forward) {
  AttentionBackward op;
  op.q = forward.q;
  op.k = forward.k;
  op.v = forward.v;
  op.key_mask = forward.key_mask;
  op.mask = forward.mask;
  op.out = forward.out;
  op.lse = forward.lse;
  op.H = forward.H;
  op.G = forward.G;
  op.scale = forward.scale;
  op.causal = forward.causal;
  op.dropout = forward.dropout;
  return op;
}

}  // namespace folio
