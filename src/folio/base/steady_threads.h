#pragma once

namespace folio {

// While it exists, Threads() (base/thread_pool.h) is constant on this thread, even if others set
// another number: memory that a call has divided by threads stays valid.
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
