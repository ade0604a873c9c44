#include "folio/model/layers/positions.h"

#include <cmath>

namespace folio {

void FillSinusoids(const Tensor& out) {
  const int64_t P = out.dim(0), C = out.dim(1);
  FOLIO_CHECK(C % 2 == 0, "sines and cosines come in pairs");
  const auto set = [&](int64_t index, double value) {
    if (out.dtype() == Dtype::kF64) {
      out.data<double>()[index] = value;
    } else {
      out.data<float>()[index] = static_cast<float>(value);
    }
  };
  for (int64_t p = 0; p < P; ++p) {
    for (int64_t c = 0; c < C; c += 2) {
      const double angle = static_cast<double>(p) /
                           std::pow(10000.0, static_cast<double>(c) / static_cast<double>(C));
      set(p * C + c, std::sin(angle));
      set(p * C + c + 1, std::cos(angle));
    }
  }
}

}  // namespace folio
