#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/backend/backend.h"

namespace folio {

// One float32 matrix product: x (N,I) times weight (I,O).
struct MatmulShape {
  int64_t N = 0, I = 0, O = 0;
};

struct MatmulRate {
  MatmulShape shape;
  double seconds = 0;           // median of the runs
  double flops_per_second = 0;  // 2 N I O multiplications and additions in that time
};

// The large products that a machine is judged by.
std::span<const MatmulShape> LargeMatmuls();

// Runs the product again and again on the same operands, for at least `seconds` and three times
// after a first run that does not count; a backend so slow that a run would take a second gets
// fewer rows.
MatmulRate MeasureMatmul(Backend& backend, MatmulShape shape, double seconds = 0.3);

// The highest rate over LargeMatmuls.
double MeasureMatmulPeak(Backend& backend);

}  // namespace folio
