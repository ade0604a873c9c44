#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace folio {

// Number of threads that ParallelFor uses. Initially the number of physical cores that this process
// may use (base/machine.h).
int Threads();
// Throws a kUsage Error unless threads is in [1, kMaxThreads]. Must not be called while a
// ParallelFor runs.
void SetThreads(int threads);
inline constexpr int kMaxThreads = 4096;

namespace internal {
void ParallelTasks(int64_t tasks, void (*run)(void* context, int64_t task, int thread),
                   void* context);
}  // namespace internal

// Calls f(task, thread) once for each task in [0, tasks), on up to Threads() threads, and returns
// when all are done; thread is in [0, Threads()). Tasks must be independent: which thread runs
// which is not fixed, so results stay the same only if work is divided by size and never by thread.
// But each thread begins with its own part of the tasks, in order, so that calls with as many tasks
// over the same data find it in the same caches. REQUIRES: tasks < 2^32. Inside another ParallelFor
// the tasks run one after the other on the calling thread, with its number; while another user
// thread is in a ParallelFor they do the same as thread 0. If f throws, one of its exceptions is
// thrown here after all tasks have ended. Throws Error if the system refuses the threads, which the
// first call starts; nothing has run then.
template <class F>
void ParallelFor(int64_t tasks, F&& f) {
  internal::ParallelTasks(
      tasks,
      [](void* context, int64_t task, int thread) {
        (*static_cast<std::remove_reference_t<F>*>(context))(task, thread);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

inline constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Divides [0, n) into pieces of `grain` (the last may be shorter) and calls f(begin, end, thread).
template <class F>
void ParallelRange(int64_t n, int64_t grain, F&& f) {
  ParallelFor(CeilDiv(n, grain), [&](int64_t task, int thread) {
    f(task * grain, std::min(n, (task + 1) * grain), thread);
  });
}

}  // namespace folio
