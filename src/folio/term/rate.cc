#include "folio/term/rate.h"

#include <limits>

namespace folio {

void RateMeter::Add(double units, double seconds) {
  if (warm_up_ > 0) {
    --warm_up_;
    return;
  }
  units_ = decay_ * units_ + (1 - decay_) * units;
  seconds_ = decay_ * seconds_ + (1 - decay_) * seconds;
}

double RateMeter::Eta(double units) const {
  return rate() > 0 ? units / rate() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace folio
