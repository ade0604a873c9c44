#pragma once

#include <gtest/gtest.h>

#include "folio/base/thread_pool.h"

namespace folio {

// Restores the number of threads when it is destroyed.
class KeptThreads {
 public:
  KeptThreads() : before_(Threads()) {}
  ~KeptThreads() { SetThreads(before_); }

 private:
  const int before_;
};

// f() gives the same result on any number of threads.
template <class F>
void ExpectSameOnThreads(F&& f) {
  const KeptThreads kept;
  SetThreads(1);
  const auto first = f();
  for (const int threads : {2, 3, 5}) {
    SetThreads(threads);
    EXPECT_EQ(f(), first) << threads << " threads";
  }
}

}  // namespace folio
