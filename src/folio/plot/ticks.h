#pragma once

#include <string>
#include <vector>

namespace folio {

struct Tick {
  double value;
  std::string label;
};

// The multiples of 1, 2 or 5 times a power of ten in [low, high], at most about `count` of them.
// REQUIRES: low < high, both below 1e301 in size, count >= 1.
std::vector<Tick> LinearTicks(double low, double high, int count);

// Powers of ten in [low, high], thinned to about `count`; with 2 and 5 times them over less than
// two decades, and linear ticks where even those are fewer than two. REQUIRES: 0 < low < high.
std::vector<Tick> LogTicks(double low, double high, int count);

}  // namespace folio
