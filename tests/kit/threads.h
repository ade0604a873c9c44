#pragma once

#include <gtest/gtest.h>

#include "folio/base/thread_pool.h"

namespace folio {

// The number of threads is as before when it goes.
class KeptThreads {
 public:
  KeptThreads() : before_(Threads()) {}
  ~KeptThreads() { SetThreads(before_); }

 private:
  const int before_;
};

// f() gives the same on any number of threads.
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
