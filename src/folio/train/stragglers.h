#pragma once

#include <cstdint>
#include <vector>

namespace folio {

// Looks for ranks that hold the others up: those that compute for longer than a fifth more than the
// median of all, so many steps in a row.
class Stragglers {
 public:
  static constexpr int64_t kSteps = 20;
  static constexpr double kSlow = 1.2;

  // Takes the seconds of each rank for a step. Returns those that became stragglers with this one.
  std::vector<int> Add(const std::vector<double>& seconds);

 private:
  std::vector<int64_t> slow_;  // steps in a row, by rank
};

}  // namespace folio
