#pragma once

#include <chrono>

namespace folio {

// Seconds since an arbitrary time, never decreasing: for measuring durations.
inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970 by the machine's clock: for timestamps.
inline double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the seconds that run() takes.
template <class F>
double SecondsOf(F&& run) {
  const double begin = SteadySeconds();
  run();
  return SteadySeconds() - begin;
}

}  // namespace folio
