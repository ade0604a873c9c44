#pragma once

namespace folio {

// While it lives, Threads() (base/thread_pool.h) stays what it is on this thread, whoever else sets
// another number: memory of a call that is cut by threads fits to the end.
class SteadyThreads {
 public:
  SteadyThreads();
  ~SteadyThreads();
  SteadyThreads(const SteadyThreads&) = delete;
  SteadyThreads& operator=(const SteadyThreads&) = delete;

 private:
  const int outer_;
};

}  // namespace folio
