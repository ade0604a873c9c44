// Two tasks write one number without synchronisation, which ThreadSanitizer must report, through
// the thread pool.
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "folio/base/thread_pool.h"

int main() {
  folio::SetThreads(2);
  std::atomic<int> met = 0;
  int64_t number = 0;
  folio::ParallelFor(2, [&](int64_t task, int) {
    // On two threads; without synchronisation that the sanitizer would see.
    met.fetch_add(1, std::memory_order_relaxed);
    while (met.load(std::memory_order_relaxed) < 2) continue;
    number += task + 1;
  });
  std::printf("no race was seen: %lld\n", static_cast<long long>(number));
}
