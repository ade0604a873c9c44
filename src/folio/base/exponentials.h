#pragma once

#include <cstddef>

namespace folio {

// x[i] = e^x[i] for i in [0, n), within one unit in the last place; the last bit depends on the
// instruction set. REQUIRES: no NaN.
void Exponentials(double* x, size_t n);

}  // namespace folio
