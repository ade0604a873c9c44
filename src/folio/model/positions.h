#pragma once

#include "folio/tensor/tensor.h"

namespace folio {

// The fixed table of A. Vaswani et al., arXiv:1706.03762: out[p, 2i] = sin(p / 10000^(2i/C)) and
// out[p, 2i+1] = cos of the same angle. out is (P,C), float32 or float64; C is even.
void FillSinusoids(const Tensor& out);

}  // namespace folio
