#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"

namespace folio {

// The three products of a layer (N rows, weight (I,O)) in training, each 2 N I O multiplications
// and additions.
enum class MatmulKind {
  kForward,         // x W
  kInputGradient,   // d_out W^T
  kWeightGradient,  // x^T d_out, added to d_W
};
inline constexpr MatmulKind kMatmulKinds[] = {MatmulKind::kForward, MatmulKind::kInputGradient,
                                              MatmulKind::kWeightGradient};
std::string_view MatmulKindName(MatmulKind kind);  // "x W"

struct MatmulShape {
  int64_t N = 0, I = 0, O = 0;
};

// One product. The weight is float32 whatever the dtype is: that of x, d_out, out and d_x.
struct Matmul {
  MatmulShape shape;
  MatmulKind kind = MatmulKind::kForward;
  Dtype dtype = Dtype::kF32;

  double flops() const;
};

struct MatmulRate {
  Matmul product;          // with fewer rows than asked for on a slow backend
  double seconds = 0;      // median of the runs
  double seconds_min = 0;  // the fastest of them

  double flops_per_second() const { return product.flops() / seconds; }
};

// The layers of GPT-2 (124M) with 1024 rows, and its loss head with a chunk of 256.
std::span<const MatmulShape> Gpt2Matmuls();
// The products of a model of characters: C=128 with 12 x 64 rows, V=65, and one row alone.
std::span<const MatmulShape> SmallMatmuls();

// All three kinds of the products in all `dtypes`. Those of one shape take turns, run by run, so
// that whatever else the machine does meets all of them: at least three rounds, and until each has
// run for `seconds` on average.
std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds);

// The highest rate among those of this dtype.
double PeakOf(Dtype dtype, std::span<const MatmulRate> rates);

// The product peak of the machine as share and estimates mean it: the highest rate (median of its
// runs) over forward products that grow as long as they fit into `seconds`; the first,
// a small one, always does.
double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds);

}  // namespace folio
