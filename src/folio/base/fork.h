#pragma once

#include <atomic>
#include <cstdint>

namespace folio {

// A mutex for processes that fork while other threads run: those threads do not exist in the child,
// and hold nothing there. A child that locks what one of them held gets it at once; the data that
// it guards may be half-changed.
class ForkMutex {
 public:
  ForkMutex() = default;
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  // Returns true if the mutex was abandoned: what it guards may be inconsistent.
  bool lock();
  bool try_lock();
  void unlock();
  // Returns true if this thread holds it.
  bool HeldHere() const;
  // Returns true in a child process if a thread that does not exist there held it, until it is
  // locked there.
  bool Abandoned() const;

 private:
  bool TryLock(uint64_t& owner);

  std::atomic<uint64_t> owner_ = 0;  // the thread that holds it, 0 for none
};

// Returns how many forks led to this process. A number other than before means that all other
// threads are gone.
uint64_t ForksSoFar();

}  // namespace folio
