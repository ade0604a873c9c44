#include "folio/base/clock.h"

#include <chrono>

namespace folio {

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace folio
