#include "folio/train/stragglers.h"

#include <cstddef>

#include "folio/base/percentile.h"

namespace folio {

std::vector<int> Stragglers::Add(const std::vector<double>& seconds) {
  slow_.resize(seconds.size());
  const double median = Median(seconds);
  std::vector<int> found;
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    slow_[rank] = seconds[rank] > kSlow * median ? slow_[rank] + 1 : 0;
    if (slow_[rank] == kSteps) found.push_back(static_cast<int>(rank));
  }
  return found;
}

}  // namespace folio
