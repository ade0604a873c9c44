#pragma once

#include <cstdint>

namespace folio {

// Speed of repeated work and the time that is left. Units and seconds are averaged exponentially
// with the same weights, so their ratio needs no correction for the start; the first `warm_up`
// samples (caches and threads not yet ready) are left out.
class RateMeter {
 public:
  explicit RateMeter(int64_t warm_up = 1, double decay = 0.95) : warm_up_(warm_up), decay_(decay) {}

  // One sample: `units` of work took `seconds`.
  void Add(double units, double seconds);

  bool known() const { return seconds_ > 0; }
  double rate() const { return known() ? units_ / seconds_ : 0; }  // units per second
  // Seconds that `units` more will take, or NaN while the rate is not known.
  double Eta(double units) const;

 private:
  int64_t warm_up_;
  double decay_;
  double units_ = 0;
  double seconds_ = 0;
};

}  // namespace folio
