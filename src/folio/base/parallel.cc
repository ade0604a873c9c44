#include "folio/base/parallel.h"

#include <omp.h>

#include <atomic>

#include "folio/base/check.h"

namespace folio {
namespace {

std::atomic<int>& ThreadCount() {
  static std::atomic<int> threads = std::max(1, omp_get_num_procs());
  return threads;
}

thread_local int t_thread = 0;  // number of the calling thread within the enclosing ParallelFor

}  // namespace

int Threads() {
  return ThreadCount();
}

void SetThreads(int threads) {
  FOLIO_CHECK(threads >= 1, "at least one thread");
  ThreadCount() = threads;
}

namespace internal {

void ParallelTasks(int64_t tasks, void (*run)(void* context, int64_t task, int thread),
                   void* context) {
  const int threads = static_cast<int>(std::min<int64_t>(Threads(), tasks));
  // Libraries that use OpenMP themselves must not split a task again: their sums would then depend
  // on the number of threads.
  const int outside = omp_get_max_threads();
  omp_set_num_threads(1);
  if (threads <= 1 || omp_in_parallel()) {
    for (int64_t task = 0; task < tasks; ++task) run(context, task, t_thread);
  } else {
#pragma omp parallel num_threads(threads)
    {
      t_thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < tasks; ++task) run(context, task, t_thread);
      t_thread = 0;
    }
  }
  omp_set_num_threads(outside);
}

}  // namespace internal
}  // namespace folio
