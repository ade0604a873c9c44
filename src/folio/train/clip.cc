#include "folio/train/clip.h"

namespace folio {

double ClipScale(double norm, double max_norm) {
  constexpr double kTiny = 1e-6;  // keeps the quotient below 1 when norm is just above max_norm
  return max_norm > 0 && norm > max_norm ? max_norm / (norm + kTiny) : 1.0;
}

}  // namespace folio
